"""The whole training step: ours with ReLU and with AID, beside the loop that people write."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from supple.layers import AID
from supple.methods import CBP, Method, UseAID, Vanilla
from supple.random import mask_stream
from supple_lab.bench.kernels import listing
from supple_lab.bench.timing import ratio_to, take_turns
from supple_lab.data.base import Examples, Splits
from supple_lab.data.batches import Batches
from supple_lab.data.digits import Digits
from supple_lab.models.base import Model
from supple_lab.models.cnn import CNN
from supple_lab.models.mlp import MLP
from supple_lab.models.resnet18 import ResNet18
from supple_lab.models.vgg16 import VGG16
from supple_lab.optimizer import Adam
from supple_lab.precision import Numerics, Precision
from supple_lab.run.network import attach_method, new_learner
from supple_lab.run.step import CapturedSteps, EagerSteps, TrainState, choose_steps
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.spec import RunSpec, Supervised

PEOPLE = "the loop people write"
WITH_LOADER = f"{PEOPLE}, with a DataLoader"
NUM_PACKED = 8  # more gained little on an H200
PACKED = f"AID, {NUM_PACKED} runs on the card"
STEPS_A_TURN = 25  # on a GPU, at least: as many as our runs take at once
PACKED_STEPS_A_TURN = 100  # of each packed run, before they wait for each other, which real ones never do
Steps = Callable[[], int]  # takes some steps of training, as many each time, and says how many
Pairs = Iterator[tuple[Tensor, Tensor]]  # inputs and labels, without end


@dataclass(frozen=True)
class Case:
    """A network in training on images of a shape."""

    title: str
    model: Model
    image_shape: tuple[int, int, int]
    batch_size: int
    num_classes: int = 10

    def splits(self, device: torch.device) -> Splits:
        """Made images: only their shape and number matter here."""
        stream = torch.Generator().manual_seed(0)
        num_images = 25 * self.batch_size  # as many steps an epoch as random label has
        images = torch.randint(256, (num_images, *self.image_shape), dtype=torch.uint8, generator=stream)
        labels = torch.randint(self.num_classes, (num_images,), generator=stream)
        zero, one = torch.zeros(1, 1, 1, device=device), torch.ones(1, 1, 1, device=device)
        examples = Examples(images.to(device), labels.to(device), zero, one)
        return Splits(examples, examples, num_classes=self.num_classes)


@dataclass(frozen=True)
class TrainingRow:
    """One candidate in one case, against our own step with ReLU in the same run."""

    case: str
    candidate: str
    milliseconds: float  # of one step of one run
    ratio: float
    ratio_quartiles: tuple[float, float]
    turns: int
    megabytes: float | None  # the most that the candidate had on the GPU


CASES = (
    Case("MLP 3x128, batch 64 (small)", MLP(width=128), (1, 28, 28), 64),
    Case("MLP 3x2000, batch 64 (random label)", MLP(), (1, 28, 28), 64),
    Case("MLP 3x2000, batch 512 (permuted input)", MLP(), (1, 28, 28), 512),
    Case("CNN-4, batch 256 (CIFAR-10)", CNN(), (3, 32, 32), 256),
)
LARGE_CASES = (  # minutes a step on a CPU
    Case("ResNet-18, batch 256 (CIFAR-100)", ResNet18(), (3, 32, 32), 256, num_classes=100),
    Case("VGG-16, batch 256 (TinyImageNet)", VGG16(), (3, 64, 64), 256, num_classes=200),
)


def bench_training(device: torch.device, *, seconds_per_case: float, only: str = "") -> Iterator[TrainingRow]:
    """Time the candidates of each case in turns, all with the device's default rounding of matrix products."""
    on_gpu = device.type == "cuda"
    with Numerics.choose(device, "default").matmuls():
        for case in (*CASES, *LARGE_CASES) if on_gpu else CASES:
            if only in case.title:
                yield from bench_case(case, device, seconds=seconds_per_case)


def bench_case(case: Case, device: torch.device, *, seconds: float) -> Iterator[TrainingRow]:
    our_steps(case, device, Vanilla())()  # what is allocated once, such as cuBLAS's workspaces, is no candidate's
    made = {name: with_memory(make, device) for name, make in candidates(case, device).items()}
    least = STEPS_A_TURN if device.type == "cuda" else 1
    timings = timings_of({name: steps for name, (steps, _) in made.items()}, device, least=least, seconds=seconds)
    for name, (_, megabytes) in made.items():
        found = ratio_to(timings["ReLU"], timings[name])
        yield TrainingRow(case.title, name, found.seconds * 1e3, found.ratio, found.quartiles, found.turns, megabytes)


def timings_of(
    steps: Mapping[str, Steps], device: torch.device, *, least: int, seconds: float
) -> dict[str, np.ndarray]:
    """Seconds of a step of each candidate, a value a turn of at least so many steps."""
    turns = {name: partial(a_turn, work, least) for name, work in steps.items()}
    num_steps = {name: turn() for name, turn in turns.items()}
    timings = take_turns(turns, device=device, seconds=seconds)
    return {name: seconds / num_steps[name] for name, seconds in timings.items()}


def candidates(case: Case, device: torch.device) -> dict[str, Callable[[], Steps]]:
    """What makes the training steps of each; ours with ReLU first."""
    steps: dict[str, Callable[[], Steps]] = {
        "ReLU": lambda: our_steps(case, device, Vanilla()),
        "AID": lambda: our_steps(case, device, UseAID()),
        "CBP": lambda: seasoned(our_steps(case, device, CBP())),
        PEOPLE: lambda: baseline_step(case, batches_on_device(case, device), device, []),
        WITH_LOADER: lambda: baseline_step(case, batches_of_loader(case, device), device, []),
    }
    if device.type == "cuda" and case in LARGE_CASES:
        steps |= {
            "ReLU, bf16": lambda: our_steps(case, device, Vanilla(), precision="bf16"),
            "AID, bf16": lambda: our_steps(case, device, UseAID(), precision="bf16"),
        }
    elif device.type == "cuda":
        steps[PACKED] = lambda: packed_steps(case, device)
    return steps


