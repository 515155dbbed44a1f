"""The store: a folder a run, written by one process at a time."""
