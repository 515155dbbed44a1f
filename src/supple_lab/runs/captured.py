"""Captured steps: on a GPU whole training steps, from the gather of a batch to the optimizer, are one CUDA graph.

A graph holds many steps where an epoch has as many, so that the host has little to do: runs that share a GPU in threads
share one interpreter, too. It reads and writes fixed places in memory. So the stage's examples are copied into room for
the largest stage and the batches' indices into a buffer. All else that a step touches stays where it is with every
method of the paper; where it has moved all the same, steps are eager from there on. Rehearsals and captures leave no
trace in weights, moments or random streams.
"""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from supple.kernels.cuda_seed import begin_captured_step
from supple.learner import starts_from_zeros
from supple_lab.data.base import Examples
from supple_lab.runs.recording import ONE_CAPTURE, Pool, reason_of, record
from supple_lab.runs.step import EagerSteps, Trainee, training_step

STEPS_AT_ONCE = 25  # an epoch of random label
MOVED = "something it reads or writes has moved in memory since it was captured"

Shape = tuple[int, ...]  # steps, and examples of each


class CapturedSteps:
    """Steps replayed from graphs, for each size of batch one of a step and one of many; eager where that cannot be."""

    def __init__(self, trainee: Trainee, *, num_examples: int) -> None:
        self.trainee = trainee
        self.num_examples = num_examples  # of the largest stage
        self.examples: Examples | None = None
        self.graphs: dict[Shape, torch.cuda.CUDAGraph] = {}
        self.pool: Pool | None = None  # memory of all graphs: nothing in it lives from one step to the next
        self.indices: dict[Shape, Tensor] = {}
        self.places: list[int] = []
        self.most_at_once = STEPS_AT_ONCE
        self.obstacle = objection_to(trainee)  # why steps are not captured

    def begin_stage(self, examples: Examples) -> None:
        """Train on these examples from now on."""
        if self.examples is None:
            self.examples = with_room(examples, self.num_examples)
        self.examples.images_NCHW[: len(examples)].copy_(examples.images_NCHW)
        self.examples.labels_N[: len(examples)].copy_(examples.labels_N)
        if self.graphs and self.places != places_of(tensors_of(self.trainee)):
            self.obstacle = MOVED

    def take(self, ahead: tuple[Tensor, ...]) -> int:
        """The first of the steps ahead, each told by which examples it trains on; how many that was."""
        if self.obstacle is not None:
            self.step_by_step(ahead[:1])
            return 1
        batches = ahead[: self.num_at_once(ahead)]
        shape = len(batches), len(batches[0])
        if shape not in self.graphs and not self.capture(batches):
            return self.take(ahead)
        torch.stack(batches, out=self.indices[shape])
        self.graphs[shape].replay()
        return len(batches)

    def num_at_once(self, ahead: tuple[Tensor, ...]) -> int:
        """How many of the steps ahead one graph takes: many, if so many batches of one size follow, or one."""
        many = self.most_at_once
        return many if len(ahead) >= many and len(ahead[many - 1]) == len(ahead[0]) else 1

    def capture(self, batches: tuple[Tensor, ...]) -> bool:
        """Make the graph for so many batches of this size, or note that it cannot be made, and why not even of one."""
        held = torch.stack(batches)
        try:
            with ONE_CAPTURE, without_trace(self.trainee):
                graph = record(
                    lambda: self.step_by_step(held),
                    rehearsal=lambda: self.step_by_step(held[:1]),
                    generators=generators_of(self.trainee),
                    pool=self.pool,
                )
        except RuntimeError as error:
            self.most_at_once, self.pool = 1, None  # a smaller graph may find room, not in a pool that may be spoilt
            self.obstacle = reason_of(error) if len(batches) == 1 else None
            return False
        self.graphs[held.shape], self.indices[held.shape], self.pool = graph, held, graph.pool()
        self.places = places_of(tensors_of(self.trainee))
        return True

    def step_by_step(self, batches: Iterable[Tensor]) -> None:
        """Take the steps as they are; no gradients are left to fill memory beside the next one's activations."""
        for indices in batches:
            begin_captured_step()
            training_step(self.trainee, self.stage_examples, indices)
            self.trainee.learner.optimizer.zero_grad(set_to_none=True)

    @property
    def stage_examples(self) -> Examples:
        """The stage's examples, followed by what earlier stages left in the room for them."""
        assert self.examples is not None, "begin_stage comes before the first step"
        return self.examples


def with_room(examples: Examples, number: int) -> Examples:
    """Empty examples of the same kind, that many."""
    images, labels = examples.images_NCHW, examples.labels_N
    room = images.new_zeros(number, *images.shape[1:])
    return replace(examples, images_NCHW=room, labels_N=labels.new_zeros(number))


def objection_to(trainee: Trainee) -> str | None:
    """Why no step of the trainee can be captured: a rehearsal makes the optimizer's state, and puts back but zeros."""
    optimizer = trainee.learner.optimizer
    if starts_from_zeros(optimizer):
        return None
    return f"what {type(optimizer).__name__} remembers before its first step is not known to be zeros"


def tensors_of(trainee: Trainee) -> list[Tensor]:
    """All that a step reads and changes: weights, buffers, the optimizer's and the method's state, the sums."""
    optimizer = trainee.learner.optimizer
    moments = [part for state in optimizer.state.values() for part in state.values()]
    rates = [group["lr"] for group in optimizer.param_groups]
    tensors = [*weights_of(trainee.learner.model), *moments, *rates, *trainee.state.values(), trainee.sums]
    return [tensor for tensor in tensors if isinstance(tensor, Tensor)]


def weights_of(model: nn.Module) -> list[Tensor]:
    """All that a forward reads: weights and buffers."""
    return [*model.parameters(), *model.buffers()]


def places_of(tensors: Iterable[Tensor]) -> list[int]:
    """Where in memory these tensors lie."""
    return [tensor.data_ptr() for tensor in tensors]


def generators_of(trainee: Trainee) -> tuple[torch.Generator, ...]:
    """All that a step draws from."""
    return trainee.learner.generator, trainee.masks


@contextlib.contextmanager
def without_trace(trainee: Trainee) -> Iterator[None]:
    """Undo afterwards, in place, whatever happened to the trainee and its random streams.

    RuntimeError where the method has put something else in the place of its state, or added to it: no graph would do
    that again.
    """
    kept = [(tensor, tensor.detach().clone()) for tensor in tensors_of(trainee)]
    streams = [(generator, generator.get_state()) for generator in generators_of(trainee)]
    of_method, replaced = dict(trainee.state), False
    try:
        yield
    finally:
        now = {name: id(part) for name, part in trainee.state.items()}
        replaced = now != {name: id(part) for name, part in of_method.items()}
        trainee.state.clear()
        trainee.state.update(of_method)
        known = {id(tensor) for tensor, _ in kept}
        with torch.no_grad():
            for tensor, value in kept:
                tensor.copy_(value)
            for tensor in tensors_of(trainee):
                if id(tensor) not in known:  # an optimizer makes its state in its first step, from zeros
                    tensor.zero_()
        for generator, stream_state in streams:
            generator.set_state(stream_state)
    if replaced:
        raise RuntimeError(
            f"{trainee.method.name} puts something else in the place of its state instead of changing it"
        )


def choose_steps(trainee: Trainee, *, num_examples: int) -> EagerSteps | CapturedSteps:
    """Captured on a GPU, eager elsewhere."""
    if trainee.numerics.device.type == "cuda":
        return CapturedSteps(trainee, num_examples=num_examples)
    return EagerSteps(trainee)
