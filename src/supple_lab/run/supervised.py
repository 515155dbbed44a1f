"""The supervised loop: stages, epochs and steps of a run, what it records, and where it is."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from supple.attach import Plasticity
from supple.metrics.base import Metric
from supple.metrics.observe import Task, observe
from supple_lab.data.base import Facts, Splits
from supple_lab.data.batches import Batches
from supple_lab.files import StorageError
from supple_lab.optimizer import set_learning_rate_
from supple_lab.precision import Numerics
from supple_lab.run.class_mask import ClassMask
from supple_lab.run.evaluate import PROBE_BATCH_SIZE, Evaluation, measure_on_probe
from supple_lab.run.network import attach_method, new_learner, restore_snapshot_, take_snapshot
from supple_lab.run.recorder import Journal
from supple_lab.run.step import TrainState, choose_steps
from supple_lab.run.subnetworks import ResumableWork, check_subnetworks, subnetwork_values
from supple_lab.scenarios.base import Scenario, Stage
from supple_lab.spec import RunSpec, Supervised
from supple_lab.streams import stream


@dataclass
class Cursor:
    """The next batch to train on. The sums are (loss, number correct) of the forwards that were trained on."""

    epoch_sums: Tensor
    stage_sums: Tensor
    stage: int = 0
    epoch: int = 0
    step: int = 0  # batches of this epoch that are done
    num_seen: int = 0  # labels of the stage's whole epochs so far
    best_accuracy: float = -1.0  # on the test that the stage names, of its epochs so far
    best: dict[str, Tensor] = field(default_factory=dict)  # the network that had it

    def next_epoch(self, num_labels: int) -> None:
        self.stage_sums += self.epoch_sums
        self.epoch_sums.zero_()
        self.num_seen += num_labels
        self.epoch += 1
        self.step = 0

    def next_stage(self) -> None:
        self.stage_sums.zero_()
        self.stage += 1
        self.epoch = self.num_seen = 0
        self.best_accuracy, self.best = -1.0, {}


def online(sums: Tensor, num_seen: int) -> dict[str, float]:
    """Mean loss and accuracy, each label scored by the very forward that trained on it."""
    loss, accuracy = (sums / num_seen).tolist()
    return {"online_accuracy": accuracy, "online_loss": loss}


class Progress:
    """Counts steps, because stages differ in length: the last of continual full has ten times those of the first."""

    def __init__(self, scenario: Scenario, facts: Facts, *, subnetworks: int = 0) -> None:
        self._sizes = [scenario.size(index, facts) for index in range(scenario.num_stages)]
        self._subnetworks = subnetworks  # copies trained at a stage's end for as many steps each
        self._before = [0, *accumulate(size.num_steps * (1 + subnetworks) for size in self._sizes)]
        self.largest_stage = max(size.num_images for size in self._sizes)  # in training images

    def at(self, stage: int, epoch: int, step: int) -> float:
        """The share done when these stages, epochs and steps are."""
        done = self._before[stage] + epoch * self._sizes[stage].steps_per_epoch + step
        return min(done / self._before[-1], 1.0)

    def of_subnetworks(self, stage: int, share: float) -> float:
        """The share done when so much of the training of a stage's subnetworks is."""
        steps = self._sizes[stage].num_steps
        return (self._before[stage] + steps * (1 + self._subnetworks * share)) / self._before[-1]


# Labels of the stage that metrics see, one an image: enough for a rank of 2,000 units, all of random label's.
NUM_PROBED = 2000


