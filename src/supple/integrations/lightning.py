"""Lightning: any method and the Monitor as a callback of its Trainer.

    trainer = Trainer(callbacks=[PlasticityCallback(ReDo(), epochs_per_stage=10)])

Gradients are edited in ``on_before_optimizer_step``: there they are accumulated, averaged over processes and unscaled,
and not yet clipped (``on_after_backward`` comes once per accumulated batch, and before unscaling). Stages end at the
start of the next batch, so that nothing is done after the last one. Each call of ``fit`` is a stage as well.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from supple.integrations.companion import Companion, StageLength
from supple.integrations.first_forward import FirstForward, positional
from supple.integrations.stage_data import AsBatch, StageData, pair
from supple.methods.base import Method
from supple.methods.vanilla import Vanilla
from supple.monitor import DEFAULT_EVERY, Monitor

try:
    from lightning.pytorch.callbacks import Callback
except ImportError as error:
    raise ImportError("supple.integrations.lightning needs Lightning 2: pip install lightning") from error


class PlasticityCallback(Callback):
    """A method at work in a Lightning training, its memory in the Trainer's checkpoints; metrics go to the loggers.

    part: the dotted name of the network in the LightningModule, if the module does not call itself: ``part="net"``
        where training_step says ``self.net(x)``.
    monitor_every: steps between two readings; None for no Monitor.
    as_batch: makes (inputs, targets) of a batch, for methods that read data, where a batch is no such pair.
    loss: of outputs and targets, for methods that take gradients of their own (DASH).
    """

    def __init__(
        self,
        method: Method | None = None,
        *,
        part: str = "",
        monitor_every: int | None = DEFAULT_EVERY,
        epochs_per_stage: int | None = None,
        steps_per_stage: int | None = None,
        as_batch: AsBatch = pair,
        loss: Callable[[Tensor, Tensor], Tensor] | None = None,
        seed: int = 0,
    ) -> None:
        self.method = method or Vanilla()
        self.part, self.monitor_every, self.as_batch, self.loss, self.seed = part, monitor_every, as_batch, loss, seed
        self.length = StageLength(epochs=epochs_per_stage, steps=steps_per_stage)
        self.companion: Companion | None = None
        self._saved: dict[str, Any] = {}
        self._first: FirstForward | None = None
        self._data: StageData | None = None  # of the stage that is under way

    @property
    def monitor(self) -> Monitor | None:
        """What the Monitor saw, after training too."""
        return None if self.companion is None else self.companion.monitor

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        network = pl_module.get_submodule(self.part)
        optimizer = optimizer_of(network, trainer.optimizers)
        if self.companion is None:
            self.companion = self._begin(trainer, network, optimizer)
        else:
            self._begin_next_fit(trainer, network, optimizer)
        self._data = self._data_of(trainer)
        self.companion.watch_steps()

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        assert self.companion is not None
        if self.companion.is_due(epoch=trainer.current_epoch):
            self.companion.end_stage(self._data_of(trainer))
            self.companion.begin_stage(self._data_of(trainer), epoch=trainer.current_epoch)

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        assert self.companion is not None
        if plain(optimizer) is self.companion.learner.optimizer:
            scaler = getattr(trainer.precision_plugin, "scaler", None)
            self.companion.after_backward(may_overflow=scaler is not None)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._let_go()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._let_go()

    def state_dict(self) -> dict[str, Any]:
        return self._saved if self.companion is None else self.companion.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._let_go()
        self.companion, self._saved = None, state_dict  # the training starts from it, not from where this one was

    def _begin(self, trainer: Any, network: nn.Module, optimizer: torch.optim.Optimizer) -> Companion:
        def write(row: dict[str, float]) -> None:
            metrics = {f"plasticity/{name}": value for name, value in row.items() if name != "step"}
            for logger in self._trainer.loggers:
                logger.log_metrics(metrics, step=self._trainer.global_step)

        self._trainer = trainer
        monitor = None if self.monitor_every is None else Monitor(network, every=self.monitor_every, writer=write)
        companion = Companion(
            network,
            optimizer,
            method=self.method,
            loss=self.loss,
            seed=self.seed,
            length=self.length,
            monitor=monitor,
        )
        if self._saved:
            companion.load_state_dict(self._saved)
        self._first = FirstForward(network, lambda args, kwargs: companion.meet(positional(args, kwargs)))
        return companion

    def _begin_next_fit(self, trainer: Any, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        assert self.companion is not None
        assert self._data is not None
        if self.companion.learner.model is not network:
            raise ValueError("a PlasticityCallback belongs to one network; make a new one for another network.")
        self._trainer = trainer
        self.companion.end_stage(self._data)
        self.companion.learner.optimizer = optimizer
        self.companion.begin_stage(self._data_of(trainer), epoch=trainer.current_epoch)

    def _data_of(self, trainer: Any) -> StageData:
        return StageData(trainer.train_dataloader, self.as_batch)

    def _let_go(self) -> None:
        if self.companion is not None:
            self.companion.close()
        if self._first is not None:
            self._first.close()


def optimizer_of(network: nn.Module, optimizers: Iterable[Any]) -> torch.optim.Optimizer:
    """The optimizer that trains the network, as torch knows it."""
    own = {id(parameter) for parameter in network.parameters()}
    for optimizer in map(plain, optimizers):
        if any(id(parameter) in own for group in optimizer.param_groups for parameter in group["params"]):
            return optimizer
    raise ValueError(
        f"none of the module's optimizers trains {type(network).__name__}; name the part that is trained: part='net'."
    )


def plain(optimizer: Any) -> torch.optim.Optimizer:
    """The optimizer inside Lightning's wrapper."""
    return getattr(optimizer, "optimizer", optimizer)
