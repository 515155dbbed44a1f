"""DropReLU (Liang et al. 2021, "Drop-Activation"): ReLU or the identity, drawn per element; AID_{0,p} of Property 1."""

from torch import Tensor, nn

from supple import functional as SF
from supple.fields import checked
from supple.layers.fx_leaf import call_of, is_traced


class DropReLU(nn.Module):
    """ReLU with probability ``relu_prob``, else the identity; in evaluation a leaky ReLU of slope 1 - relu_prob."""

    def __init__(self, relu_prob: float = 0.95, inplace: bool = False) -> None:  # 0.95: the default of its paper
        super().__init__()
        self.relu_prob = SF.probability(relu_prob, "DropReLU.relu_prob is the probability of the ReLU branch")
        self.inplace = checked(inplace, bool, "DropReLU.inplace")

    def forward(self, x: Tensor) -> Tensor:
        if is_traced(self, x):
            return call_of(self, x)
        return SF.drop_relu(x, self.relu_prob, self.training, inplace=self.inplace)

    def extra_repr(self) -> str:
        return f"relu_prob={self.relu_prob:g}" + (", inplace=True" if self.inplace else "")
