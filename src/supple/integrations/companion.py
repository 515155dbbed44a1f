"""Companion: a method and a monitor beside a training that another library runs, and all that they must remember."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from supple.learner import Batch, Inputs, Learner, restore_
from supple.methods.base import Method, State
from supple.methods.copies import DRIFT, in_several_processes
from supple.methods.full_reset import FullReset
from supple.methods.shrink_perturb import ShrinkPerturb
from supple.monitor import Monitor
from supple.unchanged import undisturbed

HOOKS_WITH_DATA = ("end_stage", "begin_stage")
HOOKS_ON_WEIGHTS = ("after_step", *HOOKS_WITH_DATA)
SAME_EVERYWHERE = (ShrinkPerturb, FullReset)  # they read no data, so every process comes to the same weights


@dataclass(frozen=True, kw_only=True)
class StageLength:
    """When one stage ends and the next begins within one training; neither: never."""

    epochs: int | None = None
    steps: int | None = None  # of the optimizer

    def __post_init__(self) -> None:
        for name, value in (("epochs_per_stage", self.epochs), ("steps_per_stage", self.steps)):
            if value is not None and value < 1:
                raise ValueError(f"{name} is how long a stage is, at least 1; got {value}.")
        if self.epochs is not None and self.steps is not None:
            raise ValueError("a stage ends after epochs_per_stage or after steps_per_stage; give one of the two.")


class Companion:
    """Calls a method's hooks when an adapter says where the training is.

    ``learner`` is made at once, so that the initial weights are those before the first step. The method's memory is
    made when the first training forward shows an example of the inputs, from which units are traced; ``no_example`` is
    what to do where the method needs an example and there is none.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        method: Method,
        loss: Callable[[Tensor, Tensor], Tensor] | None = None,
        seed: int = 0,
        length: StageLength | None = None,
        monitor: Monitor | None = None,
        no_example: str = "",
    ) -> None:
        check_processes(method)
        self.method, self.monitor, self.length = method, monitor, length or StageLength()
        self.no_example = no_example
        self.learner = Learner(model, optimizer, loss=loss, seed=seed)
        self.learner.patience = None  # the hooks are called from here
        self.stage = self.num_steps = 0
        self.first_epoch = self.first_step = 0  # of the stage
        self._state: State | None = None
        self._saved: State = {}
        self._handle: RemovableHandle | None = None

    @property
    def is_met(self) -> bool:
        """Whether the method's memory is made."""
        return self._state is not None

    @property
    def state(self) -> State:
        """What the method remembers."""
        if self._state is None:
            self.meet(self.learner.example_input)
        assert self._state is not None
        return self._state

    def meet(self, example_input: Inputs | None) -> None:
        """Make the method's memory, with an example of the inputs if one was seen."""
        self.learner.example_input = example_input
        with undisturbed(), torch.autocast(self.learner.device.type, enabled=False):
            self._state = self._memory()
        if self._saved:
            restore_(self._state, self._saved)
            self._saved = {}

    def _memory(self) -> State:
        try:
            return self.method.init(self.learner)
        except ValueError as error:
            if self.learner.example_input is not None or not self.no_example:
                raise
            name = type(self.method).__name__
            raise ValueError(
                f"{name} traces the network, and needs an example of its inputs; {self.no_example}"
            ) from error

    def watch_steps(self) -> None:
        """Have the optimizer report each step it makes; one that a gradient scaler skips is none."""
        self.close()
        optimizer = self.learner.optimizer
        self._handle = optimizer.register_step_post_hook(lambda optimizer, args, kwargs: self.after_step())

    def close(self) -> None:
        """No longer watch the optimizer."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def discard(self) -> None:
        """Take all hooks off, the monitor's too: another companion takes its place."""
        self.close()
        self.learner.close()
        if self.monitor is not None:
            self.monitor.close()

    def after_backward(self, *, may_overflow: bool = False) -> None:
        """Gradients are whole, unscaled and not clipped. After an overflow the scaler skips the step, and so do we."""
        if not may_overflow or is_finite(self.learner.trained()[2]):
            self.method.after_backward(self.learner, self.state)

    def after_step(self) -> None:
        """The optimizer made a step."""
        self.method.after_step(self.learner, self.state)
        self.num_steps += 1
        if self.monitor is not None:
            self.monitor.step()

    def is_due(self, *, epoch: int = 0) -> bool:
        """Whether the stage has had its length when this epoch begins, or the next step."""
        epochs, steps = self.length.epochs, self.length.steps
        if epochs is not None and epoch - self.first_epoch >= epochs:
            return True
        return steps is not None and self.num_steps - self.first_step >= steps

    def end_stage(self, finished: Iterable[Batch]) -> None:
        """The stage is over, and another will follow."""
        with undisturbed():
            self.method.end_stage(self.learner, self.state, finished)

    def begin_stage(self, coming: Iterable[Batch], *, epoch: int = 0) -> None:
        """The next stage begins with this epoch."""
        self.stage += 1
        self.first_epoch, self.first_step = epoch, self.num_steps
        with undisturbed():
            self.method.begin_stage(self.learner, self.state, coming, self.stage)

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed training needs: the method's memory, the initial weights, the random stream, the clock."""
        return {
            "method": self.method.name,
            "memory": dict(self._saved if self._state is None else self._state),
            **self.learner.state_dict(),
            **{name: getattr(self, name) for name in CLOCK},
            "monitored": 0 if self.monitor is None else self.monitor.num_steps,
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Go on from what was saved; what is on another device comes to the model's."""
        if saved["method"] != self.method.name:
            raise ValueError(f"this checkpoint is of the method '{saved['method']}', not of '{self.method.name}'.")
        self.learner.load_state_dict(saved)
        for name in CLOCK:
            setattr(self, name, saved[name])
        if self.monitor is not None:
            self.monitor.num_steps = saved["monitored"]
        self._saved = saved["memory"]
        if self._state is not None:
            restore_(self._state, self._saved)


CLOCK = ("stage", "num_steps", "first_epoch", "first_step")


def is_finite(gradients: Iterable[Tensor]) -> bool:
    """Whether all of the gradients are numbers."""
    return all(bool(torch.isfinite(gradient).all()) for gradient in gradients)


def reads_data(method: Method) -> bool:
    """Whether the method is shown the data of a stage, and looks at it."""
    return method.acts_in(*HOOKS_WITH_DATA) and not isinstance(method, SAME_EVERYWHERE)


def check_processes(method: Method) -> None:
    """Refuse methods that would do different things to each process's copy of the network."""
    decides_by_data = method.acts_in(*HOOKS_ON_WEIGHTS) and not isinstance(method, SAME_EVERYWHERE)
    if decides_by_data and in_several_processes():
        raise ValueError(DRIFT.format(type(method).__name__))
