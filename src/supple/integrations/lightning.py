"""Lightning: any method and the Monitor as a callback of its Trainer.

    trainer = Trainer(callbacks=[PlasticityCallback(ReDo(), epochs_per_stage=10)])

Gradients are edited in ``on_before_optimizer_step``: there they are accumulated, averaged over processes and unscaled,
and not yet clipped (``on_after_backward`` comes once per accumulated batch, and before unscaling). Stages end at the
start of the next batch, so that nothing is done after the last one. Each call of ``fit`` is a stage as well.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from supple.attach import attach, unwrapped
from supple.convert import is_compiled
from supple.inputs import inputs_of, pair_of
from supple.integrations.stage_data import Adapter, AsBatch, StageData, StageLength
from supple.methods.base import Method, period_of
from supple.monitor import DEFAULT_EVERY, Monitor
from supple.processes import check_shards, process_group_of
from supple.units import Inputs, arguments_of
from supple.units.surgery import trained_by
from supple.warn import warn

try:
    from lightning.pytorch.callbacks import Callback
except ImportError as error:
    raise ImportError("supple.integrations.lightning needs Lightning 2: pip install lightning") from error


class PlasticityCallback(Adapter, Callback):
    """Methods at work in a Lightning training, their states in the Trainer's checkpoints; metrics go to the loggers.

    part: the dotted name of the network in the LightningModule, if the module does not call itself: ``part="net"``
        where training_step says ``self.net(x)``. Methods that read data (ReDo, DASH) give it the inputs that as_batch
        makes of a batch, so it must be the part that takes those; a warning says if they differ. A module with several
        optimizers has a callback for each part.
    monitor_every: steps between two readings; None for no Monitor.
    as_batch: makes (inputs, targets) of a batch, for methods that read data, where a batch is no such pair.
    loss: of outputs and targets, for methods that take gradients of their own (DASH).
    """

    def __init__(
        self,
        method: Method | Sequence[Method] | None = None,
        *,
        part: str = "",
        monitor_every: int | None = DEFAULT_EVERY,
        epochs_per_stage: int | None = None,
        steps_per_stage: int | None = None,
        as_batch: AsBatch = pair_of,
        loss: Callable[[Tensor, Tensor], Tensor] | None = None,
        seed: int = 0,
    ) -> None:
        self.prepare(method, monitor_every=monitor_every, seed=seed)
        self.part, self.as_batch, self.loss = part, as_batch, loss
        self.length = StageLength(epochs=epochs_per_stage, steps=steps_per_stage)
        self._saved: dict[str, Any] = {}
        self._batch: Any = None  # the one that is trained on
        self._is_compared = False  # whether the network's inputs were, with those of the batch

    @property
    def state_key(self) -> str:
        """Where its memory is in a checkpoint; one Trainer may have several methods, or one for each part."""
        return self._generate_state_key(method="+".join(method.name for method in self.methods), part=self.part)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        network, data = pl_module.get_submodule(self.part), self._data_of(trainer)
        optimizer, self._trainer = optimizer_of(network, trainer.optimizers), trainer
        if self.plasticity is None or self._saved or not self.plasticity.num_steps:
            self._begin(pl_module, network, optimizer)
        elif self.plasticity.learner.model is not network:
            raise ValueError("a PlasticityCallback belongs to one network; make a new one for another network.")
        else:
            self.plasticity.end_stage(self._data or ())
            self.plasticity.optimizer = optimizer
            self.length.begin(self.plasticity, data, epoch=trainer.current_epoch)
        self._data = data

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        assert self.plasticity is not None
        self._batch = batch
        self.length.end_if_due(self.plasticity, self._data_of(trainer), epoch=trainer.current_epoch)

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        assert self.plasticity is not None
        own = unwrapped(optimizer)
        has_scaler = getattr(trainer.precision_plugin, "scaler", None) is not None
        is_scaled = has_scaler and getattr(own, "_step_supports_amp_scaling", False)  # until its step, as fused ones
        if own is self.plasticity.optimizer and not is_scaled:
            self.plasticity.edit_gradients()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        if self.plasticity is not None:
            self.plasticity.pause()

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        self.evaluate_if(True)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self.evaluate_if(False)

    on_test_start = on_predict_start = on_validation_start
    on_test_end = on_predict_end = on_validation_end

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.evaluate_if(False)
        self.on_train_end(trainer, pl_module)

    def state_dict(self) -> dict[str, Any]:
        if self.plasticity is None or self._saved:
            return self._saved
        return self.length.saved_with(self.plasticity)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._saved = state_dict  # the next training starts from it, not from where this one was

    def _begin(self, pl_module: Any, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        wrapped = self._trainer.strategy.model
        check_shards((wrapped, optimizer), self.methods)
        if self.plasticity is not None:
            self.plasticity.detach()
        group = process_group_of(wrapped)
        self.plasticity = own = attach(
            network, optimizer, self.methods, loss=self.loss, seed=self.seed, process_group=group
        )
        own.no_example = NO_EXAMPLE
        if self.monitor_every is not None:
            own.monitor = Monitor(network, every=self.monitor_every, writer=self._write)
        if self._saved:
            self.length.load_into(own, self._saved)
            self._saved = {}
        if pl_module._compiler_ctx is not None or is_compiled(network):
            own.no_example = COMPILED
            own.init_states()
        own.watch_inputs(network, self._inputs_of)

    def _inputs_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Inputs | None:
        assert self.plasticity is not None
        inputs = inputs_of(args, kwargs)
        # Where a strategy wraps the module (ddp), its forward is training_step under another name.
        forward = self.plasticity.learner.model.forward
        if inputs is None or getattr(forward, "__name__", "") == "wrapped_forward":
            return None
        if not self._is_compared and any(method.reads_data and not period_of(method) for method in self.methods):
            self._is_compared = True
            warn_if_other(inputs, self.as_batch(self._batch)[0], self.part)
        return inputs

    def _write(self, row: dict[str, float]) -> None:
        others = [own for own in self._trainer.callbacks if isinstance(own, PlasticityCallback) and own is not self]
        prefix = f"plasticity/{self.part}/" if any(own.part != self.part for own in others) else "plasticity/"
        metrics = {prefix + name: value for name, value in row.items() if name != "step"}
        for logger in self._trainer.loggers:
            logger.log_metrics(metrics, step=self._trainer.global_step)

    def _data_of(self, trainer: Any) -> StageData:
        return StageData(trainer.train_dataloader, self.as_batch)


NO_EXAMPLE = (
    "no training forward with tensors as its arguments was seen. Name the part of the module that training_step calls: "
    "PlasticityCallback(..., part='net') where it says self.net(x)."
)
COMPILED = (
    "the module is compiled, and its forwards are not seen. Pass the module to fit as it is, without torch.compile."
)


def warn_if_other(example: Inputs, inputs: Inputs, part: str) -> None:
    """Warn if the network is trained on other inputs than those that the method will give it."""
    taken, given = ((*args, *named.values()) for args, named in map(arguments_of, (example, inputs)))
    if len(taken) == len(given) and all(map(same, taken, given)):
        return
    warn(
        f"the first training forward of {f'the part {part!r}' if part else 'the module'} took other inputs than those "
        "of the batch, which are what the method gives it at the end of a stage. If training_step prepares them, "
        "prepare them in as_batch too; if the part comes later in the network, name one that takes the batch."
    )


def same(one: Tensor, other: Any) -> bool:
    """Whether both are the same numbers, on any device."""
    return isinstance(other, Tensor) and one.shape == other.shape and bool((one == other.to(one.device)).all())


def optimizer_of(network: nn.Module, optimizers: Iterable[Any]) -> torch.optim.Optimizer:
    own = {id(parameter) for parameter in network.parameters()}
    found = [optimizer for optimizer in map(unwrapped, optimizers) if own & trained_by(optimizer)]
    if len(found) == 1:
        return found[0]
    name = type(network).__name__
    if found:
        raise ValueError(
            f"{len(found)} optimizers train {name}, and a method serves a network with one. Give each part a callback "
            "of its own: PlasticityCallback(..., part='generator'), PlasticityCallback(..., part='critic')."
        )
    raise ValueError(f"none of the module's optimizers trains {name}; name the part that is trained: part='net'.")
