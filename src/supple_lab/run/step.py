"""One training step, eager or captured: forward, loss, backward, and the step of an optimizer with its method."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.attach import Plasticity
from supple.kernels.cuda_seed import begin_captured_step
from supple.learner import Learner, starts_from_zeros
from supple.methods.base import period_of
from supple_lab.data.base import Examples
from supple_lab.precision import Numerics
from supple_lab.run.capture import Graph, Pool


@dataclass(frozen=True, eq=False)
class TrainState:
    """All that a step reads and writes, besides the examples. Nothing in it is replaced while a stage goes on."""

    plasticity: Plasticity  # whose optimizer calls the methods in its step
    numerics: Numerics
    masks: torch.Generator  # what the activations draw from
    sums: Tensor  # (sum of losses, number correct), added to by every step

    @property
    def learner(self) -> Learner:
        return self.plasticity.learner


def step_by_(loss: Tensor, plasticity: Plasticity) -> None:
    """Train by the loss. In the optimizer's step the methods act, and gradients are clipped."""
    forget_gradients_(plasticity.optimizer)
    plasticity.learner.see_loss(loss)
    loss.backward()
    plasticity.optimizer.step()


def forget_gradients_(optimizer: torch.optim.Optimizer) -> None:
    """As ``zero_grad`` does, without its record for profilers, which takes 3% of a small network's step."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = None


def training_step(training: TrainState, examples: Examples, indices: Tensor) -> None:
    """Train on the examples at the indices, each scored by the very forward that trains on it."""
    inputs, labels = examples.batch(indices)
    with training.numerics.forward():
        logits = training.learner.model(inputs)
        loss = F.cross_entropy(logits, labels)
    step_by_(loss, training.plasticity)
    with torch.no_grad():  # straight into the sums: on a GPU every further operation is a further kernel
        training.sums[0].add_(loss, alpha=labels.numel())
        training.sums[1].add_((logits.argmax(dim=1) == labels).sum())


class EagerSteps:
    """Steps executed one by one, operator by operator."""

    def __init__(self, training: TrainState) -> None:
        self.training, self.why_eager = training, why_never_captured(training)

    def begin_stage(self, examples: Examples) -> None:
        """Train on these examples from now on."""
        self.examples = examples

    def take(self, ahead: tuple[Tensor, ...]) -> int:
        """Train on the first batch, given by its indices; return how many that is."""
        training_step(self.training, self.examples, ahead[0])
        return 1


STEPS_AT_ONCE = 25  # an epoch of random label
Shape = tuple[int, ...]  # steps, and examples of each


class CapturedSteps:
    """Steps replayed from graphs, for each size of batch one of a step and one of many; eager if that cannot be."""

    def __init__(self, training: TrainState, *, num_examples: int) -> None:
        self.training = training
        self.num_examples = num_examples  # of the largest stage
        self.examples: Examples | None = None
        self.graphs: dict[Shape, tuple[Graph, Tensor]] = {}  # each with the indices that it reads
        self.pool: Pool | None = None  # memory of all graphs: nothing in it lives from one step to the next
        self.most_at_once = STEPS_AT_ONCE
        self.why_eager: str | None = None

    def begin_stage(self, examples: Examples) -> None:
        if self.examples is None:
            images, labels = examples.images_NCHW, examples.labels_N
            room = images.new_zeros(self.num_examples, *images.shape[1:])
            self.examples = replace(examples, images_NCHW=room, labels_N=labels.new_zeros(self.num_examples))
        self.examples.images_NCHW[: len(examples)].copy_(examples.images_NCHW)
        self.examples.labels_N[: len(examples)].copy_(examples.labels_N)
        for graph, _ in self.graphs.values():
            graph.recheck_addresses()
            self.why_eager = self.why_eager or graph.why_eager

    def take(self, ahead: tuple[Tensor, ...]) -> int:
        """Train on the first batches, each given by its indices; return how many."""
        while self.why_eager is None:
            batches = ahead[: self.num_at_once(ahead)]
            shape = len(batches), len(batches[0])
            if shape not in self.graphs:
                self.capture(batches)
            if shape in self.graphs:
                graph, indices = self.graphs[shape]
                torch.stack(batches, out=indices)
                graph()
                return len(batches)
        self.step_by_step(ahead[:1])
        return 1

    def num_at_once(self, ahead: tuple[Tensor, ...]) -> int:
        """How many of the steps ahead one graph takes: many, if so many batches of one size follow, or one."""
        many = self.most_at_once
        return many if len(ahead) >= many and len(ahead[many - 1]) == len(ahead[0]) else 1

    def capture(self, batches: tuple[Tensor, ...]) -> None:
        """Make the graph for so many batches of this size, or note that it cannot be made, and why not even of one."""
        held = torch.stack(batches)
        graph = Graph(
            lambda: self.step_by_step(held),
            rehearsal=lambda: self.step_by_step(held[:1]),
            touches=partial(tensors_of, self.training),
            generators=generators_of(self.training),
            restore=partial(without_trace, self.training),
            pool=self.pool,
        )
        graph.capture()
        if graph.why_eager is None:
            self.graphs[len(batches), len(batches[0])], self.pool = (graph, held), graph.pool
        else:
            self.most_at_once, self.pool = 1, None  # a smaller graph may find room, not in a pool that may be spoilt
            self.why_eager = graph.why_eager if len(batches) == 1 else None

    def step_by_step(self, batches: Iterable[Tensor]) -> None:
        """Take the steps as they are; no gradients are left to fill memory beside the next one's activations."""
        assert self.examples is not None, "begin_stage comes before the first step"
        for indices in batches:
            begin_captured_step()
            training_step(self.training, self.examples, indices)
            forget_gradients_(self.training.learner.optimizer)


