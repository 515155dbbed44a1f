"""Activation layers: thin modules over `supple.functional`."""
