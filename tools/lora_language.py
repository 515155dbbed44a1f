"""lora_language: a GPT fine-tuned by LoRA on one package after another, with AID or Dropout inside, or nothing.

    python tools/lora_language.py --data DIR --out DIR [--scale quick|full] [--seeds 0 1 2]      # prints two tables

A byte-level GPT is trained on the modules of the standard library that are in no large package, and then frozen. One
adapter (rank 8 on every linear layer of the blocks) learns a package, then the next, in an order of the seed, with one
Adam. All arms of a seed see the same network and the same batches. Dropout stands before the projection down, as PEFT
puts it; AID and ReLU stand between the two projections, as put_aid_in_lora puts them (AID with p = 1 is ReLU). "New
adapters" are plain ones that start again with each package.

A seed that ends leaves a file in the folder and is not trained again; seeds may be trained by several processes at
once. The tables are of the seeds named that have ended.
"""

import argparse
import copy
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from supple import AID
from supple.attach import Plasticity
from supple.learner import Learner, forget_
from supple.methods import Vanilla
from supple.random import mask_stream
from supple_lab.data.base import DataError, Examples, Splits
from supple_lab.data.files import use_folder
from supple_lab.data.text import CPython, Sums, Text
from supple_lab.files import atomic_write
from supple_lab.models.gpt import GPT
from supple_lab.optimizer import Adam
from supple_lab.precision import Numerics, Precision
from supple_lab.provenance import gather_provenance, hardware_of
from supple_lab.results.intervals import format_mean, mean_interval
from supple_lab.run.capture import graphs_that_end_together
from supple_lab.run.evaluate import Evaluation
from supple_lab.run.step import TrainState, choose_steps
from supple_lab.scenarios.class_incremental import of_classes
from supple_lab.streams import stream, stream_seed

