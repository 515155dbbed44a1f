"""Lightning: any method and the Monitor as a callback of its Trainer.

    trainer = Trainer(callbacks=[PlasticityCallback(ReDo(), epochs_per_stage=10)])

Gradients are edited in ``on_before_optimizer_step``: there they are accumulated, averaged over processes and unscaled,
and not yet clipped (``on_after_backward`` comes once per accumulated batch, and before unscaling). Stages end at the
start of the next batch, so that nothing is done after the last one. Each call of ``fit`` is a stage as well.
"""

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from supple.convert import is_compiled
from supple.integrations.companion import Companion, StageLength, reads_data
from supple.integrations.first_forward import FirstForward, positional
from supple.integrations.stage_data import AsBatch, StageData, pair
from supple.learner import Inputs
from supple.methods.base import Method
from supple.methods.vanilla import Vanilla
from supple.monitor import DEFAULT_EVERY, Monitor
from supple.units import arguments_of

try:
    from lightning.pytorch.callbacks import Callback
except ImportError as error:
    raise ImportError("supple.integrations.lightning needs Lightning 2: pip install lightning") from error


class PlasticityCallback(Callback):
    """A method at work in a Lightning training, its memory in the Trainer's checkpoints; metrics go to the loggers.

    part: the dotted name of the network in the LightningModule, if the module does not call itself: ``part="net"``
        where training_step says ``self.net(x)``. Methods that read data (ReDo, DASH) give it the inputs that as_batch
        makes of a batch, so it must be the part that takes those; it is warned of where they differ.
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
        self._batch: Any = None  # the one that is trained on

    @property
    def state_key(self) -> str:
        """Where its memory is in a checkpoint; one Trainer may have several methods, or one for each part."""
        return self._generate_state_key(method=self.method.name, part=self.part)

    @property
    def monitor(self) -> Monitor | None:
        """What the Monitor saw, after training too."""
        return None if self.companion is None else self.companion.monitor

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        network = pl_module.get_submodule(self.part)
        optimizer = optimizer_of(network, trainer.optimizers)
        self._let_go()
        if self.companion is None or not self.companion.is_met:
            self._discard()
            self.companion = self._begin(trainer, network, optimizer)
            self._await_example(pl_module, network, self.companion)
        else:
            self._begin_next_fit(trainer, network, optimizer)
        self._data = self._data_of(trainer)
        self.companion.watch_steps()

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        assert self.companion is not None
        self._batch = batch
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
        self._discard()
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
            no_example=NO_EXAMPLE,
        )
        if self._saved:
            companion.load_state_dict(self._saved)
        return companion

    def _await_example(self, pl_module: Any, network: nn.Module, companion: Companion) -> None:
        if pl_module._compiler_ctx is not None or is_compiled(network):
            companion.no_example = COMPILED
            companion.meet(None)
            return

        def meet(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            example = positional(args, kwargs)
            assert example is not None
            if reads_data(self.method):
                warn_if_other(example, self.as_batch(self._batch)[0], self.part)
            companion.meet(example)

        def accepts(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
            return positional(args, kwargs) is not None and not is_step(network)

        self._first = FirstForward(network, meet, accepts=accepts)

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

    def _discard(self) -> None:
        if self.companion is not None:
            self.companion.discard()

    def _let_go(self) -> None:
        if self.companion is not None:
            self.companion.close()
        if self._first is not None:
            self._first.close()


NO_EXAMPLE = (
    "no training forward with tensors as its arguments was seen. Name the part of the module that training_step calls: "
    "PlasticityCallback(..., part='net') where it says self.net(x)."
)
COMPILED = (
    "the module is compiled, and its forwards are not seen. Pass the module to fit as it is, without torch.compile."
)


def is_step(network: nn.Module) -> bool:
    """Whether the forward is training_step under another name, as where a strategy wraps the module (ddp)."""
    return getattr(network.forward, "__name__", "") == "wrapped_forward"


def warn_if_other(example: Inputs, inputs: Inputs, part: str) -> None:
    """Say so if the network is trained on other inputs than those that the method will give it."""
    (taken, _), (given, _) = arguments_of(example), arguments_of(inputs)
    if len(taken) == len(given) and all(map(same, taken, given)):
        return
    warnings.warn(
        f"the first training forward of {f'the part {part!r}' if part else 'the module'} took other inputs than those "
        "of the batch, which are what the method gives it at the end of a stage. If training_step prepares them, "
        "prepare them in as_batch too; if the part comes later in the network, name one that takes the batch.",
        stacklevel=2,
    )


def same(one: Tensor, other: Any) -> bool:
    """Whether both are the same numbers, on any device."""
    return isinstance(other, Tensor) and one.shape == other.shape and bool((one == other.to(one.device)).all())


def optimizer_of(network: nn.Module, optimizers: Iterable[Any]) -> torch.optim.Optimizer:
    """The optimizer that trains the network, as torch knows it."""
    own = {id(parameter) for parameter in network.parameters()}
    found = [optimizer for optimizer in map(plain, optimizers) if own & held_by(optimizer)]
    if len(found) == 1:
        return found[0]
    name = type(network).__name__
    if found:
        raise ValueError(
            f"{len(found)} optimizers train {name}, and a method serves a network with one. Give each part a callback "
            "of its own: PlasticityCallback(..., part='generator'), PlasticityCallback(..., part='critic')."
        )
    raise ValueError(f"none of the module's optimizers trains {name}; name the part that is trained: part='net'.")


def held_by(optimizer: torch.optim.Optimizer) -> set[int]:
    """The parameters that the optimizer trains, by their identity."""
    return {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}


def plain(optimizer: Any) -> torch.optim.Optimizer:
    """The optimizer inside Lightning's wrapper."""
    return getattr(optimizer, "optimizer", optimizer)
