"""The parts of the Monitor: what it knows of each layer, how it says it, where it writes."""
