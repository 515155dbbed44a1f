"""Avalanche: any method as a plugin of its supervised strategies. An experience is a stage.

    strategy = Naive(model=model, optimizer=optimizer, criterion=loss, plugins=[PlasticityPlugin(ReDo())])

What a method does at the end of an experience is done when the next one begins, so that nothing is done after the last.
A classifier that grows with the experiences is followed: what is new in it counts as initial as it comes.
"""

import itertools
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from supple.attach import Plasticity, attach
from supple.integrations.stage_data import Adapter, StageData
from supple.methods.base import Method
from supple.monitor import DEFAULT_EVERY, Monitor
from supple.saved import shape_of
from supple.units import trace_units

try:
    from avalanche.models.utils import is_multi_task_module
    from avalanche.training.plugins import SupervisedPlugin
except ImportError as error:
    raise ImportError("supple.integrations.avalanche needs: pip install avalanche-lib") from error


class PlasticityPlugin(Adapter, SupervisedPlugin):
    """Methods at work in a strategy; ``monitor`` has the metrics.

    writer: where metrics go as they are read, as of a Monitor: TensorBoard's SummaryWriter, or a function of a row.
    monitor_every: steps between two readings; None for no Monitor.
    """

    def __init__(
        self,
        method: Method | Sequence[Method] | None = None,
        *,
        monitor_every: int | None = DEFAULT_EVERY,
        writer: Any = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.prepare(method, monitor_every=monitor_every, seed=seed)
        self.writer = writer
        self._is_new = False  # whether an experience is about to begin

    def before_training_exp(self, strategy: Any, *args: Any, **kwargs: Any) -> None:
        if self.plasticity is not None and self.plasticity.learner.model is not strategy.model:
            raise ValueError("a PlasticityPlugin belongs to one model; make a new one for another model.")
        readers = [type(method).__name__ for method in self.methods if method.reads_data]
        if readers and is_multi_task_module(strategy.model):
            raise ValueError(f"{readers[0]} runs the network on inputs alone; {WANTS_TASKS}")
        self._is_new = True

    def before_training_epoch(self, strategy: Any, *args: Any, **kwargs: Any) -> None:
        if not self._is_new:
            return
        self._is_new = False  # here all plugins have had their say on the data, as ReplayPlugin has
        coming = StageData(strategy.dataloader, lambda batch: (batch[0], batch[1]))  # without the task labels
        if self.plasticity is None:
            self.plasticity = self._begin(strategy)
        else:
            self.plasticity.optimizer = strategy.optimizer
            follow_growth_(self.plasticity)
            self.plasticity.end_stage(self._data or ())
            self.plasticity.begin_stage(coming)
        self._data = coming

    def after_backward(self, strategy: Any, *args: Any, **kwargs: Any) -> None:
        assert self.plasticity is not None
        self.plasticity.see_loss(strategy.loss)
        self.plasticity.edit_gradients()  # before a plugin that clips

    def after_training_exp(self, strategy: Any, *args: Any, **kwargs: Any) -> None:
        assert self.plasticity is not None
        self.plasticity.pause()

    def before_eval(self, strategy: Any, *args: Any, **kwargs: Any) -> None:
        self.evaluate_if(True)

    def after_eval(self, strategy: Any, *args: Any, **kwargs: Any) -> None:
        self.evaluate_if(False)

    def _begin(self, strategy: Any) -> Plasticity:
        model = strategy.model
        own = attach(model, strategy.optimizer, self.methods, loss=strategy._criterion, seed=self.seed)
        if self.monitor_every is not None:
            own.monitor = Monitor(model, every=self.monitor_every, writer=self.writer)
        if is_multi_task_module(model):
            own.no_example = WANTS_TASKS
            own.watch_inputs(model, lambda args, kwargs: None)
        return own


WANTS_TASKS = (
    "the network is a MultiTaskModule, which wants task labels besides. Methods that neither trace the network nor "
    "read data (L2, L2Init, SEWC, ShrinkPerturb, FullReset) serve it."
)


def follow_growth_(plasticity: Plasticity) -> None:
    """Take account of parameters that came or grew since the last experience, as those of a growing classifier do."""
    learner = plasticity.learner
    tensors = dict(itertools.chain(learner.model.named_parameters(), learner.model.named_buffers()))
    grown = [name for name, tensor in tensors.items() if shape_of(learner.initial, name) != tensor.shape]
    if not grown:
        return
    learner.initial |= {name: widened(learner.initial.get(name), tensors[name]) for name in grown}
    learner._layers, learner._named = {}, {}  # the classifier is another
    if learner._units is not None and learner.example_input is not None:
        learner.units = trace_units(learner.model, learner.example_input)
    for method, state in zip(plasticity.methods, plasticity.states, strict=True):
        for name, tensor in method.init(learner).items():
            is_of_grown = name.removeprefix("next.").partition(".")[2] in grown  # a count of its steps, too
            if is_of_grown or shape_of(state, name) != tensor.shape:
                state[name] = tensor


def widened(initial: Tensor | None, now: Tensor) -> Tensor:
    """The initial values, and beyond them those that came now."""
    wide = now.detach().clone()
    if initial is not None:
        kept = tuple(slice(min(sizes)) for sizes in zip(initial.shape, wide.shape, strict=True))
        wide[kept] = initial[kept]
    return wide
