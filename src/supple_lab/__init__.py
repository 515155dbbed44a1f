"""The laboratory: every experiment of the AID paper, runnable and resumable."""
