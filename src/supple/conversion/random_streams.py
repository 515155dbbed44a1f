"""The random streams a forward is likely to draw from, kept to notice draws and to take them back."""

import random
import sys
from typing import Any

import torch


class RandomStreams:
    """The states of torch's, Python's and numpy's default generators as they are now."""

    def __init__(self) -> None:
        self.numpy: Any = sys.modules.get("numpy")
        self.torch_state = torch.get_rng_state()
        self.python_state = random.getstate()
        self.numpy_state: Any = self.numpy and self.numpy.random.get_state()

    def rewind_(self) -> bool:
        """Set every stream back; whether any had moved."""
        now = RandomStreams()
        torch.set_rng_state(self.torch_state)
        random.setstate(self.python_state)
        if self.numpy:
            self.numpy.random.set_state(self.numpy_state)
        return not self.equals(now)

    def equals(self, other: "RandomStreams") -> bool:
        """Whether every stream is at the same point."""
        if not torch.equal(self.torch_state, other.torch_state) or self.python_state != other.python_state:
            return False
        return not self.numpy or all(map(self.numpy.array_equal, self.numpy_state, other.numpy_state))
