"""What a kernel is: interval-wise dropout forward, the gate of its backward, and the intervals both work on."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Intervals:
    """The paper's I_1 .. I_k and p_1 .. p_k (section 4.2): k-1 sorted edges, k drop rates, [l, u) intervals.

    ``scale`` multiplies what is kept; Dropout after ReLU is two intervals with scale 1/(1-p) (Property 1).
    """

    edges: tuple[float, ...]
    drop: tuple[float, ...]
    scale: float = 1.0

    @property
    def two_at_zero(self) -> bool:
        """Whether the fast path serves: one edge, and it is zero."""
        return self.edges == (0.0,)


class Kernel(ABC):
    """The operator on one kind of device. Masks follow the device's own generator, or the one passed."""

    name: str

    @abstractmethod
    def drop(self, x: Tensor, intervals: Intervals, *, generator: torch.Generator | None, out: Tensor | None) -> Tensor:
        """Each element times ``scale`` with the keep rate of its interval, else 0; NaN stays NaN. ``out`` may be x."""

    @abstractmethod
    def gate(self, grad: Tensor, y: Tensor, scale: float) -> Tensor:
        """``grad * scale`` where y is not zero, else 0: the backward, which needs no mask and not the input."""
