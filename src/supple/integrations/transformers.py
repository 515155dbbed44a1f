"""Hugging Face Trainer: any method and the Monitor as a TrainerCallback.

    trainer = Trainer(model, args, train_dataset=data, callbacks=[PlasticityCallback(L2Init())])

The Trainer clips before its hook ``on_pre_optimizer_step``, so gradients are edited at the end of the backward instead,
once they are accumulated and averaged over processes. Stages end at the beginning of the next step, so that nothing is
done after the last one. Each call of ``train`` is a stage as well.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from supple.attach import Plasticity, attach
from supple.integrations.stage_data import Adapter, BackwardEnd, StageData, StageLength
from supple.learner import Batch
from supple.methods.base import Method
from supple.monitor import DEFAULT_EVERY, Monitor
from supple.monitor_table import Row, write_of
from supple.processes import check_shards
from supple.units import Inputs

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise ImportError("supple.integrations.transformers needs: pip install transformers accelerate") from error

NO_INPUTS = ("num_items_in_batch",)  # which the Trainer gives a model besides what is in the batch


class PlasticityCallback(Adapter, TrainerCallback):
    """Methods at work in a Trainer, their states in the Trainer's checkpoints; metrics go to ``state.log_history``.

    writer: where metrics go besides, as of a Monitor. ``callback.writer = trainer.log`` sends them to everything that
        the Trainer reports to.
    labels: the name of the targets in a batch.
    monitor_every: steps between two readings; None for no Monitor.
    loss: of logits and labels, for methods that take gradients of their own (DASH).
    resume_from: the folder of the checkpoint that the Trainer resumes from, where it is not in its ``output_dir``.

    Evaluations in the training are of the network that a method has for it (HareTortoise); around those before and
    after it open ``callback.plasticity.evaluation()``.
    """

    def __init__(
        self,
        method: Method | Sequence[Method] | None = None,
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
        self.prepare(method, monitor_every=monitor_every, seed=seed)
        self.labels, self.writer, self.loss, self.resume_from = labels, writer, loss, resume_from
        self.length = StageLength(epochs=epochs_per_stage, steps=steps_per_stage)
        self._network: Any = None
        self._rows: list[Row] = []
        self._backward: BackwardEnd | None = None
        self._is_edited = False  # whether the gradients of this step are

    @property
    def file(self) -> str:
        """The file in a checkpoint that holds what the methods remember; several callbacks may be at work."""
        return f"supple_{'+'.join(method.name for method in self.methods)}.pt"

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        model, optimizer, data = kwargs["model"], kwargs["optimizer"], self._data_of(kwargs["train_dataloader"])
        self.on_train_end(args, state, control)  # of a training that was interrupted
        if self.plasticity is None or not self.plasticity.num_steps or state.global_step:
            self.plasticity = self._begin(model, optimizer)
            if state.global_step:
                folder = checkpoint_of(args, state) if self.resume_from is None else Path(self.resume_from)
                self.length.load_into(self.plasticity, read_memory(folder / self.file, state.global_step))
            if args.torch_compile:
                self.plasticity.no_example = COMPILED
                self.plasticity.init_states()
        elif self._network.model is not model:
            raise ValueError("a PlasticityCallback belongs to one model; make a new one for another model.")
        else:
            self.plasticity.end_stage(self._data or ())
            self.plasticity.optimizer = optimizer
            self.length.begin(self.plasticity, data)
        self._data = data
        self._backward = BackwardEnd(model.parameters(), lambda: self._after_backward(optimizer))
        self.evaluate_if(args.eval_on_start)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        assert self.plasticity is not None
        self._is_edited = False
        data = self._data_of(kwargs["train_dataloader"])
        self.length.end_if_due(self.plasticity, data, epoch=math.floor(state.epoch or 0))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        write = write_of(self.writer)
        for row in self._rows:
            state.log_history.append({**row, "step": state.global_step})
            write({**row, "step": state.global_step})
        self._rows.clear()
        self.evaluate_if(control.should_evaluate)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.evaluate_if(control.should_evaluate)

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        another = next((type(method).__name__ for method in self.methods if method.acts_in("evaluation")), None)
        if another and self.plasticity is not None and not self.plasticity.is_evaluating:
            raise RuntimeError(NOT_SEEN_COMING.format(method=another))

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.evaluate_if(False)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        assert self.plasticity is not None
        if state.is_world_process_zero:
            memory = self.length.saved_with(self.plasticity) | {"global_step": state.global_step}
            torch.save(memory, checkpoint_of(args, state) / self.file)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.evaluate_if(False)
        if self.plasticity is not None and self._backward is not None:
            self.plasticity.pause()
            self._backward.close()

    def _begin(self, model: nn.Module, optimizer: Any) -> Plasticity:
        check_shards((model, optimizer), self.methods)
        if self.plasticity is not None:
            self.plasticity.detach()
        # accelerate puts DistributedDataParallel around the model that a callback is given, over all processes.
        is_copied = optimizer.accelerator_state.distributed_type.startswith("MULTI_")
        group = torch.distributed.group.WORLD if is_copied else None
        self._network = ByName(model)
        own = attach(self._network, optimizer, self.methods, loss=self.loss, seed=self.seed, process_group=group)
        own.no_example = "the Trainer called the model with no tensors by name."
        if self.monitor_every is not None:
            own.monitor = Monitor(model, every=self.monitor_every, writer=self._note)
        own.watch_inputs(model, self._inputs_of)
        return own

    def _inputs_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Inputs | None:
        others = (self.labels, *NO_INPUTS)
        named = {name: value for name, value in kwargs.items() if name not in others and isinstance(value, Tensor)}
        self._network.names = tuple(named)
        return tuple(named.values()) or None

    def _after_backward(self, optimizer: Any) -> None:
        if not optimizer.gradient_state.sync_gradients:
            return
        assert self.plasticity is not None
        editing = [type(method).__name__ for method in self.methods if method.acts_in("after_backward")]
        if self._is_edited and editing:
            raise RuntimeError(SEVERAL_BACKWARDS.format(method=editing[0]))
        self._is_edited = True
        with unscaled(optimizer.scaler, self.plasticity.learner.trained()[2]):
            self.plasticity.edit_gradients()

    def _note(self, row: Row) -> None:
        self._rows.append({f"plasticity/{name}": value for name, value in row.items() if name != "step"})

    def _data_of(self, loader: Any) -> StageData:
        return StageData(loader, self._as_batch)

    def _as_batch(self, batch: dict[str, Tensor]) -> Batch:
        names = self._network.names
        absent = [name for name in (*names, self.labels) if name not in batch]
        if absent:
            reader = next(type(method).__name__ for method in self.methods if method.reads_data)
            raise ValueError(
                f"{reader} reads the data of a stage, and a batch of it has no '{absent[0]}', only {', '.join(batch)}. "
                "Name the targets with labels=...; inputs that are not from the batch cannot be given."
            )
        return tuple(batch[name] for name in names), batch[self.labels]


COMPILED = "the Trainer compiles the model, and its forwards are not seen. Leave torch_compile out."
NOT_SEEN_COMING = (
    "{method} evaluates another network than it trains, and the Trainer announces evaluations of one dataset in its "
    "training alone. Put that network in place yourself: with callback.plasticity.evaluation(): trainer.evaluate()."
)
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
    return Path(args.output_dir) / f"checkpoint-{state.global_step}"


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
