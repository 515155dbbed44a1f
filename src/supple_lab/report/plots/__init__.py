"""Plots: figures as matplotlib pictures, one file for each kind of panel."""