def with_memory(make: Callable[[], Steps], device: torch.device) -> tuple[Steps, float | None]:
    """The candidate after its first steps, and the most memory it had by then."""
    if device.type != "cuda":
        return make(), None
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    steps = make()
    for _ in range(3):
        steps()
    return steps, (torch.cuda.max_memory_allocated(device) - before) / 2**20


def our_steps(case: Case, device: torch.device, method: Method, *, precision: Precision = "default") -> Steps:
    """What a run does for as many batches as it takes at once, drawing them included."""
    training, splits = begun(case, device, method, precision=precision)
    steps = choose_steps(training, num_examples=len(splits.train))

    def taken() -> Iterator[int]:
        for number in endless(case, training, splits, steps):
            if steps.why_eager is not None:
                raise RuntimeError(f"{case.title}: the steps of {method.name} are not captured: {steps.why_eager}")
            yield number

    return partial(next, taken())


def begun(
    case: Case, device: torch.device, method: Method, *, precision: Precision = "default"
) -> tuple[TrainState, Splits]:
    """A run before its first step, and its images."""
    problem = Supervised(scenario=RandomLabel(), dataset=Digits())  # not used: the images are the case's
    spec = RunSpec(problem=problem, model=case.model, method=method, optimizer=Adam(), seed=0)
    numerics, splits = Numerics.choose(device, precision), case.splits(device)
    learner = new_learner(spec, splits, numerics)
    learner.model.train()
    sums, masks = torch.zeros(2, dtype=torch.float64, device=device), torch.Generator(device)
    return TrainState(attach_method(spec, learner), numerics, masks, sums), splits


def endless(case: Case, training: TrainState, splits: Splits, steps: EagerSteps | CapturedSteps) -> Iterator[int]:
    """Take steps, epoch after epoch; how many they were."""
    steps.begin_stage(splits.train)
    for epoch in itertools.count():
        batches = Batches(splits.train, case.batch_size, 0, 0, epoch).indices()
        while batches:
            with mask_stream(training.masks):
                number = steps.take(batches)
            batches = batches[number:]
            yield number


def seasoned(steps: Steps) -> Steps:
    """The steps after those in which no unit is old enough to be renewed."""
    num_steps = 0
    while num_steps < 2 * CBP.maturity:
        num_steps += steps()
    return steps


def packed_steps(case: Case, device: torch.device) -> Steps:
    """Some steps of each of several runs that share the device, as the engine `packed` has them: in threads."""
    threads = [ThreadPoolExecutor(1) for _ in range(NUM_PACKED)]
    if device.type == "cuda":
        for thread in threads:  # each works on a stream of its own
            thread.submit(torch.cuda.set_stream, torch.cuda.Stream(device)).result()
    runs = [thread.submit(our_steps, case, device, UseAID()).result() for thread in threads]

    def steps_of_each() -> int:
        turns = [t.submit(a_turn, run, PACKED_STEPS_A_TURN) for t, run in zip(threads, runs, strict=True)]
        return sum(turn.result() for turn in turns)

    return steps_of_each


def a_turn(steps: Steps, least: int) -> int:
    """At least so many steps; how many they were."""
    taken = 0
    while taken < least:
        taken += steps()
    return taken


class ListingAID(AID):
    """The paper's listing as a layer; networks have the same pools with it as with ours."""

    def forward(self, x: Tensor) -> Tensor:
        return listing(x, self.p)


def batches_on_device(case: Case, device: torch.device) -> Pairs:
    """Images as numbers on the device, drawn there."""
    examples = case.splits(device).train
    images, labels = examples.images_NCHW.float() / 255, examples.labels_N
    for _ in itertools.count():
        for chosen in torch.randperm(len(labels), device=device).split(case.batch_size):
            yield images[chosen], labels[chosen]


def batches_of_loader(case: Case, device: torch.device) -> Pairs:
    """Images as numbers on the host, put together one by one and sent over."""
    examples = case.splits(torch.device("cpu")).train
    dataset = TensorDataset(examples.images_NCHW.float() / 255, examples.labels_N)
    loader = DataLoader(dataset, batch_size=case.batch_size, shuffle=True)
    for inputs, labels in itertools.chain.from_iterable(itertools.repeat(loader)):
        yield inputs.to(device), labels.to(device)


def baseline_step(case: Case, batches: Pairs, device: torch.device, history: list[tuple[float, float]]) -> Steps:
    """Adam as it comes, the paper's listing, loss and accuracy noted after every step, any order of sums."""
    torch.manual_seed(0)
    model = case.model.build(ListingAID, image_shape=case.image_shape, num_classes=case.num_classes).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> int:
        inputs, labels = next(batches)
        with any_order_of_sums():
            logits = model(inputs)
            loss = F.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()
        history.append((loss.item(), (logits.argmax(dim=1) == labels).float().mean().item()))
        return 1

    return step


@contextmanager
def any_order_of_sums() -> Iterator[None]:
    """While open, convolutions need not be repeatable: torch's own default, and a little faster."""
    cudnn = torch.backends.cudnn
    before, cudnn.deterministic = cudnn.deterministic, False
    try:
        yield
    finally:
        cudnn.deterministic = before
