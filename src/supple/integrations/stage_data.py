"""What the adapters share: methods in a library's training, the data of a stage, when it ends, when a backward does."""

import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from supple.attach import Plasticity, checked_methods
from supple.learner import Batch
from supple.methods.base import Method
from supple.methods.vanilla import Vanilla
from supple.monitor import Monitor
from supple.unchanged import undisturbed

AsBatch = Callable[[Any], Batch]


class StageData:
    """The batches of a data loader as pairs of inputs and targets; can be read any number of times."""

    def __init__(self, loader: Any, as_batch: AsBatch) -> None:
        # What accelerate wraps around a loader tells the whole process how far the training has come.
        self.loader = getattr(loader, "base_dataloader", loader)
        self.as_batch = as_batch

    def __iter__(self) -> Iterator[Batch]:
        with undisturbed(self.loader):
            loader = copy.copy(self.loader)
            if getattr(loader, "_iterator", None) is not None:
                # Workers that persist serve one reader at a time, and the training may be in the midst of an epoch.
                loader._iterator = None
            for batch in loader:
                yield self.as_batch(batch)


class Adapter:
    """Methods at work in the trainings of one model; the library's callback is the other base."""

    plasticity: Plasticity | None = None
    _data: StageData | None = None  # of the stage that is under way

    def prepare(self, method: Method | Sequence[Method] | None, *, monitor_every: int | None, seed: int) -> None:
        self.methods = checked_methods(method or Vanilla())
        self.monitor_every, self.seed = monitor_every, seed
        self._evaluation = contextlib.ExitStack()  # open while the network to evaluate is in the model's place

    @property
    def monitor(self) -> Monitor | None:
        """What the Monitor saw, after training too."""
        return None if self.plasticity is None else self.plasticity.monitor

    def evaluate_if(self, is_due: bool) -> None:
        """Put the network to evaluate in the model's place if an evaluation is due, else the model's own back."""
        self._evaluation.close()
        if is_due and self.plasticity is not None:
            self._evaluation.enter_context(self.plasticity.evaluation())


@dataclass(kw_only=True)
class StageLength:
    """When one stage ends and the next begins within one training, by epochs or optimizer steps; neither: never."""

    epochs: int | None = None
    steps: int | None = None
    first_epoch: int = 0  # of the stage
    first_step: int = 0

    def __post_init__(self) -> None:
        for name, value in (("epochs_per_stage", self.epochs), ("steps_per_stage", self.steps)):
            if value is not None and value < 1:
                raise ValueError(f"{name} is how long a stage is, at least 1; got {value}.")
        if self.epochs is not None and self.steps is not None:
            raise ValueError("a stage ends after epochs_per_stage or after steps_per_stage; give one of the two.")

    def end_if_due(self, plasticity: Plasticity, data: Iterable[Batch], *, epoch: int = 0) -> None:
        """End the stage if it has had its length, and begin the next with this epoch, on the same data."""
        is_old = self.epochs is not None and epoch - self.first_epoch >= self.epochs
        if is_old or (self.steps is not None and plasticity.num_steps - self.first_step >= self.steps):
            plasticity.end_stage(data)
            self.begin(plasticity, data, epoch=epoch)

    def begin(self, plasticity: Plasticity, data: Iterable[Batch], *, epoch: int = 0) -> None:
        """Begin the next stage with this epoch."""
        self.first_epoch, self.first_step = epoch, plasticity.num_steps
        plasticity.begin_stage(data)

    def saved_with(self, plasticity: Plasticity) -> dict[str, Any]:
        """All that a resumed training needs of the methods, and where the stage began."""
        return plasticity.state_dict() | {"first_epoch": self.first_epoch, "first_step": self.first_step}

    def load_into(self, plasticity: Plasticity, saved: dict[str, Any]) -> None:
        """Go on from what was saved."""
        plasticity.load_state_dict(saved)
        self.first_epoch, self.first_step = saved["first_epoch"], saved["first_step"]


class BackwardEnd:
    """Calls ``act`` at the end of each backward that gave one of the parameters a gradient.

    When it is called all gradients are accumulated, and averaged over processes where DistributedDataParallel does so.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], act: Callable[[], None]) -> None:
        self.act = act
        self._backward = -1  # the one that was noticed last; one that fails halfway leaves nothing behind
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        self._handles = [parameter.register_post_accumulate_grad_hook(self._notice) for parameter in trained]

    def close(self) -> None:
        while self._handles:
            self._handles.pop().remove()

    def _notice(self, parameter: Tensor) -> None:
        backward = torch._C._current_graph_task_id()
        if backward != self._backward:
            self._backward = backward
            at_the_end(self._requeue)

    def _requeue(self) -> None:
        at_the_end(self.act)  # behind what DistributedDataParallel queued since, which writes the averages


def at_the_end(act: Callable[[], None]) -> None:
    """Have it called when the backward that is under way has ended."""
    torch.autograd.Variable._execution_engine.queue_callback(act)