RATE, BATCH, CLIP = 1e-3, 16, 1.0
TARGETS = ("qkv", "out", "up", "down")
RANK, SCALING = 8, 2.0  # alpha = 16


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Sizes: of the network, of its training before, and of the packages in a row."""

    text: Text
    model: GPT
    pretraining: int  # steps
    pretraining_rate: float = RATE
    num_packages: int
    steps: int  # on each package
    num_tested: int  # windows
    precision: Precision = "default"


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
    "full": Scale(
        text=CPython(),
        model=GPT(),
        pretraining=8192,
        pretraining_rate=3e-4,  # at 1e-3 one of three networks stayed at 2.5 nats a byte
        num_packages=15,
        steps=256,
        num_tested=62,
        precision="bf16",
    ),
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
PLAIN, FROZEN = "nothing", "no adapter"
COMPARED = (*((name, PLAIN) for name in ARMS if name != PLAIN), ("AID 0.9", "Dropout 0.1"), ("AID 0.99", "Dropout 0.1"))


Losses = dict[str, list[list[float]]]  # by arm, of each package: online and test


class LoRA(nn.Module):
    """A frozen linear layer with an adapter beside it, which starts as PEFT's does: the projection up from zeros."""

    def __init__(self, frozen: nn.Linear, arm: Arm) -> None:
        super().__init__()
        self.frozen, self.dropout = frozen, nn.Dropout(arm.dropout)
        self.inside = nn.Identity() if arm.relu_prob is None else AID(p=arm.relu_prob)
        self.down = nn.Linear(frozen.in_features, RANK, bias=False)
        self.up = nn.Linear(RANK, frozen.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        dropped = self.dropout(x.to(self.down.weight.dtype))  # as in PEFT, in bfloat16, too
        result: Tensor = self.frozen(x) + self.up(self.inside(self.down(dropped))) * SCALING
        return result


def adapter_of(base: nn.Module, arm: Arm, *, seed: int) -> nn.Module:
    """A copy of the frozen network with a new adapter, which starts alike in all arms and on all devices."""
    torch.manual_seed(stream_seed(seed, "adapter"))
    model = copy.deepcopy(base).requires_grad_(False)
    for name, layer in list(model.named_modules()):
        if isinstance(layer, nn.Linear) and name.endswith(TARGETS):
            model.set_submodule(name, LoRA(layer, arm).to(layer.weight.device))
    return model


class Training:
    """A network that trains by the laboratory's own steps, which are captured on a GPU."""

    def __init__(
        self,
        model: nn.Module,
        *,
        numerics: Numerics,
        num_examples: int,
        masks: torch.Generator,
        rate: float = RATE,
    ) -> None:
        self.trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        learner = Learner(model, Adam(learning_rate=rate).build(self.trained))
        sums = torch.zeros(2, dtype=torch.float64, device=numerics.device)
        self.state = TrainState(Plasticity(learner, (Vanilla(),), clip_norm=CLIP), numerics, masks, sums)
        self.steps = choose_steps(self.state, num_examples=num_examples)
        self.evaluation = Evaluation(model, numerics)

    def train(self, examples: Examples, *, steps: int, seed: int) -> float:
        """Take steps on batches in a drawn order; return the mean loss of the forwards that were trained on."""
        self.state.sums.zero_()
        self.steps.begin_stage(examples)
        ahead = batches(examples, steps, seed=seed)
        while ahead:
            ahead = ahead[self.steps.take(ahead) :]
        return self.state.sums[0].item() / (steps * BATCH * examples.image_shape[2])

    def renew(self) -> None:
        """Put weights and optimizer back to their start, in place."""
        learner = self.state.learner
        with torch.no_grad():
            for name, parameter in learner.model.named_parameters():
                parameter.copy_(learner.initial[name])
        forget_(learner.optimizer, self.trained)

    def test_loss(self, examples: Examples) -> float:
        return self.evaluation.scores({"test": examples})["test_loss"]


def batches(examples: Examples, steps: int, *, seed: int) -> tuple[Tensor, ...]:
    """The indices of whole batches, pass after pass in another order."""
    generator, per_pass = stream(seed, "order"), len(examples) // BATCH
    passes = [torch.randperm(len(examples), generator=generator) for _ in range(-(-steps // per_pass))]
    indices = torch.cat([order[: per_pass * BATCH].view(-1, BATCH) for order in passes])[:steps]
    return indices.to(examples.labels_N.device).unbind()


def losses_by_arm(scale: Scale, splits: Splits, *, seed: int, numerics: Numerics) -> Losses:
    """Online and test loss on each package in turn, arm by arm; of the network without an adapter the test loss."""
    masks = torch.Generator(numerics.device).manual_seed(stream_seed(seed, "masks"))
    number = int(splits.train.labels_N.max())  # the last part is what the network is trained on before
    drawn = torch.randperm(number, generator=stream(seed, "packages"))[: scale.num_packages]
    packages = [[of_classes(one, label.view(1)) for one in (splits.train, splits.test)] for label in drawn]
    packages = [[train, test.first(scale.num_tested)] for train, test in packages]
    with numerics.matmuls(), mask_stream(masks):
        base = pretrained(scale, splits, seed=seed, numerics=numerics, masks=masks)
        evaluation = Evaluation(base, numerics)
        found = {FROZEN: [[evaluation.scores({"test": test})["test_loss"]] for _, test in packages]}
        for name, arm in ARMS.items():
            masks.manual_seed(stream_seed(seed, "masks"))
            num_examples = max(len(train) for train, _ in packages)
            with graphs_that_end_together():
                model = adapter_of(base, arm, seed=seed)
                training = Training(model, numerics=numerics, num_examples=num_examples, masks=masks)
                found[name] = []
                for place, (train, test) in enumerate(packages):
                    if arm.renewed:
                        training.renew()
                    own = stream_seed(seed, "package", place)
                    online = training.train(train, steps=scale.steps, seed=own)
                    found[name].append([online, training.test_loss(test)])
                report_eager(training)
    return found


def pretrained(scale: Scale, splits: Splits, *, seed: int, numerics: Numerics, masks: torch.Generator) -> nn.Module:
    """The network after its training on the last part of the text."""
    torch.manual_seed(stream_seed(seed, "initialisation"))
    model = scale.model.build(nn.GELU, image_shape=splits.train.image_shape, num_classes=splits.num_classes)
    model, own = numerics.place(model), of_classes(splits.train, splits.train.labels_N.max().view(1))
    with graphs_that_end_together():
        rate = scale.pretraining_rate
        training = Training(model, numerics=numerics, num_examples=len(own), masks=masks, rate=rate)
        training.train(own, steps=scale.pretraining, seed=seed)
        report_eager(training)
    return model


def report_eager(training: Training) -> None:
    """Say so if steps that should be captured are not: they take several times as long."""
    if training.steps.why_eager is not None:
        print(f"note: steps are not captured ({training.steps.why_eager}).", flush=True)


def path_of(folder: Path, scale: str, seed: int) -> Path:
    return folder / f"lora_{scale}_{seed}.json"


def run_seed(scale: str, seed: int, *, folder: Path, device: torch.device) -> None:
    began, numerics = time.monotonic(), Numerics.choose(device, SCALES[scale].precision)
    losses = losses_by_arm(SCALES[scale], SCALES[scale].text.load(device), seed=seed, numerics=numerics)
    made_by = {"commit": (made := gather_provenance()).commit, "torch": made.versions["torch"]}
    facts = {"hardware": hardware_of(device), "precision": numerics.precision, "seconds": time.monotonic() - began}
    folder.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"scale": scale, "seed": seed, **made_by, **facts, "losses": losses})
    atomic_write(path_of(folder, scale, seed), content.encode())
    print(f"seed {seed}: {facts['seconds']:.0f} s", flush=True)


def late_losses(found: Sequence[Losses]) -> dict[str, np.ndarray]:
    """The mean over the last half of the packages: arm by arm (seeds, online and test)."""
    arms = {name: np.array([losses[name] for losses in found]) for name in found[0]}
    return {name: values[:, values.shape[1] // 2 :].mean(axis=1) for name, values in arms.items()}


def loss_table(late: dict[str, np.ndarray]) -> str:
    """A line an arm; the network without an adapter has no online loss."""
    lines = ["| inside | online loss | test loss |", "|---|---|---|"]
    for name, values in late.items():
        *online, test = (format_mean(column, decimals=3) for column in values.T)
        lines.append(f"| {name} | {''.join(online)} | {test} |")
    return "\n".join(lines)


def comparison_table(late: dict[str, np.ndarray]) -> str:
    """Whether an arm helps: the difference in test loss by seed, as strictly as so many comparisons ask for."""
    lines = ["| inside | beside | test loss minus that of the other | |", "|---|---|---|---|"]
    for name, other in COMPARED:
        difference = late[name][:, 1] - late[other][:, 1]
        interval = mean_interval(difference, looks=len(COMPARED))
        shown = "" if interval is None else f" [{interval[0]:+.4f}, {interval[1]:+.4f}]"
        lines.append(f"| {name} | {other} | {difference.mean():+.4f}{shown} | {verdict(interval)} |")
    return "\n".join(lines)


def verdict(interval: tuple[float, float] | None) -> str:
    """What the interval of a difference in loss says."""
    if interval is None or min(interval) <= 0.0 <= max(interval):
        return "no difference seen"
    return "helps" if max(interval) < 0.0 else "hurts"


def main(arguments: list[str] | None = None) -> None:
    """Train the seeds that have not ended, and print the tables of those that have."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=SCALES, default="quick")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out/lora"))
    parser.add_argument("--table", action="store_true", help="train nothing")
    chosen = parser.parse_args(arguments)
    if chosen.data is not None:
        use_folder(chosen.data)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    paths = {seed: path_of(chosen.out, chosen.scale, seed) for seed in chosen.seeds}
    for seed, path in paths.items():
        if not chosen.table and not path.exists():
            try:
                run_seed(chosen.scale, seed, folder=chosen.out, device=device)
            except DataError as error:
                parser.error(str(error))
    found = [json.loads(path.read_text())["losses"] for path in paths.values() if path.exists()]
    if found:
        late, number = late_losses(found), SCALES[chosen.scale].num_packages
        print(f"\nNats a byte over the last half of {number} packages; mean ± standard deviation, n = {len(found)}:")
        print(f"\n{loss_table(late)}\n\n{comparison_table(late)}")


if __name__ == "__main__":
    main()
