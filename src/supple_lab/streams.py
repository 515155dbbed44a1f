"""Independent random streams of a run, each named by its purpose: all methods of a seed see the same tasks."""

import hashlib

import torch


def stream_seed(seed: int, *purpose: str | int) -> int:
    """A 63-bit seed for one purpose of one run: equal names give equal streams, different names unrelated ones."""
    name = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) >> 1


def stream(seed: int, *purpose: str | int) -> torch.Generator:
    """A CPU generator for one purpose: the numbers do not depend on the device that uses them."""
    return torch.Generator().manual_seed(stream_seed(seed, *purpose))
