"""What is measured when a stage is over: accuracy and loss, online and in evaluation mode, metrics, subnetworks."""

from collections.abc import Sequence

import torch
from torch import Tensor

from supple.metrics.base import Metric
from supple.metrics.observe import observe
from supple_lab.runs.cursor import Cursor, online
from supple_lab.runs.evaluation import Evaluation
from supple_lab.runs.interim import Interim
from supple_lab.runs.probe_gradients import BATCH_SIZE, measure_on_probe
from supple_lab.runs.problem import Supervised
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.step import Trainee
from supple_lab.runs.subnetworks import subnetwork_values
from supple_lab.scenarios.base import Stage
from supple_lab.streams import stream

NUM_PROBED = 2000  # images of the stage that metrics see: enough for a rank of 2,000 units, all of random label's


def stage_end_values(
    trainee: Trainee, spec: RunSpec, stage: Stage, *, cursor: Cursor, evaluation: Evaluation, interim: Interim
) -> dict[str, float]:
    """All values of a stage's record, measured before any method acts on its end."""
    problem, learner = spec.problem, trainee.learner
    assert isinstance(problem, Supervised)
    train = {"train": stage.train if stage.num_scored is None else stage.train.first(stage.num_scored)}
    values = online(cursor.stage_sums, cursor.num_seen) | evaluation.scores({**train, **stage.tests})
    evaluation.forget("train")
    is_last = cursor.stage + 1 == problem.scenario.num_stages
    if problem.metrics and (is_last or cursor.stage % problem.metrics_every == 0):
        values |= metric_values(trainee, problem.metrics, probe(stage, spec.seed))
    if problem.subnetworks:
        values |= subnetwork_values(
            spec,
            learner,
            stage,
            index=cursor.stage,
            number=problem.subnetworks,
            numerics=trainee.numerics,
            interim=interim,
        )
    return values


def metric_values(trainee: Trainee, metrics: Sequence[Metric], probe: tuple[Tensor, Tensor]) -> dict[str, float]:
    """The metrics on the network of now, in the precision of the run."""
    (images, labels), learner = probe, trainee.learner
    with trainee.numerics.forward():
        observation = observe(learner.model, images, initial=learner.initial)
    batches = zip(images.split(BATCH_SIZE), labels.split(BATCH_SIZE), strict=True)
    return measure_on_probe(metrics, observation, trainee=trainee, batches=batches)


def probe(stage: Stage, seed: int) -> tuple[Tensor, Tensor]:
    """Images and labels for the metrics: a fixed sample of the stage's, for some datasets lie sorted by class."""
    order = torch.randperm(len(stage.train), generator=stream(seed, "probe"))[:NUM_PROBED]
    return stage.train.batch(order.to(stage.train.labels_N.device))
