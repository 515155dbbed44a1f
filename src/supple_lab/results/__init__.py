"""Results: the records of a study's runs as arrays."""
