"""The supervised run: stage after stage, epoch after epoch (the one loop of which all protocols are instances)."""

import math
from dataclasses import asdict
from functools import partial
from typing import Any

import torch

from supple_lab.atomic_write import StorageError
from supple_lab.data.base import Facts
from supple_lab.data.batches import Batches
from supple_lab.runs.captured import choose_steps
from supple_lab.runs.cursor import Cursor, online
from supple_lab.runs.evaluation import Evaluation
from supple_lab.runs.interim import Interim
from supple_lab.runs.journal import Journal
from supple_lab.runs.new_learner import new_learner
from supple_lab.runs.optimizer import set_learning_rate_
from supple_lab.runs.precision import Numerics
from supple_lab.runs.problem import Supervised
from supple_lab.runs.progress import Progress
from supple_lab.runs.recording import ONE_CAPTURE
from supple_lab.runs.snapshot import restore_snapshot_, take_snapshot
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.stage_end import stage_end_values
from supple_lab.runs.step import Trainee
from supple_lab.runs.subnetworks import check_subnetworks


class Diverged(Exception):
    """The loss is no longer a number."""


def train(spec: RunSpec, problem: Supervised, journal: Journal, masks: torch.Generator) -> None:
    """Train from the start or the last checkpoint to the end, recording each epoch and each stage."""
    scenario, method = problem.scenario, spec.method
    if problem.subnetworks:
        check_subnetworks(spec)
    numerics = Numerics.choose(journal.device, spec.precision)
    splits = problem.dataset.load(journal.device)
    scenario.check(splits.facts)
    learner = new_learner(spec, splits, numerics)
    with ONE_CAPTURE:  # a method that traces the network has torch.export turn cuDNN off for the whole process
        state = method.init(learner)
    cursor, checkpoint = Cursor.new(journal.device), journal.resume()
    if checkpoint is not None:
        check_same_data(checkpoint["facts"], splits.facts)
        restore_snapshot_(learner, state, masks, checkpoint)
        cursor = Cursor(**checkpoint["cursor"])
    progress = Progress(scenario, splits.facts, subnetworks=problem.subnetworks)
    trainee = Trainee(learner, method, state, numerics, spec.model.clip_norm, masks, cursor.epoch_sums)
    steps = choose_steps(trainee, num_examples=progress.largest_stage)
    evaluation = Evaluation(learner.model, numerics)

    def snapshot() -> dict[str, Any]:
        return {**take_snapshot(learner, state, masks), "cursor": vars(cursor), "facts": asdict(splits.facts)}

    interim = Interim(journal, snapshot, checkpoint)
    while cursor.stage < scenario.num_stages:
        stage = scenario.stage(cursor.stage, splits, spec.seed)
        if cursor.stage > 0 and cursor.at_start_of_stage:
            if scenario.fresh_optimizer:
                learner.optimizer = spec.optimizer.renewed(learner.optimizer)
            coming = Batches(stage.train, stage.batch_size, spec.seed, cursor.stage, "begin")
            method.begin_stage(learner, state, coming, cursor.stage)
        steps.begin_stage(stage.train)
        learner.model.train()

        while cursor.epoch < stage.epochs:
            learning_rate = spec.optimizer.learning_rate * stage.learning_rate_factor(cursor.epoch)
            set_learning_rate_(learner.optimizer, learning_rate)
            batches = Batches(stage.train, stage.batch_size, spec.seed, cursor.stage, cursor.epoch).indices()
            while cursor.step < len(batches):
                cursor.step += steps.take(batches[cursor.step :])
                journal.note_not_captured(
                    "training steps, which draw other random numbers (masks), if any", steps.obstacle
                )
                journal.checkpoint_if_due(snapshot)
                journal.glance(progress=progress.at(cursor.stage, cursor.epoch, cursor.step), stage=cursor.stage)
            values = online(cursor.epoch_sums, len(stage.train))
            check_finite(values["online_loss"], f"in epoch {cursor.epoch} of stage {cursor.stage}")
            values |= evaluation.scores(stage.tests)
            journal.note_not_captured("evaluation", evaluation.obstacle)
            journal.record_epoch(stage=cursor.stage, epoch=cursor.epoch, **values)
            journal.glance(accuracy=values["online_accuracy"])
            cursor.next_epoch(len(stage.train))

        interim.progress = partial(progress.of_subnetworks, cursor.stage)
        values = stage_end_values(trainee, spec, stage, cursor=cursor, evaluation=evaluation, interim=interim)
        journal.note_not_captured("evaluation", evaluation.obstacle)
        check_finite(values["train_loss"], f"after the last step of stage {cursor.stage}")
        journal.record_stage(stage=cursor.stage, **values)
        if cursor.stage + 1 < scenario.num_stages:
            finished = Batches(stage.train, stage.batch_size, spec.seed, cursor.stage, "end")
            method.end_stage(learner, state, finished)
        cursor.next_stage()
        journal.checkpoint_after_stage(cursor.stage - 1, snapshot)


def check_same_data(before: dict[str, Any], now: Facts) -> None:
    """Refuse to go on with other data than the run began with; partial datasets may grow."""
    if before != (told := asdict(now)):
        raise StorageError(
            f"the run began on other data ({before}) than there is now ({told}), and is not the same run any more. "
            "Put the data back, or choose another folder with --out DIR."
        )


def check_finite(loss: float, when: str) -> None:
    """Raise Diverged unless the loss is a number."""
    if not math.isfinite(loss):
        raise Diverged(f"the loss became {loss} {when}.")
