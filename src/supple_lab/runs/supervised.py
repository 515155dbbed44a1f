"""The supervised run: stage after stage, epoch after epoch (the one loop of which all protocols are instances)."""

import math
import threading
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from supple.learner import Learner
from supple_lab.data.base import Splits
from supple_lab.data.batches import Batches
from supple_lab.runs.captured import choose_steps
from supple_lab.runs.cursor import Cursor, online
from supple_lab.runs.evaluation import Evaluation
from supple_lab.runs.journal import Journal
from supple_lab.runs.precision import Numerics
from supple_lab.runs.problem import Supervised
from supple_lab.runs.progress import Progress
from supple_lab.runs.snapshot import restore_snapshot_, take_snapshot
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.stage_end import stage_end_values
from supple_lab.runs.step import Trainee
from supple_lab.runs.subnetworks import check_subnetworks
from supple_lab.streams import stream_seed

# Networks are drawn from torch's default generator, and traced by means that are not made for threads; runs that share
# a GPU do so in threads of one process.
ONE_AT_A_TIME = threading.Lock()


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
    with ONE_AT_A_TIME:
        learner = new_learner(spec, splits, numerics)
        state = method.init(learner)
    cursor, checkpoint = Cursor.new(journal.device), journal.resume()
    if checkpoint is not None:
        restore_snapshot_(learner, state, masks, checkpoint)
        cursor = Cursor(**checkpoint["cursor"])
    progress = Progress(scenario, splits.facts)
    trainee = Trainee(learner, method, state, numerics, spec.model.clip_norm, masks, cursor.epoch_sums)
    steps = choose_steps(trainee, num_examples=progress.largest_stage)
    evaluation = Evaluation(learner.model, numerics)

    def snapshot() -> dict[str, Any]:
        return {**take_snapshot(learner, state, masks), "cursor": vars(cursor)}

    while cursor.stage < scenario.num_stages:
        stage = scenario.stage(cursor.stage, splits, spec.seed)
        if cursor.stage > 0 and cursor.at_start_of_stage:
            if scenario.fresh_optimizer:
                learner.optimizer = spec.optimizer.build(learner.model.parameters())
            coming = Batches(stage.train, stage.batch_size, spec.seed, cursor.stage, "begin")
            method.begin_stage(learner, state, coming, cursor.stage)
        steps.begin_stage(stage.train)

        while cursor.epoch < stage.epochs:
            learning_rate = spec.optimizer.learning_rate * stage.learning_rate_factor(cursor.epoch)
            set_learning_rate_(learner.optimizer, learning_rate)
            batches = Batches(stage.train, stage.batch_size, spec.seed, cursor.stage, cursor.epoch)
            learner.model.train()
            for indices in batches.indices()[cursor.step :]:
                steps.take(indices)
                cursor.step += 1
                journal.checkpoint_if_due(snapshot)
                journal.glance(progress=progress.at(cursor.stage, cursor.epoch, cursor.step), stage=cursor.stage)
            values = online(cursor.epoch_sums, len(stage.train))
            check_finite(values["online_loss"], f"in epoch {cursor.epoch} of stage {cursor.stage}")
            values |= evaluation.scores(stage.tests)
            journal.record_epoch(stage=cursor.stage, epoch=cursor.epoch, **values)
            journal.glance(accuracy=values["online_accuracy"])
            cursor.next_epoch(len(stage.train))

        values = stage_end_values(spec, problem, learner=learner, stage=stage, cursor=cursor, evaluation=evaluation)
        check_finite(values["train_loss"], f"after the last step of stage {cursor.stage}")
        journal.record_stage(stage=cursor.stage, **values)
        if cursor.stage + 1 < scenario.num_stages:
            finished = Batches(stage.train, stage.batch_size, spec.seed, cursor.stage, "end")
            method.end_stage(learner, state, finished)
        cursor.next_stage()
        journal.checkpoint_after_stage(cursor.stage - 1, snapshot)


def new_learner(spec: RunSpec, splits: Splits, numerics: Numerics) -> Learner:
    """The network as the seed draws it, the same on every device, with its optimizer."""
    facts = splits.facts
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(stream_seed(spec.seed, "initialisation"))
        model = spec.model.build(spec.method.activation, image_shape=facts.image_shape, num_classes=facts.num_classes)
    model = numerics.place(model)
    return Learner(
        model,
        spec.optimizer.build(model.parameters()),
        example_input=splits.train.batch(torch.arange(2, device=numerics.device))[0],
        loss=F.cross_entropy,
        seed=stream_seed(spec.seed, "method"),
    )


def set_learning_rate_(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Give every parameter this learning rate from the next step on."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(learning_rate)
        else:
            group["lr"] = learning_rate


def check_finite(loss: float, when: str) -> None:
    """Raise Diverged unless the loss is a number."""
    if not math.isfinite(loss):
        raise Diverged(f"the loss became {loss} {when}.")