def stage_end_values(
    training: TrainState, spec: RunSpec, stage: Stage, *, cursor: Cursor, evaluation: Evaluation, work: ResumableWork
) -> dict[str, float]:
    """All values of a stage's record, measured before any method acts on its end."""
    problem, learner = spec.problem, training.learner
    assert isinstance(problem, Supervised)
    train = {"train": stage.train if stage.num_scored is None else stage.train.first(stage.num_scored)}
    with training.plasticity.evaluation():
        values = online(cursor.stage_sums, cursor.num_seen) | evaluation.scores({**train, **stage.tests})
    evaluation.forget("train")
    is_last = cursor.stage + 1 == problem.scenario.num_stages
    if problem.metrics and (is_last or cursor.stage % problem.metrics_every == 0):
        # A fixed sample of the stage's images, because some datasets lie sorted by class.
        num_probed = max(1, NUM_PROBED * len(stage.train) // stage.train.num_labels)
        order = torch.randperm(len(stage.train), generator=stream(spec.seed, "probe"))[:num_probed]
        probe = stage.train.batch(order.to(stage.train.labels_N.device))
        values |= metric_values(training, problem.metrics, probe)
    if problem.subnetworks:
        number, numerics = problem.subnetworks, training.numerics
        values |= subnetwork_values(
            spec, learner, stage, index=cursor.stage, number=number, numerics=numerics, work=work
        )
    return values


def metric_values(training: TrainState, metrics: Sequence[Metric], probe: tuple[Tensor, Tensor]) -> dict[str, float]:
    """The metrics on the network of now, in the precision of the run."""
    (images, labels), learner = probe, training.learner
    task = Task(images, labels, F.cross_entropy, learner.optimizer)
    with training.numerics.forward():
        observation = observe(learner.model, images, initial=learner.initial, task=task)
    batches = zip(images.split(PROBE_BATCH_SIZE), labels.split(PROBE_BATCH_SIZE), strict=True)
    return measure_on_probe(metrics, observation, training=training, batches=batches)


class Diverged(Exception):
    """The loss is no longer a number."""


def train(spec: RunSpec, problem: Supervised, journal: Journal, masks: torch.Generator) -> None:
    """Train from the start or the last checkpoint to the end, recording each epoch and each stage."""
    if problem.subnetworks:
        check_subnetworks(spec)
    numerics = Numerics.choose(journal.device, spec.precision)
    splits = problem.dataset.load(journal.device)
    problem.scenario.check(splits.facts)
    plasticity = attach_method(spec, new_learner(spec, splits, numerics))
    try:
        train_stages(spec, problem, journal, splits=splits, plasticity=plasticity, numerics=numerics, masks=masks)
    finally:
        plasticity.pause()  # its hooks make a cycle, which would keep the memory of model and optimizer


def train_stages(
    spec: RunSpec,
    problem: Supervised,
    journal: Journal,
    *,
    splits: Splits,
    plasticity: Plasticity,
    numerics: Numerics,
    masks: torch.Generator,
) -> None:
    scenario, learner = problem.scenario, plasticity.learner
    zeros = torch.zeros(2, dtype=torch.float64, device=journal.device)
    cursor, checkpoint = Cursor(zeros, zeros.clone()), journal.resume()
    if checkpoint is not None:
        with journal.restoring():
            if checkpoint["facts"] != (facts := asdict(splits.facts)):  # partial datasets may grow
                raise StorageError(
                    f"the run began on other data ({checkpoint['facts']}) than there is now ({facts}), and is not the "
                    "same run any more. Put the data back, or choose another folder with --out DIR."
                )
            restore_snapshot_(plasticity, masks, checkpoint)
            cursor = Cursor(**checkpoint["cursor"])
    progress = Progress(scenario, splits.facts, subnetworks=problem.subnetworks)
    training = TrainState(plasticity, numerics, masks, cursor.epoch_sums)
    steps = choose_steps(training, num_examples=progress.largest_stage)
    evaluation = Evaluation(learner.model, numerics)
    class_mask = ClassMask(learner.model, splits.num_classes, numerics.device)

    def snapshot() -> dict[str, Any]:
        return {**take_snapshot(plasticity, masks), "cursor": vars(cursor), "facts": asdict(splits.facts)}

    work = ResumableWork(journal, snapshot, checkpoint)
    while cursor.stage < scenario.num_stages:
        stage = scenario.stage(cursor.stage, splits, spec.seed)
        class_mask.show(stage.num_classes)  # before a method reads the stage's data
        if cursor.stage > 0 and cursor.epoch == cursor.step == 0:
            if scenario.fresh_optimizer:
                plasticity.optimizer = spec.optimizer.renewed(learner.optimizer)
            plasticity.begin_stage(Batches(stage.train, stage.batch_size, spec.seed, cursor.stage, "begin"))
        steps.begin_stage(stage.train)
        learner.model.train()

        while cursor.epoch < stage.epochs:
            if stage.in_epoch is not None:
                steps.begin_stage(stage.in_epoch(cursor.epoch))
            learning_rate = spec.optimizer.learning_rate * stage.learning_rate_factor(cursor.epoch)
            set_learning_rate_(learner.optimizer, learning_rate)
            batches = Batches(stage.train, stage.batch_size, spec.seed, cursor.stage, cursor.epoch).indices()
            while cursor.step < len(batches):
                cursor.step += steps.take(batches[cursor.step :])
                journal.note_not_captured(
                    "training steps, which draw other random numbers (masks), if any", steps.why_eager
                )
                journal.checkpoint_if_due(snapshot)
                journal.write_progress(
                    progress=progress.at(cursor.stage, cursor.epoch, cursor.step), stage=cursor.stage
                )
            values = online(cursor.epoch_sums, stage.train.num_labels)
            check_finite(values["online_loss"], f"in epoch {cursor.epoch} of stage {cursor.stage}")
            if stage.tests_every_epoch:
                with plasticity.evaluation():
                    values |= evaluation.scores(stage.tests)
                journal.note_not_captured("evaluation", evaluation.why_eager)
            journal.record_epoch(stage=cursor.stage, epoch=cursor.epoch, **values)
            journal.write_progress(accuracy=values["online_accuracy"])
            if stage.best_on is not None and (accuracy := values[f"{stage.best_on}_accuracy"]) > cursor.best_accuracy:
                best = {name: tensor.detach().clone() for name, tensor in learner.model.state_dict().items()}
                cursor.best_accuracy, cursor.best = accuracy, best
            cursor.next_epoch(stage.train.num_labels)

        if cursor.best:
            learner.model.load_state_dict(cursor.best)
        work.progress = partial(progress.of_subnetworks, cursor.stage)
        values = stage_end_values(training, spec, stage, cursor=cursor, evaluation=evaluation, work=work)
        journal.note_not_captured("evaluation", evaluation.why_eager)
        check_finite(values["train_loss"], f"after the last step of stage {cursor.stage}")
        journal.record_stage(stage=cursor.stage, **values)
        if cursor.stage + 1 < scenario.num_stages:
            plasticity.end_stage(Batches(stage.train, stage.batch_size, spec.seed, cursor.stage, "end"))
        cursor.next_stage()


def check_finite(loss: float, when: str) -> None:
    if not math.isfinite(loss):
        raise Diverged(f"the loss became {loss} {when}.")
