"""The whole training step: ours with ReLU and with AID, beside the loop that people write."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from supple.mask_stream import mask_stream
from supple.methods.activations import UseAID
from supple.methods.base import Method
from supple.methods.vanilla import Vanilla
from supple_lab.bench.kernels import listing
from supple_lab.bench.timing import Work, ratio_quartiles, take_turns
from supple_lab.data.base import Examples, Splits
from supple_lab.data.batches import Batches
from supple_lab.data.digits import Digits
from supple_lab.models.base import Model
from supple_lab.models.cnn import CNN
from supple_lab.models.mlp import MLP
from supple_lab.runs.captured import choose_steps
from supple_lab.runs.optimizer import Adam
from supple_lab.runs.precision import Numerics
from supple_lab.runs.problem import Supervised
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.step import Trainee
from supple_lab.runs.supervised import new_learner
from supple_lab.scenarios.random_label import RandomLabel

PEOPLE = "the loop people write"


@dataclass(frozen=True)
class Case:
    """A network in training on images of a shape."""

    title: str
    model: Model
    image_shape: tuple[int, int, int]
    batch_size: int

    def splits(self, device: torch.device) -> Splits:
        """Made images: only their shape and number matter here."""
        stream = torch.Generator().manual_seed(0)
        num_images = 25 * self.batch_size  # as many steps an epoch as random label has
        images = torch.randint(256, (num_images, *self.image_shape), dtype=torch.uint8, generator=stream)
        labels = torch.randint(10, (num_images,), generator=stream)
        zero, one = torch.zeros(1, 1, 1, device=device), torch.ones(1, 1, 1, device=device)
        examples = Examples(images.to(device), labels.to(device), zero, one)
        return Splits(examples, examples, num_classes=10)


@dataclass(frozen=True)
class TrainingRow:
    """One candidate in one case, against our own step with ReLU in the same run."""

    case: str
    candidate: str
    milliseconds: float
    ratio: float
    ratio_quartiles: tuple[float, float]
    turns: int


CASES = (
    Case("MLP 3x2000, batch 64 (random label)", MLP(), (1, 28, 28), 64),
    Case("MLP 3x2000, batch 512 (permuted input)", MLP(), (1, 28, 28), 512),
    Case("CNN-4, batch 256 (CIFAR-10)", CNN(), (3, 32, 32), 256),
)


def bench_training(device: torch.device, *, seconds_per_case: float, only: str = "") -> Iterator[TrainingRow]:
    """Time the candidates of each case in turns."""
    for case in CASES:
        if only in case.title:
            works = candidates(case, device)
            timings = take_turns(works, device=device, seconds=seconds_per_case)
            for name in works:
                low, middle, high = ratio_quartiles(timings[name], timings["ReLU"])
                milliseconds, turns = timings[name].median * 1e3, len(timings[name].seconds)
                yield TrainingRow(case.title, name, milliseconds, middle, (low, high), turns)


def candidates(case: Case, device: torch.device) -> dict[str, Work]:
    """One training step of each; ours with ReLU first."""
    return {
        "ReLU": our_step(case, device, Vanilla()),
        "AID": our_step(case, device, UseAID()),
        PEOPLE: peoples_step(case, device),
    }


def our_step(case: Case, device: torch.device, method: Method) -> Callable[[], None]:
    """What a run does for each batch, drawing the batch included."""
    problem = Supervised(scenario=RandomLabel(), dataset=Digits())  # not used: the images are the case's
    spec = RunSpec(problem=problem, model=case.model, method=method, optimizer=Adam(), seed=0)
    numerics, splits = Numerics.choose(device, "default"), case.splits(device)
    learner = new_learner(spec, splits, numerics)
    learner.model.train()
    sums, masks = torch.zeros(2, dtype=torch.float64, device=device), torch.Generator(device)
    trainee = Trainee(learner, method, method.init(learner), numerics, case.model.clip_norm, masks, sums)
    steps = choose_steps(trainee, num_examples=len(splits.train))
    steps.begin_stage(splits.train)
    batches = (b for epoch in itertools.count() for b in Batches(splits.train, case.batch_size, 0, 0, epoch).indices())

    def step() -> None:
        with mask_stream(masks):
            steps.take(next(batches))

    return step


class ListingAID(nn.Module):
    """The paper's listing as a layer."""

    def forward(self, x: Tensor) -> Tensor:
        return listing(x)


def peoples_step(case: Case, device: torch.device) -> Callable[[], float]:
    """DataLoader, Adam as it comes, the paper's listing, and loss and accuracy read after every step."""
    torch.manual_seed(0)
    examples = case.splits(device).train
    dataset = TensorDataset(examples.images_NCHW.float().cpu() / 255, examples.labels_N.cpu())
    loader = DataLoader(dataset, batch_size=case.batch_size, shuffle=True)
    model = case.model.build(ListingAID, image_shape=case.image_shape, num_classes=10).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    batches = (batch for _ in itertools.count() for batch in loader)

    def step() -> float:
        inputs, labels = (part.to(device) for part in next(batches))
        logits = model(inputs)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item() + (logits.argmax(dim=1) == labels).float().mean().item()

    return step
