"""What a Monitor costs: a training step that it reads against one that it does not, spread over its interval."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from supple.monitor import DEFAULT_EVERY, Monitor
from supple_lab.bench.timing import compare
from supple_lab.bench.training import Case
from supple_lab.models.mlp import MLP
from supple_lab.models.resnet18 import ResNet18


@dataclass(frozen=True)
class MonitorRow:
    """The cost in one case."""

    case: str
    milliseconds: float  # of a step without Monitor
    reading_over_step: float  # what a reading adds, in steps
    reading_quartiles: tuple[float, float]
    cost: float  # share of the time at the default interval
    turns: int


CASES = (
    Case("MLP 3x2000, batch 64", MLP(), (1, 28, 28), 64),
    Case("MLP 3x256, batch 64", MLP(width=256), (1, 8, 8), 64),
    Case("ResNet-18, 32x32, batch 32", ResNet18(), (3, 32, 32), 32),
)


def bench_monitor(device: torch.device, *, seconds_per_case: float) -> Iterator[MonitorRow]:
    for case in CASES:
        works = {"plain": training(case, device), "read": training(case, device, monitored=True)}
        found = compare(works, base="plain", device=device, seconds=seconds_per_case)
        low, high = found["read"].quartiles
        yield MonitorRow(
            case=case.title,
            milliseconds=found["plain"].seconds * 1e3,
            reading_over_step=found["read"].ratio - 1.0,
            reading_quartiles=(low - 1.0, high - 1.0),
            cost=(found["read"].ratio - 1.0) / DEFAULT_EVERY,
            turns=found["read"].turns,
        )


def training(case: Case, device: torch.device, *, monitored: bool = False) -> Callable[[], object]:
    """One training step of the network; with a Monitor that reads every one."""
    torch.manual_seed(0)
    network = case.model.build(nn.ReLU, image_shape=case.image_shape, num_classes=10).to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-4, fused=True)
    inputs = torch.rand(case.batch_size, *case.image_shape, device=device)
    labels = torch.randint(10, (case.batch_size,), device=device)
    monitor = Monitor(network, every=1) if monitored else None

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(network(inputs), labels).backward()
        optimizer.step()
        if monitor is not None:
            monitor.step()

    return step
