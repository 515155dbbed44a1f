"""What is measured when a stage is over: accuracy and loss, online and in evaluation mode, metrics, subnetworks."""

import torch

from supple.learner import Learner
from supple.metrics.base import measure
from supple.metrics.observation import observe
from supple_lab.runs.cursor import Cursor, online
from supple_lab.runs.evaluation import Evaluation
from supple_lab.runs.problem import Supervised
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.subnetworks import subnetwork_values
from supple_lab.scenarios.base import Stage

NUM_PROBED = 2000  # images of the stage that metrics see: enough for a rank of 2,000 units, all of random label's


def stage_end_values(
    spec: RunSpec, problem: Supervised, *, learner: Learner, stage: Stage, cursor: Cursor, evaluation: Evaluation
) -> dict[str, float]:
    """All values of a stage's record, measured before any method acts on its end."""
    train = {"train": stage.train if stage.num_scored is None else stage.train.first(stage.num_scored)}
    values = online(cursor.stage_sums, cursor.num_seen) | evaluation.scores({**train, **stage.tests})
    is_last = cursor.stage + 1 == problem.scenario.num_stages
    if problem.metrics and (is_last or cursor.stage % problem.metrics_every == 0):
        probe, _ = stage.train.batch(torch.arange(min(NUM_PROBED, len(stage.train)), device=learner.device))
        values |= measure(problem.metrics, observe(learner.model, probe, initial=learner.initial))
    if problem.subnetworks:
        values |= subnetwork_values(
            spec, learner, stage, index=cursor.stage, number=problem.subnetworks, numerics=evaluation.numerics
        )
    return values
