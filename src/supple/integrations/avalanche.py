"""Avalanche: any method as a plugin of its supervised strategies. An experience is a stage.

    strategy = Naive(model=model, optimizer=optimizer, criterion=loss, plugins=[PlasticityPlugin(ReDo())])

What a method does at the end of an experience is done when the next one begins, so that nothing is done after the last.
A classifier that grows with the experiences is followed: what is new in it counts as initial as it comes.
"""

import itertools
from typing import Any

from torch import Tensor

from supple.integrations.companion import Companion, reads_data
from supple.integrations.stage_data import StageData
from supple.learner import Batch, shape_of
from supple.methods.base import Method
from supple.methods.vanilla import Vanilla
from supple.monitor import DEFAULT_EVERY, Monitor
from supple.units import trace_units

try:
    from avalanche.models.utils import is_multi_task_module
    from avalanche.training.plugins import SupervisedPlugin
except ImportError as error:
    raise ImportError("supple.integrations.avalanche needs: pip install avalanche-lib") from error


class PlasticityPlugin(SupervisedPlugin):
    """A method at work in a strategy; ``monitor`` has the metrics.

    writer: where metrics go as they are read, as of a Monitor: TensorBoard's SummaryWriter, or a function of a row.
    monitor_every: steps between two readings; None for no Monitor.
    """

    def __init__(
        self,
        method: Method | None = None,
        *,
        monitor_every: int | None = DEFAULT_EVERY,
        writer: Any = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.method = method or Vanilla()
        self.monitor_every, self.writer, self.seed = monitor_every, writer, seed
        self.companion: Companion | None = None
        self._is_met = False
        self._is_new = False  # whether an experience is about to begin
        self._data: StageData | None = None  # of the experience that is under way

    @property
    def monitor(self) -> Monitor | None:
        """What the Monitor saw, after training too."""
        return None if self.companion is None else self.companion.monitor

    def before_training_exp(self, strategy: Any, *args: Any, **kwargs: Any) -> None:
        if self.companion is not None and self.companion.learner.model is not strategy.model:
            raise ValueError("a PlasticityPlugin belongs to one model; make a new one for another model.")
        if reads_data(self.method) and is_multi_task_module(strategy.model):
            raise ValueError(f"{type(self.method).__name__} runs the network on inputs alone; {WANTS_TASKS}")
        self._is_new = True

    def before_training_epoch(self, strategy: Any, *args: Any, **kwargs: Any) -> None:
        if self._is_new:  # here all plugins have had their say on the data, as ReplayPlugin has
            self._is_new = False
            self._begin_experience(strategy)

    def _begin_experience(self, strategy: Any) -> None:
        coming = StageData(strategy.dataloader, inputs_and_targets)
        if self.companion is None:
            self.companion = self._begin(strategy)
        else:
            assert self._data is not None
            self.companion.learner.optimizer = strategy.optimizer
            follow_growth_(self.companion)
            self.companion.end_stage(self._data)
            self.companion.begin_stage(coming)
        self._data = coming

    def before_forward(self, strategy: Any, *args: Any, **kwargs: Any) -> None:
        if not self._is_met:
            assert self.companion is not None
            self.companion.meet(None if is_multi_task_module(strategy.model) else strategy.mb_x)
            self._is_met = True

    def after_backward(self, strategy: Any, *args: Any, **kwargs: Any) -> None:
        assert self.companion is not None
        self.companion.after_backward()

    def after_update(self, strategy: Any, *args: Any, **kwargs: Any) -> None:
        assert self.companion is not None
        self.companion.after_step()

    def _begin(self, strategy: Any) -> Companion:
        model, monitor = strategy.model, None
        if self.monitor_every is not None:
            monitor = Monitor(model, every=self.monitor_every, writer=self.writer)
        loss = strategy._criterion
        return Companion(
            model,
            strategy.optimizer,
            method=self.method,
            loss=loss,
            seed=self.seed,
            monitor=monitor,
            no_example=WANTS_TASKS,
        )


WANTS_TASKS = (
    "the network is a MultiTaskModule, which wants task labels besides. Methods that neither trace the network nor "
    "read data (L2, L2Init, SEWC, ShrinkPerturb, FullReset) serve it."
)


def inputs_and_targets(batch: Any) -> Batch:
    """Avalanche's batches are inputs, targets and task labels."""
    return batch[0], batch[1]


def follow_growth_(companion: Companion) -> None:
    """Take account of parameters that came or grew since the last experience, as those of a growing classifier do."""
    learner = companion.learner
    tensors = dict(itertools.chain(learner.model.named_parameters(), learner.model.named_buffers()))
    grown = [name for name, tensor in tensors.items() if shape_of(learner.initial, name) != tensor.shape]
    if not grown:
        return
    learner.initial |= {name: widened(learner.initial.get(name), tensors[name]) for name in grown}
    if learner._units is not None and learner.example_input is not None:
        learner.units = trace_units(learner.model, learner.example_input)
    for name, tensor in companion.method.init(learner).items():
        is_of_grown = name.partition(".")[2] in grown  # a count of its steps, too
        if is_of_grown or shape_of(companion.state, name) != tensor.shape:
            companion.state[name] = tensor


def widened(initial: Tensor | None, now: Tensor) -> Tensor:
    """The initial values, and beyond them those that came now."""
    wide = now.detach().clone()
    if initial is not None:
        kept = tuple(slice(min(sizes)) for sizes in zip(initial.shape, wide.shape, strict=True))
        wide[kept] = initial[kept]
    return wide
