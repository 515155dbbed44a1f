"""What an activation costs in the training step of whole networks, in the loop and with the settings of plain torch."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple import kernels
from supple.convert import convert
from supple.convert.pools import AveragePool2d
from supple.layers import AID
from supple_lab.bench.timing import captured, compare
from supple_lab.bench.training import ListingAID
from supple_lab.models.base import Activation
from supple_lab.models.mlp import MLP
from supple_lab.models.resnet18 import ResNet18
from supple_lab.models.vgg16 import VGG16

Mode = Literal["eager", "compiled", "captured"]

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
    mixed: bool = False  # autocast to bfloat16, channels last
    modes: tuple[Mode, ...] = ("eager", "compiled")
    pooled: bool = False  # with candidates that differ in their pools


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


resnet18 = partial(ResNet18().build, image_shape=(3, 32, 32), num_classes=10)
mlp = partial(MLP().build, image_shape=(1, 28, 28), num_classes=10)
vgg16 = partial(VGG16().build, image_shape=(3, 64, 64), num_classes=200)
VGG = Case("VGG-16 of 64 pixels, batch 256", vgg16, (3, 64, 64), 256, 200, modes=("eager", "captured"), pooled=True)
CASES: dict[str, tuple[Case, ...]] = {
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
        VGG,
        replace(VGG, title=f"{VGG.title}, bf16", mixed=True),
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
    """Time all candidates of each case in turns: eager, and on a GPU compiled or captured (compiling takes minutes)."""
    modes: tuple[Mode, ...] = ("eager", "captured", "compiled") if device.type == "cuda" else ("eager",)
    for mode in modes:
        for case in CASES[device.type]:
            title = f"{case.title}, {mode}"
            if mode not in case.modes or only not in title:
                continue
            steps = {
                name: step(case, device, mode=mode)
                for name, step in candidates(case, device).items()
                if mode == "eager" or name != NO_NODE  # compiled code and a replay do without it
            }
            for name, found in compare(steps, base="ReLU", device=device, seconds=seconds_per_case).items():
                yield ModelRow(title, name, found.seconds * 1e3, found.ratio, found.quartiles, found.turns)
            torch.compiler.reset()


def candidates(case: Case, device: torch.device) -> Mapping[str, Callable[..., Callable[[], None]]]:
    """What makes the step of each; ReLU first."""
    steps: dict[str, Callable[..., Callable[[], None]]] = {
        "ReLU": partial(training_step, nn.ReLU),
        "AID": partial(training_step, AID),
        "ReLU + Dropout": partial(training_step, lambda: nn.Sequential(nn.ReLU(), nn.Dropout(DROP))),
        "listing": partial(training_step, ListingAID),
    }
    if kernels.kernel_for(device).node is not None:
        steps[NO_NODE] = partial(training_step, AID, context=partial(without_node, device))
    if case.pooled:
        # With ReLU the network has max-pools, with AID average-pools whose backward is one division.
        steps |= {
            "AID by convert": partial(training_step, nn.ReLU, change=lambda model: convert(model, AID())),
            "ReLU, average-pools": partial(training_step, nn.ReLU, change=partial(with_pools, AveragePool2d)),
            "ReLU, torch's average-pools": partial(training_step, nn.ReLU, change=partial(with_pools, nn.AvgPool2d)),
            "AID, max-pools": partial(training_step, AID, change=partial(with_pools, nn.MaxPool2d)),
            "AID, torch's average-pools": partial(training_step, AID, change=partial(with_pools, nn.AvgPool2d)),
        }
    return steps


def training_step(
    activation: Activation,
    case: Case,
    device: torch.device,
    *,
    mode: Mode,
    change: Callable[[nn.Module], nn.Module] = lambda model: model,
    context: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
) -> Callable[[], None]:
    """One step of Adam as it comes, on one batch."""
    torch.manual_seed(0)
    layout = torch.channels_last if case.mixed else torch.contiguous_format
    model = change(case.build(activation)).to(device, memory_format=layout)  # type: ignore[call-overload]
    run = torch.compile(model) if mode == "compiled" else model
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, capturable=mode == "captured")
    inputs = torch.randn(case.batch_size, *case.image_shape, device=device).contiguous(memory_format=layout)
    labels = torch.randint(case.num_classes, (case.batch_size,), device=device)

    def step() -> None:
        with context():
            optimizer.zero_grad()
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=case.mixed):
                loss = F.cross_entropy(run(inputs), labels)
            loss.backward()
            optimizer.step()

    return captured(step) if mode == "captured" else step


def with_pools(pool: Callable[[int], nn.Module], model: nn.Module) -> nn.Module:
    pools = (nn.MaxPool2d, nn.AvgPool2d)
    return nn.Sequential(*(pool(2) if isinstance(layer, pools) else layer for layer in model.children()))


@contextlib.contextmanager
def without_node(device: torch.device) -> Iterator[None]:
    """While open, the device's kernel has no autograd node in C++."""
    kernel = kernels.kernel_for(device)
    node, kernel.node = kernel.node, None
    try:
        yield
    finally:
        kernel.node = node
