"""Metrics of plasticity, one file each; `observation.observe` gathers what they read."""
