"""What a kernel is: interval-wise dropout forward, the gate of its backward, and the intervals both work on."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from supple.random import HeldMasks


class Intervals(NamedTuple):  # made and looked up at every call, in a third of a dataclass's time
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

    def slope_at_zero(self, dtype: torch.dtype) -> float:
        """The gradient at x == 0: the mask's mean times the scale if 0 lies inside an interval, 0 if it is an edge."""
        if self.edges == (0.0,):
            return 0.0
        info = torch.finfo(dtype)
        rounds_to_zero = info.smallest_normal * info.eps / 2  # half the least positive number, which rounds to even
        if any(abs(edge) <= rounds_to_zero for edge in self.edges):
            return 0.0
        return (1.0 - self.drop[sum(edge <= 0.0 for edge in self.edges)]) * self.scale


class Kernel(ABC):
    """The operator on one kind of device. Masks follow the device's own generator, or the one passed."""

    name: str
    node: Any = None  # the module of node.cpp, if it is built and of use here

    @abstractmethod
    def drop(self, x: Tensor, intervals: Intervals, *, generator: torch.Generator | None, out: Tensor | None) -> Tensor:
        """Each element times ``scale`` with the keep rate of its interval, else 0; NaN stays NaN. ``out`` may be x.

        If the slope at 0 is not 0, elements equal to 0 give -0 and all other zeros are +0, for the gate to tell apart.
        """

    def drop_held(self, x: Tensor, intervals: Intervals, held: HeldMasks, out: Tensor | None) -> Tensor | None:
        """The same by held masks, which are alike on all kernels; None if it does not serve such a tensor."""
        return None

    def drop_in_node(
        self, x: Tensor, intervals: Intervals, generator: torch.Generator | None, inplace: bool
    ) -> Tensor | None:
        """The same, differentiable, in one call of the node; None if it does not serve such a tensor."""
        return None

    @abstractmethod
    def gate(self, grad: Tensor, y: Tensor, scale: float, at_zero: float = 0.0) -> Tensor:
        """The backward, which needs no mask and not the input: ``grad * scale`` where y is not zero, else 0.

        Where y is -0 it is ``grad * at_zero``, the slope there.
        """
