"""lora_language: a GPT fine-tuned by LoRA on one package after another, with AID or Dropout inside, or nothing.

    python tools/lora_language.py --data DIR [--scale quick|full] [--seeds 5]      # needs peft; prints a table

A byte-level GPT is trained on the modules of the standard library that are in no large package, and then frozen. One
adapter (rank 8 on every linear layer of the blocks) learns a package, then the next, in an order of the seed, with one
Adam. All arms of a seed see the same network and the same batches. "Dropout" is PEFT's own, before the projection down;
AID and ReLU stand between the two projections, as put_aid_in_lora puts them (AID with p = 1 is ReLU). "New adapters"
are plain ones that start afresh with each package.
"""

import argparse
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn

from supple import AID
from supple.integrations.peft import put_aid_in_lora
from supple_lab.data.base import Examples, Splits
from supple_lab.data.files import use_folder
from supple_lab.data.text import CPython, Sums, Text
from supple_lab.models.gpt import GPT
from supple_lab.results.intervals import format_mean, mean_interval
from supple_lab.scenarios.class_incremental import of_classes
from supple_lab.streams import stream, stream_seed

RATE, BATCH, CLIP = 1e-3, 16, 1.0
TARGETS = ["qkv", "out", "up", "down"]


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Sizes: of the network, of its training before, and of the packages in a row."""

    text: Text
    model: GPT
    pretraining: int  # steps
    num_packages: int
    steps: int  # on each package
    num_tested: int  # windows


SCALES = {
    "smoke": Scale(
        text=Sums(window=16),
        model=GPT(num_layers=1, width=16, num_heads=2),
        pretraining=4,
        num_packages=2,
        steps=2,
        num_tested=8,
    ),
    "quick": Scale(
        text=CPython(window=64),
        model=GPT(num_layers=2, width=64, num_heads=2),
        pretraining=1024,
        num_packages=6,
        steps=64,
        num_tested=128,
    ),
    "full": Scale(text=CPython(), model=GPT(), pretraining=8192, num_packages=15, steps=256, num_tested=62),
}


@dataclass(frozen=True, kw_only=True)
class Arm:
    """What an adapter has besides its two projections."""

    dropout: float = 0.0
    relu_prob: float | None = None
    renewed: bool = False  # a new adapter with each package


ARMS = {
    "nothing": Arm(),
    "Dropout 0.1": Arm(dropout=0.1),
    "AID 0.9": Arm(relu_prob=0.9),
    "AID 0.99": Arm(relu_prob=0.99),
    "ReLU": Arm(relu_prob=1.0),
    "nothing, new adapters": Arm(renewed=True),
}
PLAIN = "nothing"


def pretrained(scale: Scale, splits: Splits, *, seed: int, device: torch.device) -> nn.Module:
    """The network after its training on the last part of the text."""
    torch.manual_seed(stream_seed(seed, "initialisation"))
    model = scale.model.build(nn.GELU, image_shape=splits.train.image_shape, num_classes=splits.num_classes).to(device)
    own = of_classes(splits.train, splits.train.labels_N.max().view(1))
    train_(model, own, steps=scale.pretraining, optimizer=torch.optim.Adam(model.parameters(), lr=RATE), seed=seed)
    return model


def train_(model: nn.Module, examples: Examples, *, steps: int, optimizer: torch.optim.Optimizer, seed: int) -> float:
    """Take steps on batches in a drawn order; return the mean loss of the forwards that were trained on."""
    parameters, total = [p for p in model.parameters() if p.requires_grad], 0.0
    model.train()
    for indices in batches(examples, steps, seed=seed):
        inputs, labels = examples.batch(indices)
        loss = F.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        total += loss.item()
    return total / steps


def batches(examples: Examples, steps: int, *, seed: int) -> Iterator[Tensor]:
    """Whole batches, pass after pass in another order."""
    generator, order = stream(seed, "order"), torch.empty(0, dtype=torch.int64)
    for _ in range(steps):
        if len(order) < BATCH:
            order = torch.randperm(len(examples), generator=generator)
        indices, order = order[:BATCH], order[BATCH:]
        yield indices.to(examples.labels_N.device)


def adapter_of(base: nn.Module, arm: Arm, *, seed: int) -> nn.Module:
    """A copy of the frozen network with a new adapter, which starts alike in all arms."""
    torch.manual_seed(stream_seed(seed, "adapter"))
    config = LoraConfig(r=8, lora_alpha=16, lora_dropout=arm.dropout, target_modules=TARGETS)
    model = get_peft_model(copy.deepcopy(base), config)  # type: ignore[arg-type]
    return model if arm.relu_prob is None else put_aid_in_lora(model, AID(p=arm.relu_prob))


@torch.no_grad()
def evaluated_loss(model: nn.Module, examples: Examples) -> float:
    """In evaluation mode."""
    model.eval()
    inputs, labels = examples.batch(torch.arange(len(examples), device=examples.labels_N.device))
    return F.cross_entropy(model(inputs), labels).item()


def losses_of(scale: Scale, splits: Splits, base: nn.Module, arm: Arm, *, seed: int) -> np.ndarray:
    """Online and test loss on each package in turn: (packages, 2)."""
    number = int(splits.train.labels_N.max())  # without the last part, which the network has seen
    packages = torch.randperm(number, generator=stream(seed, "packages"))[: scale.num_packages]
    model, found = None, []
    for place, package in enumerate(packages):
        if model is None or arm.renewed:
            model = adapter_of(base, arm, seed=seed)
            optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=RATE)
        train, test = (of_classes(examples, package.view(1)) for examples in (splits.train, splits.test))
        online = train_(model, train, steps=scale.steps, optimizer=optimizer, seed=stream_seed(seed, "package", place))
        found.append((online, evaluated_loss(model, test.first(scale.num_tested))))
    return np.array(found)


def table(losses: dict[str, np.ndarray]) -> str:
    """A line an arm: late losses, and the test loss beside that of plain adapters; losses are (seeds, packages, 2)."""
    late = {name: values[:, values.shape[1] // 2 :].mean(axis=1) for name, values in losses.items()}
    lines = ["| inside | online loss | test loss | test loss − that of nothing | |", "|---|---|---|---|---|"]
    for name, values in late.items():
        online, test = (format_mean(column, decimals=3) for column in values.T)
        difference = values[:, 1] - late[PLAIN][:, 1]
        interval = mean_interval(difference)
        words = "" if name == PLAIN or interval is None else verdict(interval)
        shown = "" if not words else f"{difference.mean():+.4f} ({interval[0]:+.4f} to {interval[1]:+.4f})"
        lines.append(f"| {name} | {online} | {test} | {shown} | {words} |")
    return "\n".join(lines)


def verdict(interval: tuple[float, float]) -> str:
    """What the 95% interval of a difference in loss says."""
    return "helps" if max(interval) < 0 else "hurts" if min(interval) > 0 else "no difference seen"


def main(arguments: list[str] | None = None) -> None:
    """Train all arms, seed by seed, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=SCALES, default="quick")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", type=Path)
    chosen = parser.parse_args(arguments)
    if chosen.data is not None:
        use_folder(chosen.data)
    scale, device = SCALES[chosen.scale], torch.device("cuda" if torch.cuda.is_available() else "cpu")
    splits, losses = scale.text.load(device), {name: [] for name in ARMS}
    for seed in range(chosen.seeds):
        base = pretrained(scale, splits, seed=seed, device=device)
        for name, arm in ARMS.items():
            losses[name].append(losses_of(scale, splits, base, arm, seed=seed))
            print(f"seed {seed}, {name}: test losses {losses[name][-1][:, 1].round(3).tolist()}", flush=True)
    print(f"\nNats a byte over the last half of {scale.num_packages} packages; mean ± deviation, n = {chosen.seeds}:")
    print(table({name: np.array(values) for name, values in losses.items()}))


if __name__ == "__main__":
    main()
