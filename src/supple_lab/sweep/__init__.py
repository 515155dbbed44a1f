"""Sweeps: many runs on one machine or many."""
