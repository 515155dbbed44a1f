"""The identity as an activation of its own: a deep linear network, the paper's ablation (appendix)."""

from torch import Tensor, nn


class Identity(nn.Module):
    """x, as a view: unlike nn.Identity's, its output is another tensor than its input, which a trace can tell apart."""

    def forward(self, x: Tensor) -> Tensor:
        return x.view_as(x)
