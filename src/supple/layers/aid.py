"""AID_p, the paper's simplified Activation by Interval-wise Dropout (section 4.3, Algorithm 2) as a module."""

from torch import Tensor, nn

from supple import functional as SF
from supple.fields import checked
from supple.layers.fx_leaf import call_of, is_traced


class AID(nn.Module):
    """ReLU with probability p, else negative ReLU, for every element; in evaluation r_p, their mean.

    p = 1 is ReLU, p = 0.5 a linear network under dropout. The paper uses 0.9 to 0.99 to keep a network trainable,
    0.7 to 0.95 for generalisation, 0.99 and 0.999 in reinforcement learning.
    """

    def __init__(self, p: float = 0.9, inplace: bool = False) -> None:
        super().__init__()
        self.p = SF.probability(p, "AID.p is the probability of the ReLU branch")
        self.inplace = checked(inplace, bool, "AID.inplace")

    def forward(self, x: Tensor) -> Tensor:
        if is_traced(self, x):
            return call_of(self, x)
        return SF.aid(x, self.p, self.training, inplace=self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p:g}" + (", inplace=True" if self.inplace else "")
