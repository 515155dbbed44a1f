"""Runs: one spec, trained, recorded, checkpointed, resumed."""
