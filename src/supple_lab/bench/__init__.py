"""Benchmarks: ratios measured side by side in one process, as a table and as JSON."""
