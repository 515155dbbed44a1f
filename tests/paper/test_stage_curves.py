"""Stage curves: every stage a point, or the mean of a few where stages are many."""

import numpy as np
import pytest
from made_runs import made

from supple.methods import Vanilla
from supple_lab.data.digits import Digits
from supple_lab.models.mlp import MLP
from supple_lab.optimizer import Adam
from supple_lab.paper.compare import stage_curves, stage_panel
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.spec import RunSpec, Supervised


def results_of(*values):
    problem = Supervised(scenario=RandomLabel(num_stages=max(map(len, values))), dataset=Digits())
    specs = [
        RunSpec(problem=problem, model=MLP(), method=Vanilla(), optimizer=Adam(), seed=seed)
        for seed in range(len(values))
    ]
    return made(specs, lambda spec: {"accuracy": values[spec.seed]})


def test_a_hundred_stages_are_a_hundred_points():
    values = np.random.default_rng(0).random(100)
    (curve,) = stage_curves({"vanilla": results_of(values)}, "accuracy")
    assert curve.x.tolist() == list(range(1, 101))
    assert curve.values[0].tolist() == values.tolist()
    assert stage_panel("", {"vanilla": results_of(values)}, "accuracy", y_label="").x_label == "stage"


def test_eight_hundred_stages_are_a_hundred_means_that_keep_the_mean_of_all():
    values = np.random.default_rng(0).random((2, 800))
    by_method = {"vanilla": results_of(*values)}
    (curve,) = stage_curves(by_method, "accuracy")
    assert curve.x.tolist() == list(range(8, 801, 8))
    assert curve.values[1, 2] == pytest.approx(values[1, 16:24].mean())
    assert curve.values.mean() == pytest.approx(values.mean())
    assert stage_panel("", by_method, "accuracy", y_label="").x_label == "stage (points: means of 8)"


def test_the_last_point_is_the_mean_of_the_stages_that_are_left():
    values = np.arange(105.0)
    (curve,) = stage_curves({"vanilla": results_of(values)}, "accuracy")
    assert curve.x[-1] == 105
    assert curve.values[0, -1] == 104.0
