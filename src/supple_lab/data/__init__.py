"""Datasets: uint8 images on the device, normalised there."""
