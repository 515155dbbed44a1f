"""What an activation costs in the training step of whole networks, in the loop and with the settings of plain torch."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple import kernels
from supple.layers import AID
from supple_lab.bench.timing import compare
from supple_lab.bench.training import ListingAID
from supple_lab.models.base import Activation
from supple_lab.models.mlp import MLP
from supple_lab.models.resnet18 import ResNet18

NO_NODE = "AID without the C++ node"
DROP = 0.1  # of Dropout: as many positive values as AID drops at p = 0.9


@dataclass(frozen=True)
class ModelRow:
    """One activation in one network, over ReLU in the same run."""

    case: str
    candidate: str
    milliseconds: float
    ratio: float
    ratio_quartiles: tuple[float, float]
    turns: int


@dataclass(frozen=True)
class Case:
    """A network by its activation, and the batches that it is trained on."""

    title: str
    build: Callable[[Activation], nn.Module]
    image_shape: tuple[int, int, int]
    batch_size: int
    num_classes: int = 10


class ViT(nn.Module):
    """A vision transformer with a class token and learned positions, of torch's own layers (Dosovitskiy 2021)."""

    def __init__(self, activation: Activation, *, side: int, patch: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, (side // patch) ** 2 + 1, width) * 0.02)
        shape: dict[str, Any] = {"dim_feedforward": 4 * width, "dropout": 0.0, "batch_first": True, "norm_first": True}
        self.layers = nn.Sequential(
            *(nn.TransformerEncoderLayer(width, heads, activation=activation(), **shape) for _ in range(depth))
        )
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 10))

    def forward(self, x_BCHW: Tensor) -> Tensor:
        tokens = self.patches(x_BCHW).flatten(2).transpose(1, 2)
        tokens = torch.cat((self.first.expand(len(tokens), -1, -1), tokens), dim=1) + self.positions
        return self.head(self.layers(tokens)[:, 0])


def resnet18(activation: Activation) -> nn.Module:
    return ResNet18().build(activation, image_shape=(3, 32, 32), num_classes=10)


def mlp(activation: Activation) -> nn.Module:
    return MLP().build(activation, image_shape=(1, 28, 28), num_classes=10)


CASES = {
    "cuda": (
        Case("ResNet-18, batch 128", resnet18, (3, 32, 32), 128),
        Case(
            "ViT-S/16 of 224 pixels, batch 64",
            partial(ViT, side=224, patch=16, width=384, depth=12, heads=6),
            (3, 224, 224),
            64,
        ),
        Case("MLP 3x2000, batch 64", mlp, (1, 28, 28), 64),
        Case("MLP 3x2000, batch 512", mlp, (1, 28, 28), 512),
    ),
    "cpu": (
        Case("ResNet-18, batch 8", resnet18, (3, 32, 32), 8),
        Case(
            "small ViT of 32 pixels, batch 16",
            partial(ViT, side=32, patch=4, width=192, depth=4, heads=3),
            (3, 32, 32),
            16,
        ),
        Case("MLP 3x2000, batch 64", mlp, (1, 28, 28), 64),
    ),
}


def bench_models(device: torch.device, *, seconds_per_case: float, only: str = "") -> Iterator[ModelRow]:
    """Time all candidates of each case in turns: eager, and on a GPU compiled as well (minutes, on a CPU)."""
    for compiled in (False, True) if device.type == "cuda" else (False,):
        for case in CASES[device.type]:
            title = f"{case.title}, {'compiled' if compiled else 'eager'}"
            if only not in title:
                continue
            steps = {name: step(case, device, compiled=compiled) for name, step in candidates(device).items()}
            if compiled:
                steps.pop(NO_NODE, None)  # which compiled code never meets
            for name, found in compare(steps, base="ReLU", device=device, seconds=seconds_per_case).items():
                yield ModelRow(title, name, found.seconds * 1e3, found.ratio, found.quartiles, found.turns)
            torch.compiler.reset()


def candidates(device: torch.device) -> Mapping[str, Callable[..., Callable[[], None]]]:
    """What makes the step of each; ReLU first."""
    steps: dict[str, Callable[..., Callable[[], None]]] = {
        "ReLU": partial(training_step, nn.ReLU),
        "AID": partial(training_step, AID),
        "ReLU + Dropout": partial(training_step, lambda: nn.Sequential(nn.ReLU(), nn.Dropout(DROP))),
        "listing": partial(training_step, ListingAID),
    }
    if kernels.kernel_for(device).node is not None:
        steps[NO_NODE] = partial(training_step, AID, context=partial(without_node, device))
    return steps


def training_step(
    activation: Activation,
    case: Case,
    device: torch.device,
    *,
    compiled: bool,
    context: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
) -> Callable[[], None]:
    """One step of Adam as it comes, on one batch."""
    torch.manual_seed(0)
    model = case.build(activation).to(device)
    run = torch.compile(model) if compiled else model
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    inputs = torch.randn(case.batch_size, *case.image_shape, device=device)
    labels = torch.randint(case.num_classes, (case.batch_size,), device=device)

    def step() -> None:
        with context():
            optimizer.zero_grad()
            F.cross_entropy(run(inputs), labels).backward()
            optimizer.step()

    return step


@contextlib.contextmanager
def without_node(device: torch.device) -> Iterator[None]:
    """While open, the device's kernel has no autograd node in C++."""
    kernel = kernels.kernel_for(device)
    node, kernel.node = kernel.node, None
    try:
        yield
    finally:
        kernel.node = node
