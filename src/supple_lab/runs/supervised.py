"""The supervised run: stage after stage, epoch after epoch (the one loop of which all protocols are instances)."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F

from supple.learner import Learner
from supple.methods.base import Method, State
from supple_lab.data.base import Splits
from supple_lab.data.batches import Batches
from supple_lab.runs.evaluate import accuracy
from supple_lab.runs.journal import Journal
from supple_lab.runs.problem import Supervised
from supple_lab.runs.snapshot import restore_snapshot_, take_snapshot
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.step import training_step
from supple_lab.streams import stream_seed


class Diverged(Exception):
    """The loss is no longer a number."""


@dataclass
class Cursor:
    """Where in the run we are, and the sums of the stage so far."""

    stage: int = 0
    epoch: int = 0
    num_seen: int = 0
    num_correct: float = 0.0
    loss: float = 0.0


def train(spec: RunSpec, problem: Supervised, journal: Journal) -> None:
    """Train from the start or the last checkpoint to the end, recording each stage."""
    scenario, method = problem.scenario, spec.method
    splits = problem.dataset.load(journal.device)
    learner = new_learner(spec, splits, journal.device)
    state = method.init(learner)
    torch.manual_seed(stream_seed(spec.seed, "masks"))  # from here on masks alone draw from the default generators
    cursor = resume_(learner, state, journal.resume())

    while cursor.stage < scenario.num_stages:
        stage = scenario.stage(cursor.stage, splits, spec.seed)
        if cursor.stage > 0 and cursor.epoch == 0:
            if scenario.fresh_optimizer:
                learner.optimizer = spec.optimizer.build(learner.model.parameters())
            coming = Batches(stage.train, stage.batch_size, spec.seed, cursor.stage, "begin")
            method.begin_stage(learner, state, coming, cursor.stage)

        while cursor.epoch < stage.epochs:
            batches = Batches(stage.train, stage.batch_size, spec.seed, cursor.stage, cursor.epoch)
            loss, num_correct = train_epoch(learner, method, state, batches, clip_norm=spec.model.clip_norm)
            if not math.isfinite(loss):
                raise Diverged(f"the loss became {loss} in epoch {cursor.epoch} of stage {cursor.stage}.")
            cursor.epoch += 1
            cursor.num_seen += len(stage.train)
            cursor.num_correct += num_correct
            cursor.loss += loss
            if journal.checkpoint_is_due:
                journal.checkpoint({**take_snapshot(learner, state), "cursor": asdict(cursor)})
            progress = (cursor.stage + cursor.epoch / stage.epochs) / scenario.num_stages
            journal.glance(progress=progress, stage=cursor.stage, accuracy=num_correct / len(stage.train))

        journal.record(
            stage=cursor.stage,
            train_accuracy=accuracy(learner.model, stage.train),
            online_accuracy=cursor.num_correct / cursor.num_seen,
            online_loss=cursor.loss / cursor.num_seen,
        )
        if cursor.stage + 1 < scenario.num_stages:
            finished = Batches(stage.train, stage.batch_size, spec.seed, cursor.stage, "end")
            method.end_stage(learner, state, finished)
        cursor = Cursor(stage=cursor.stage + 1)


def new_learner(spec: RunSpec, splits: Splits, device: torch.device) -> Learner:
    """The network as the seed draws it, the same on every device, with its optimizer."""
    torch.manual_seed(stream_seed(spec.seed, "initialisation"))
    model = spec.model.build(
        spec.method.activation, image_shape=splits.train.image_shape, num_classes=splits.num_classes
    ).to(device)
    return Learner(
        model,
        spec.optimizer.build(model.parameters()),
        example_input=splits.train.batch(torch.arange(2, device=device))[0],
        loss=F.cross_entropy,
        seed=stream_seed(spec.seed, "method"),
    )


def resume_(learner: Learner, state: State, checkpoint: dict[str, Any] | None) -> Cursor:
    """Put everything back to the checkpoint, if there is one, and say where that was."""
    if checkpoint is None:
        return Cursor()
    restore_snapshot_(learner, state, checkpoint)
    return Cursor(**checkpoint["cursor"])


def train_epoch(
    learner: Learner, method: Method, state: State, batches: Batches, *, clip_norm: float | None
) -> tuple[float, float]:
    """One pass; sum of losses and number correct, each example scored by the forward that trained on it."""
    learner.model.train()
    total = torch.zeros(2, dtype=torch.float64, device=batches.examples.labels_N.device)
    for batch in batches:
        total += training_step(learner, method, state, batch, clip_norm=clip_norm)
    loss, num_correct = total.tolist()
    return loss, num_correct
