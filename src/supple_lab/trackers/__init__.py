"""Trackers: programs that show a run's curves while it goes, one file each."""
