"""Hugging Face Trainer: any method and the Monitor as a TrainerCallback.

    trainer = Trainer(model, args, train_dataset=data, callbacks=[PlasticityCallback(L2Init())])

The Trainer clips before its hook ``on_pre_optimizer_step``, so gradients are edited at the end of the backward instead,
once they are accumulated and averaged over processes. Stages end at the beginning of the next step, so that nothing is
done after the last one. Each call of ``train`` is a stage as well.
"""

import contextlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from supple.integrations.companion import Companion, StageLength
from supple.integrations.first_forward import FirstForward
from supple.integrations.stage_data import BackwardEnd, StageData
from supple.learner import Batch
from supple.methods.base import Method
from supple.methods.vanilla import Vanilla
from supple.monitor import DEFAULT_EVERY, Monitor
from supple.monitor_table import Row, write_of

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise ImportError("supple.integrations.transformers needs: pip install transformers accelerate") from error

NO_INPUTS = ("num_items_in_batch",)  # which the Trainer gives a model besides what is in the batch


class PlasticityCallback(TrainerCallback):
    """A method at work in a Trainer, its memory in the Trainer's checkpoints; metrics go to ``state.log_history``.

    writer: where metrics go besides, as of a Monitor. ``callback.writer = trainer.log`` sends them to everything that
        the Trainer reports to.
    labels: the name of the targets in a batch.
    monitor_every: steps between two readings; None for no Monitor.
    loss: of logits and labels, for methods that take gradients of their own (DASH).
    resume_from: the folder of the checkpoint that the Trainer resumes from, where it is not in its ``output_dir``.
    """

    def __init__(
        self,
        method: Method | None = None,
        *,
        labels: str = "labels",
        monitor_every: int | None = DEFAULT_EVERY,
        writer: Any = None,
        epochs_per_stage: int | None = None,
        steps_per_stage: int | None = None,
        loss: Callable[[Tensor, Tensor], Tensor] | None = None,
        resume_from: str | Path | None = None,
        seed: int = 0,
    ) -> None:
        self.method = method or Vanilla()
        self.resume_from = resume_from
        self.labels, self.monitor_every, self.writer, self.loss, self.seed = labels, monitor_every, writer, loss, seed
        self.length = StageLength(epochs=epochs_per_stage, steps=steps_per_stage)
        self.companion: Companion | None = None
        self._rows: list[Row] = []
        self._first: FirstForward | None = None
        self._backward: BackwardEnd | None = None
        self._data: StageData | None = None  # of the stage that is under way
        self._is_edited = False  # whether the gradients of this step are

    @property
    def monitor(self) -> Monitor | None:
        """What the Monitor saw, after training too."""
        return None if self.companion is None else self.companion.monitor

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        model, optimizer = kwargs["model"], kwargs["optimizer"]
        self._let_go()  # of what a training that was interrupted left behind
        if self.companion is None or not self.companion.is_met or state.global_step:
            self._begin_anew(model, optimizer)
            assert self.companion is not None
            if state.global_step:
                self.companion.load_state_dict(self._read_memory(args, state))
        else:
            self._begin_next_training(model, optimizer, kwargs["train_dataloader"])
        self._data = self._data_of(kwargs["train_dataloader"])
        self.companion.watch_steps()
        self._backward = BackwardEnd(model.parameters(), lambda: self._after_backward(optimizer))

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        assert self.companion is not None
        self._is_edited = False
        epoch = math.floor(state.epoch or 0)
        if self.companion.is_due(epoch=epoch):
            self.companion.end_stage(self._data_of(kwargs["train_dataloader"]))
            self.companion.begin_stage(self._data_of(kwargs["train_dataloader"]), epoch=epoch)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        write = write_of(self.writer)
        for row in self._rows:
            state.log_history.append({**row, "step": state.global_step})
            write({**row, "step": state.global_step})
        self._rows.clear()

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        assert self.companion is not None
        if state.is_world_process_zero:
            memory = self.companion.state_dict() | {"global_step": state.global_step}
            torch.save(memory, checkpoint_of(args, state) / file_of(self.method))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._let_go()

    def _let_go(self) -> None:
        for hooks in (self.companion, self._first, self._backward):
            if hooks is not None:
                hooks.close()

    def _begin_anew(self, model: nn.Module, optimizer: Any) -> None:
        if self.companion is not None:
            self.companion.discard()
        self.companion = self._begin(model, optimizer)

    def _read_memory(self, args: Any, state: Any) -> dict[str, Any]:
        folder = checkpoint_of(args, state) if self.resume_from is None else Path(self.resume_from)
        return read_memory(folder / file_of(self.method), state.global_step)

    def _begin(self, model: nn.Module, optimizer: Any) -> Companion:
        network = ByName(model)
        monitor = None
        if self.monitor_every is not None:
            monitor = Monitor(model, every=self.monitor_every, writer=self._note)
        companion = Companion(
            network,
            plain(optimizer),
            method=self.method,
            loss=self.loss,
            seed=self.seed,
            length=self.length,
            monitor=monitor,
            no_example="the Trainer called the model with no tensors by name.",
        )

        def meet(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            others = (self.labels, *NO_INPUTS)
            named = {name: value for name, value in kwargs.items() if name not in others and isinstance(value, Tensor)}
            network.names = tuple(named)
            companion.meet(tuple(named.values()) or None)

        self._first = FirstForward(model, meet)
        return companion

    def _begin_next_training(self, model: nn.Module, optimizer: Any, loader: Any) -> None:
        assert self.companion is not None
        assert self._data is not None
        network = self.companion.learner.model
        assert isinstance(network, ByName)
        if network.model is not model:
            raise ValueError("a PlasticityCallback belongs to one model; make a new one for another model.")
        self.companion.end_stage(self._data)
        self.companion.learner.optimizer = plain(optimizer)
        self.companion.begin_stage(self._data_of(loader))

    def _after_backward(self, optimizer: Any) -> None:
        if optimizer.gradient_state.sync_gradients:
            assert self.companion is not None
            if self._is_edited and self.method.acts_in("after_backward"):
                raise RuntimeError(SEVERAL_BACKWARDS.format(method=type(self.method).__name__))
            self._is_edited = True
            with unscaled(optimizer.scaler, self.companion.learner.trained()[2]):
                self.companion.after_backward(may_overflow=optimizer.scaler is not None)

    def _note(self, row: Row) -> None:
        self._rows.append({f"plasticity/{name}": value for name, value in row.items() if name != "step"})

    def _data_of(self, loader: Any) -> StageData:
        return StageData(loader, self._as_batch)

    def _as_batch(self, batch: dict[str, Tensor]) -> Batch:
        assert self.companion is not None
        network = self.companion.learner.model
        assert isinstance(network, ByName)
        absent = [name for name in (*network.names, self.labels) if name not in batch]
        if absent:
            raise ValueError(
                f"{type(self.method).__name__} reads the data of a stage, and a batch of it has no '{absent[0]}', "
                f"only {', '.join(batch)}. Name the targets with labels=...; inputs that are not from the batch cannot "
                "be given."
            )
        return tuple(batch[name] for name in network.names), batch[self.labels]


SEVERAL_BACKWARDS = (
    "{method} edits the gradients of a step once, when they are whole, and in this step they came in several "
    "backwards, as with reentrant gradient checkpointing. Turn that off: "
    "TrainingArguments(gradient_checkpointing_kwargs={{'use_reentrant': False}})."
)


class ByName(nn.Module):
    """A model that takes its inputs by name and gives an output with logits, as one that takes a tuple of tensors."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.names: tuple[str, ...] = ()

    def forward(self, *inputs: Tensor) -> Any:
        output = self.model(**dict(zip(self.names, inputs, strict=True)))
        return getattr(output, "logits", output)


def plain(optimizer: Any) -> torch.optim.Optimizer:
    """The optimizer inside accelerate's wrapper."""
    while hasattr(optimizer, "gradient_state"):
        optimizer = optimizer.optimizer
    return optimizer


@contextlib.contextmanager
def unscaled(scaler: torch.amp.GradScaler | None, gradients: list[Tensor]) -> Iterator[None]:
    """Gradients without the factor that float16 needs, then with it again: the Trainer takes it off itself, later.

    The factor is a power of two, so nothing is lost.
    """
    if scaler is None or not gradients:
        yield
        return
    factor = scaler.get_scale()
    torch._foreach_mul_(gradients, 1.0 / factor)
    yield
    torch._foreach_mul_(gradients, factor)


def checkpoint_of(args: Any, state: Any) -> Path:
    """Where the Trainer puts the checkpoint of this step."""
    return Path(args.output_dir) / f"checkpoint-{state.global_step}"


def file_of(method: Method) -> str:
    """The file in a checkpoint that holds what the method remembers; several methods may be at work."""
    return f"supple_{method.name}.pt"


def read_memory(path: Path, global_step: int) -> dict[str, Any]:
    """What the callback wrote when the checkpoint was made."""
    if not path.exists():
        raise FileNotFoundError(
            f"the training resumes at step {global_step}, and what the method remembered then is not in {path}. "
            "Resume from a checkpoint that was made with this callback; if it is not in output_dir, say where: "
            "PlasticityCallback(..., resume_from='.../checkpoint-1000')."
        )
    memory: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
    if memory["global_step"] != global_step:
        raise ValueError(
            f"the training resumes at step {global_step}, and {path} is of step {memory['global_step']}. "
            "Give resume_from= the folder that the Trainer resumes from, or leave it out if that is in output_dir."
        )
    return memory
