"""GPT: a transformer that reads bytes and predicts the byte after each (Radford et al. 2019, without dropout)."""

import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple_lab.errors import at_least, positive
from supple_lab.models.base import Activation, Model, halved

SPREAD = 0.02  # GPT-2's standard deviation of initial weights


@dataclass(frozen=True, kw_only=True)
class GPT(Model):
    """Pre-norm blocks of causal attention and an MLP of four times the width; learned positions, no tied weights.

    The MLP has the method's activation in place of GPT-2's GELU; units are its hidden ones. Weights of linear layers
    and embeddings start normal with deviation 0.02, those that write to the residual stream divided by
    sqrt(2 num_layers), biases at zero. The defaults, 10.9 million parameters, are nanoGPT's for characters.
    """

    name = "gpt"
    num_layers: int = 6
    width: int = 384
    num_heads: int = 6
    clip_norm: float | None = field(default=1.0, metadata={"later": True})  # GPT-3's, and nanoGPT's

    def __post_init__(self) -> None:
        at_least(1, self, "num_layers", "width", "num_heads")
        if self.width % self.num_heads:
            raise ValueError(f"GPT.width must be a multiple of num_heads, {self.num_heads}; got {self.width}.")
        positive(self, "clip_norm")

    def build(self, activation: Activation, *, image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
        return Network(self, activation, num_positions=math.prod(image_shape), num_classes=num_classes)


class Network(nn.Module):
    """Logits of the byte after each, (windows, bytes' values, places), as F.cross_entropy takes them."""

    def __init__(self, model: GPT, activation: Activation, *, num_positions: int, num_classes: int) -> None:
        super().__init__()
        self.token = nn.Embedding(num_classes, model.width)
        self.position = nn.Parameter(torch.zeros(num_positions, model.width))
        self.blocks = nn.Sequential(*(Block(model, activation) for _ in range(model.num_layers)))
        self.norm = nn.LayerNorm(model.width)
        self.head = nn.Linear(model.width, num_classes, bias=False)
        nn.init.normal_(self.position, std=SPREAD)
        for name, layer in self.named_modules():
            if isinstance(layer, nn.Linear | nn.Embedding):
                writes = name.endswith((".out", ".down"))
                nn.init.normal_(layer.weight, std=SPREAD / math.sqrt(2 * model.num_layers) if writes else SPREAD)
            if isinstance(layer, nn.Linear) and layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def forward(self, bytes_BT: Tensor) -> Tensor:
        tokens_BT = bytes_BT.flatten(1).long()  # they may come as images of one line
        x_BTD = self.token(tokens_BT) + self.position[: tokens_BT.shape[1]]
        logits_BTV: Tensor = self.head(self.norm(self.blocks(x_BTD)))
        return logits_BTV.transpose(1, 2)


class Block(nn.Module):
    """Attention and MLP, each added to what came in."""

    def __init__(self, model: GPT, activation: Activation) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(model.width), CausalAttention(model)
        self.norm2 = nn.LayerNorm(model.width)
        self.up, self.act = nn.Linear(model.width, halved(4 * model.width, activation)), activation()
        self.down = nn.Linear(4 * model.width, model.width)

    def forward(self, x_BTD: Tensor) -> Tensor:
        x_BTD = x_BTD + self.attention(self.norm1(x_BTD))
        # Tokens are the examples of the MLP: a norm inside the activation (NormReLU) must not see later ones.
        update_ND: Tensor = self.down(self.act(self.up(self.norm2(x_BTD).flatten(0, 1))))
        return x_BTD + update_ND.view_as(x_BTD)


class CausalAttention(nn.Module):
    """Each place sees itself and those before it."""

    def __init__(self, model: GPT) -> None:
        super().__init__()
        self.num_heads = model.num_heads
        self.qkv, self.out = nn.Linear(model.width, 3 * model.width), nn.Linear(model.width, model.width)

    def forward(self, x_BTD: Tensor) -> Tensor:
        parts = self.qkv(x_BTD).chunk(3, dim=2)
        query, key, value = (part.unflatten(2, (self.num_heads, -1)).transpose(1, 2) for part in parts)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        mixed: Tensor = self.out(seen.transpose(1, 2).flatten(2))
        return mixed
