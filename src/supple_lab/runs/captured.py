"""Captured steps: on a GPU a whole training step, from the gather of its batch to the optimizer, is one CUDA graph.

A graph reads and writes fixed places in memory. So the stage's examples are copied into room for the largest stage and
the batch's indices into a buffer, and a graph is captured anew only when something a step touches has moved: a rebuilt
optimizer, an emptied state. Rehearsals and captures leave no trace in weights, moments or random streams.
"""

import contextlib
import gc
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from supple_lab.data.base import Examples
from supple_lab.runs.step import EagerSteps, Trainee, training_step

NUM_REHEARSALS = 3  # as torch's documentation advises: libraries choose their algorithms and workspaces in the first
ONE_CAPTURE = threading.Lock()  # runs may share a GPU, each in a thread of its own
MAX_THREADS = 32  # that capture in one process: so many streams of a priority does torch have
OWN = threading.local()


class CapturedSteps:
    """Steps replayed from graphs, one graph for each size of batch; eager ones where a step cannot be captured."""

    def __init__(self, trainee: Trainee, *, num_examples: int) -> None:
        self.trainee = trainee
        self.num_examples = num_examples  # of the largest stage
        self.examples: Examples | None = None
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.indices: dict[int, Tensor] = {}
        self.places: list[int] = []
        self.obstacle: str | None = None  # why steps are not captured

    def begin_stage(self, examples: Examples) -> None:
        """Train on these examples from now on."""
        if self.examples is None:
            self.examples = with_room(examples, self.num_examples)
        self.examples.images_NCHW[: len(examples)].copy_(examples.images_NCHW)
        self.examples.labels_N[: len(examples)].copy_(examples.labels_N)
        if self.places != places_of(self.trainee):
            self.graphs.clear()

    def take(self, indices: Tensor) -> None:
        """One step."""
        size = len(indices)
        if self.obstacle is None and size not in self.graphs:
            self.capture(indices)
        if self.obstacle is None:
            self.indices[size].copy_(indices)
            self.graphs[size].replay()
        else:
            training_step(self.trainee, self.stage_examples, indices)

    def capture(self, indices: Tensor) -> None:
        """Make the graph for batches of this size, or note why it cannot be made."""
        held = self.indices[len(indices)] = indices.clone()
        graph = torch.cuda.CUDAGraph()
        for generator in (self.trainee.learner.generator, self.trainee.masks):
            graph.register_generator_state(generator)
        pool = next((other.pool() for other in self.graphs.values()), None)
        try:
            with ONE_CAPTURE, without_trace(self.trainee):
                record(lambda: training_step(self.trainee, self.stage_examples, held), graph, pool)
        except RuntimeError as error:
            self.obstacle = f"{type(error).__name__}: {error}".splitlines()[0]
        self.graphs[len(indices)] = graph
        self.places = places_of(self.trainee)

    @property
    def stage_examples(self) -> Examples:
        """The stage's examples, followed by what earlier stages left in the room for them."""
        assert self.examples is not None, "begin_stage comes before the first step"
        return self.examples


def capture_stream() -> torch.cuda.Stream:
    """This thread's stream for captures alone: what another run launched on it would become part of the graph.

    One for each thread, because cuBLAS has one workspace for each stream that its caller works on, and all threads'
    backward passes have the same caller, autograd's own thread: graphs captured on one stream write the same memory
    when they are replayed, and replayed at once they spoil each other's products. Of another priority than runs' own
    streams, because torch hands its 32 streams of a priority out in turn.
    """
    if not hasattr(OWN, "stream"):
        OWN.stream = torch.cuda.Stream(priority=-1)
    stream: torch.cuda.Stream = OWN.stream
    return stream


def record(work: Callable[[], None], graph: torch.cuda.CUDAGraph, pool: Any) -> None:
    """Rehearse the work on the stream for captures, then capture it there."""
    stream = capture_stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(NUM_REHEARSALS):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    with no_collection(), torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
        work()


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """While open, no garbage is collected: what a collection frees on the GPU could end a capture."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def with_room(examples: Examples, number: int) -> Examples:
    """Empty examples of the same kind, that many."""
    images, labels = examples.images_NCHW, examples.labels_N
    room = images.new_zeros(number, *images.shape[1:])
    return replace(examples, images_NCHW=room, labels_N=labels.new_zeros(number))


def tensors_of(trainee: Trainee) -> list[Tensor]:
    """All that a step reads and changes: weights, buffers, the optimizer's and the method's state, the sums."""
    model, optimizer = trainee.learner.model, trainee.learner.optimizer
    moments = [part for state in optimizer.state.values() for part in state.values()]
    rates = [group["lr"] for group in optimizer.param_groups]
    tensors = [*model.parameters(), *model.buffers(), *moments, *rates, *trainee.state.values(), trainee.sums]
    return [tensor for tensor in tensors if isinstance(tensor, Tensor)]


def places_of(trainee: Trainee) -> list[int]:
    """Where in memory these tensors lie."""
    return [tensor.data_ptr() for tensor in tensors_of(trainee)]


@contextlib.contextmanager
def without_trace(trainee: Trainee) -> Iterator[None]:
    """Undo afterwards, in place, whatever happened to the trainee and its random streams."""
    kept = [(tensor, tensor.detach().clone()) for tensor in tensors_of(trainee)]
    streams = [(generator, generator.get_state()) for generator in (trainee.learner.generator, trainee.masks)]
    try:
        yield
    finally:
        known = {id(tensor) for tensor, _ in kept}
        with torch.no_grad():
            for tensor, value in kept:
                tensor.copy_(value)
            for tensor in tensors_of(trainee):
                if id(tensor) not in known:  # an optimizer makes its state in its first step, from zeros
                    tensor.zero_()
        for generator, stream_state in streams:
            generator.set_state(stream_state)


def choose_steps(trainee: Trainee, *, num_examples: int) -> EagerSteps | CapturedSteps:
    """Captured on a GPU, eager elsewhere."""
    if trainee.numerics.device.type == "cuda":
        return CapturedSteps(trainee, num_examples=num_examples)
    return EagerSteps(trainee)
