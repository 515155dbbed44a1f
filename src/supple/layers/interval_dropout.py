"""General AID (section 4.2, Algorithm 1): any number of intervals, each with its own drop rate."""

from collections.abc import Sequence

from torch import Tensor, nn

from supple import functional as SF
from supple.fields import checked
from supple.layers.fx_leaf import call_of, is_traced


class IntervalDropout(nn.Module):
    """Drop an element with the rate of the [l, u) interval it lies in; in evaluation scale it by the keep rate.

    k-1 sorted edges make k intervals. ``IntervalDropout(edges=(0.0,), drop=(q, r))`` is the paper's AID_{r,q}.
    """

    def __init__(self, edges: Sequence[float], drop: Sequence[float], *, inplace: bool = False) -> None:
        super().__init__()
        self.edges = SF.sorted_edges(edges)
        self.drop = SF.drop_rates(drop, num_edges=len(self.edges))
        self.inplace = checked(inplace, bool, "IntervalDropout.inplace")

    def forward(self, x: Tensor) -> Tensor:
        if is_traced(self, x):
            return call_of(self, x)
        return SF.interval_dropout(x, self.edges, self.drop, self.training, inplace=self.inplace)

    def extra_repr(self) -> str:
        return f"edges={self.edges}, drop={self.drop}" + (", inplace=True" if self.inplace else "")
