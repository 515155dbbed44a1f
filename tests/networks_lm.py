"""Layers of language models in plain torch: GPT-2's Conv1D, gated feed-forwards, and blocks made of them."""

import torch
from torch import nn

from written import holding


class Conv1D(nn.Module):
    """As in transformers: the weight is (inputs, outputs)."""

    def __init__(self, num_inputs: int, num_outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(num_inputs, num_outputs) * 0.3)
        self.bias = nn.Parameter(torch.randn(num_outputs) * 0.3)

    def forward(self, x):
        y = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)
        return y.view(*x.shape[:-1], -1)


def written_with_matmul(num_inputs: int, num_outputs: int) -> nn.Module:
    """The same layer with x @ weight + bias for its forward."""

    class WithMatmul(Conv1D):
        def forward(self, x):
            return x @ self.weight + self.bias

    WithMatmul.__name__ = "Conv1D"
    return WithMatmul(num_inputs, num_outputs)


class FeedForward(nn.Module):
    """A residual feed-forward block, between layers of these two kinds."""

    def __init__(self, first=nn.Linear, second=nn.Linear) -> None:
        super().__init__()
        self.norm, self.fc, self.act, self.proj = nn.LayerNorm(6), first(6, 7), nn.GELU(), second(7, 6)

    def forward(self, x):
        return x + self.proj(self.act(self.fc(self.norm(x))))


class Gated(nn.Module):
    """A residual SwiGLU block: unit i is row i of gate, row i of up, and column i of down."""

    def __init__(self, layer=nn.Linear, act=nn.SiLU) -> None:
        super().__init__()
        self.gate, self.up, self.down, self.act = layer(6, 7), layer(6, 7), layer(7, 6), act()
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return x + self.down(self.dropout(self.act(self.gate(x)) * self.up(x)))


class UpFirst(Gated):
    """The same, called in another order."""

    def forward(self, x):
        up = self.up(x)
        return x + self.down(up * self.act(self.gate(x)))


class GatedChannels(nn.Module):
    """A gated convolution, flattened: channel i owns four columns at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.act, self.fc = nn.Conv2d(6, 4, 3), nn.Conv2d(6, 4, 3), nn.Sigmoid(), nn.Linear(16, 3)
        self.pool = nn.AdaptiveAvgPool2d(2)

    def forward(self, x):
        return self.fc(self.pool(self.act(self.gate(x)) * self.up(x)).flatten(1))


class ReadTwice(Gated):
    """What up gives is read past the product."""

    def forward(self, x):
        up = self.up(x)
        return self.down(self.act(self.gate(x)) * up) + up.sum(-1, keepdim=True)


class TwoGates(Gated):
    """Both factors pass an activation, so that neither is a partner of the other."""

    def __init__(self) -> None:
        super().__init__()
        self.other = nn.Tanh()

    def forward(self, x):
        return self.down(self.act(self.gate(x)) * self.other(self.up(x)))


@holding(lambda: {"gate_up": nn.Linear(6, 14), "act": nn.SiLU(), "down": nn.Linear(7, 6)})
class Fused(nn.Module):
    """Gate and up are halves of one layer."""

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(self.act(gate) * up)


class Rolled(Gated):
    """The product pairs unit i with row i - 1 of up."""

    def forward(self, x):
        return self.down(self.act(self.gate(x)) * self.up(x).roll(1, -1))
