"""Dropout after ReLU as one operator, AID_{p,1} / (1-p) of Property 1: the paper's Dropout baseline at each site."""

from torch import Tensor, nn

from supple import functional as SF
from supple.fields import checked
from supple.layers.fx_leaf import call_of, is_traced


class ReLUDropout(nn.Module):
    """ReLU, then inverted element-wise Dropout of rate ``drop_positive``; in evaluation ReLU."""

    def __init__(self, drop_positive: float = 0.5, inplace: bool = False) -> None:  # 0.5: torch's nn.Dropout
        super().__init__()
        what = "ReLUDropout.drop_positive is the drop rate of positive values"
        self.drop_positive = SF.probability(drop_positive, what)
        self.inplace = checked(inplace, bool, "ReLUDropout.inplace")

    def forward(self, x: Tensor) -> Tensor:
        if is_traced(self, x):
            return call_of(self, x)
        return SF.relu_dropout(x, self.drop_positive, self.training, inplace=self.inplace)

    def extra_repr(self) -> str:
        return f"drop_positive={self.drop_positive:g}" + (", inplace=True" if self.inplace else "")
