"""One training step, method included: forward, loss, backward, gradient edits, clipping, the optimizer."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.kernels.cuda_seed import begin_captured_step
from supple.learner import Learner, starts_from_zeros
from supple.methods.base import Method, State
from supple_lab.data.base import Examples
from supple_lab.precision import Numerics
from supple_lab.run.capture import ONE_CAPTURE, Pool, reason_of, record


@dataclass(frozen=True, eq=False)
class Trainee:
    """All that a step reads and writes, besides the examples. Nothing in it is replaced while a stage goes on."""

    learner: Learner
    method: Method
    state: State
    numerics: Numerics
    clip_norm: float | None
    masks: torch.Generator  # what the activations draw from
    sums: Tensor  # (sum of losses, number correct), added to by every step


def training_step(trainee: Trainee, examples: Examples, indices: Tensor) -> None:
    """Train on the examples at the indices, each scored by the very forward that trains on it."""
    inputs, labels = examples.batch(indices)
    with trainee.numerics.forward():
        logits = trainee.learner.model(inputs)
        loss = F.cross_entropy(logits, labels)
    descend_(trainee, loss)
    with torch.no_grad():  # straight into the sums: on a GPU every further operation is a further kernel
        trainee.sums[0].add_(loss, alpha=len(labels))
        trainee.sums[1].add_((logits.argmax(dim=1) == labels).sum())


def descend_(trainee: Trainee, loss: Tensor) -> None:
    """From the loss to the updated weights: backward, gradient edits, clipping, the optimizer."""
    learner, optimizer = trainee.learner, trainee.learner.optimizer
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    trainee.method.after_backward(learner, trainee.state)
    if trainee.clip_norm is not None:
        nn.utils.clip_grad_norm_(learner.model.parameters(), trainee.clip_norm)
    optimizer.step()
    trainee.method.after_step(learner, trainee.state)


class EagerSteps:
    """Steps executed one by one, operator by operator."""

    obstacle: str | None = None  # to capturing them: nobody tried

    def __init__(self, trainee: Trainee) -> None:
        self.trainee = trainee

    def begin_stage(self, examples: Examples) -> None:
        """Train on these examples from now on."""
        self.examples = examples

    def take(self, ahead: tuple[Tensor, ...]) -> int:
        """The first of the steps ahead, each told by which examples it trains on; how many that was."""
        training_step(self.trainee, self.examples, ahead[0])
        return 1


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


class OneGraph:
    """Work without arguments that reads and writes tensors of the trainee, and others that stay where they are.

    Rehearsing and capturing leave no trace in the trainee; what else the work writes must not matter before it is done.
    """

    def __init__(
        self, work: Callable[[], None], trainee: Trainee, *, on: Callable[[Trainee], list[Tensor]] = tensors_of
    ) -> None:
        self.work = work
        self.trainee, self.on = trainee, on
        self.on_gpu = trainee.numerics.device.type == "cuda"
        self.graph: torch.cuda.CUDAGraph | None = None
        self.places: list[int] = []
        self.obstacle = objection_to(trainee) if self.on_gpu else None  # why the work is not captured

    def __call__(self) -> None:
        if self.on_gpu and self.graph is None and self.obstacle is None:
            self.capture()
        if self.graph is None:
            self.work()
        else:
            self.graph.replay()

    def capture(self) -> None:
        """Make the graph, or note why it cannot be made."""
        try:
            with ONE_CAPTURE, without_trace(self.trainee):
                graph = record(self.work, generators=generators_of(self.trainee))
            self.graph = graph
        except RuntimeError as error:
            self.obstacle = reason_of(error)
        self.places = places_of(self.on(self.trainee))

    def look_again(self) -> None:
        """Do the work as it is from now on where other tensors have taken the place of the trainee's."""
        if self.graph is not None and self.places != places_of(self.on(self.trainee)):
            self.graph, self.obstacle = None, MOVED