def tensors_of(training: TrainState) -> list[Tensor]:
    """All that a step reads and changes: weights, buffers, the optimizer's and the methods' state, the sums."""
    optimizer = training.learner.optimizer
    moments = [part for state in optimizer.state.values() for part in state.values()]
    rates = [group["lr"] for group in optimizer.param_groups]
    remembered = [part for state in training.plasticity.states for part in state.values()]
    tensors = [*weights_of(training.learner.model), *moments, *rates, *remembered, training.sums]
    return [tensor for tensor in tensors if isinstance(tensor, Tensor)]


def weights_of(model: nn.Module) -> list[Tensor]:
    """All that a forward reads: weights and buffers."""
    return [*model.parameters(), *model.buffers()]


def generators_of(training: TrainState) -> tuple[torch.Generator, ...]:
    """All that a step draws from."""
    return training.learner.generator, training.masks


@contextlib.contextmanager
def put_back(tensors: Callable[[], list[Tensor]]) -> Iterator[None]:
    """Give the tensors their values back afterwards, in place, and zeros to those that came to be meanwhile."""
    kept = [(tensor, tensor.detach().clone()) for tensor in tensors()]
    try:
        yield
    finally:
        known = {id(tensor) for tensor, _ in kept}
        with torch.no_grad():
            for tensor, value in kept:
                tensor.copy_(value)
            for tensor in tensors():
                if id(tensor) not in known:  # an optimizer makes its state in its first step, from zeros
                    tensor.zero_()


@contextlib.contextmanager
def without_trace(training: TrainState) -> Iterator[None]:
    """Undo afterwards, in place, whatever happened to the training and its random streams.

    RuntimeError if the optimizer's state before its first step is not known to be zeros, or if a method has put
    something else in the place of its state, or added to it: no graph would do that again.
    """
    if not starts_from_zeros(optimizer := training.learner.optimizer):
        name = type(optimizer).__name__
        raise RuntimeError(f"what {name} remembers before its first step is not known to be zeros")
    streams = [(generator, generator.get_state()) for generator in generators_of(training)]
    states = training.plasticity.states
    kept_states, replacing = [dict(state) for state in states], list[str]()
    with put_back(partial(tensors_of, training)):
        try:
            yield
        finally:
            # Before new tensors are set to zero: what a method holds by now may be the memory of a weight.
            for method, state, before in zip(training.plasticity.methods, states, kept_states, strict=True):
                if state.keys() != before.keys() or any(state[name] is not part for name, part in before.items()):
                    replacing.append(method.name)
                state.clear()
                state.update(before)
            for generator, stream_state in streams:
                generator.set_state(stream_state)
    if replacing:
        raise RuntimeError(f"{replacing[0]} puts something else in the place of its state instead of changing it")


def why_never_captured(training: TrainState) -> str | None:
    """Why no step of this training can be captured on a GPU; None if it can, or if there is no GPU."""
    for method in training.plasticity.methods if training.numerics.device.type == "cuda" else ():
        if every := period_of(method):
            return f"{method.name} acts every {every} optimizer steps, which no replayed graph counts"
        if method.looks_at_values:
            return f"{method.name} looks at values inside a step, which no graph can hold"
    return None


def choose_steps(training: TrainState, *, num_examples: int) -> EagerSteps | CapturedSteps:
    """Captured on a GPU if they can be, eager elsewhere."""
    if training.numerics.device.type == "cuda" and why_never_captured(training) is None:
        return CapturedSteps(training, num_examples=num_examples)
    return EagerSteps(training)
