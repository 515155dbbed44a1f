"""Vanilla: the network as it is, ReLU and nothing else (the paper's baseline)."""

from dataclasses import dataclass

from supple.methods.base import Method


@dataclass(frozen=True, kw_only=True)
class Vanilla(Method):
    """ReLU, no remedy."""

    name = "vanilla"
