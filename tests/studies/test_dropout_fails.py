"""Why Dropout fails: the paper's runs, slopes over the drop rates by hand, and warm_start's runs beside them."""

from collections import Counter

import numpy as np
import pytest
from made_stages import made_stages, verdicts

from supple.methods.activations import UseAID, UseDropout
from supple.methods.vanilla import Vanilla
from supple_lab.data.mnist import MNIST
from supple_lab.models.mlp import MLP
from supple_lab.runs.optimizer import Adam
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.studies.dropout_fails import DropoutFails, falls_by_rate, network_condition, slope, variants_of
from supple_lab.studies.order import Order
from supple_lab.studies.warm_start import WarmStart

STUDY = DropoutFails()
PAPER = Order(scale="paper")
TWO_STAGES = Order(scale="smoke", num_seeds=3)


def rate_of(spec):
    return {"vanilla": 0.0, "aid": None}.get(spec.method.name, getattr(spec.method, "drop_positive", None))


def as_in_the_paper(spec, *, slope=0.6, aid=0.01):
    """Falls of 0.1 plus the slope times the rate, AID's next to none; subnetworks fall as their networks do."""
    if spec.problem.scenario.name != "random_label":
        accuracies = [0.3, 0.5 + 0.001 * spec.seed][-spec.problem.scenario.num_stages :]
        return {"test_accuracy": accuracies}
    fall = aid if spec.method.name == "aid" else 0.1 + slope * rate_of(spec)
    row = [0.9, 0.9 - fall + 0.001 * spec.seed]
    return {"train_accuracy": row, "subnetwork_accuracy": row}


def decided(values_of):
    return verdicts(STUDY, made_stages(STUDY.specs(TWO_STAGES), values_of), TWO_STAGES)


def test_paper_scale_is_the_papers():
    specs = [spec for spec in STUDY.specs(PAPER) if spec.problem.scenario.name == "random_label"]
    assert {spec.problem.scenario for spec in specs} == {
        RandomLabel(num_stages=50, epochs=100, batch_size=64, num_images=1400)
    }
    assert {(spec.model, spec.problem.dataset) for spec in specs} == {(MLP(width=512, num_hidden=7), MNIST())}
    assert {spec.problem.subnetworks for spec in specs} == {10}
    assert {spec.optimizer for spec in specs} == {Adam(learning_rate=1e-3)}
    dropouts = [UseDropout(drop_positive=rate) for rate in (0.1, 0.3, 0.5)]
    assert Counter(spec.method for spec in specs) == dict.fromkeys((Vanilla(), *dropouts, UseAID(relu_prob=0.9)), 5)


def test_the_other_runs_are_those_of_warm_start():
    for scale in ("smoke", "quick", "paper"):
        own = {spec.run_id for spec in STUDY.specs(Order(scale=scale)) if spec.problem.scenario.name != "random_label"}
        assert own == {spec.run_id for spec in WarmStart().specs(Order(scale=scale))}


def test_all_claims_hold_on_accuracies_as_the_paper_describes_them():
    assert decided(as_in_the_paper) == ["holds"] * 3


def test_slope_is_that_of_the_falls_over_the_rates():
    order = TWO_STAGES
    results = made_stages(STUDY.specs(order), lambda spec: as_in_the_paper(spec, slope=0.4))
    by_rate = falls_by_rate(variants_of(network_condition(order).of(results, order)), "train_accuracy")
    assert list(by_rate) == [0.0, 0.1, 0.3, 0.5]
    np.testing.assert_allclose(slope(by_rate).values, [0.4] * 3)
    assert len(slope(by_rate).runs) == 12


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"slope": -0.1}, ["fails", "fails", "holds"]),
        ({"slope": -0.3}, ["fails", "fails", "holds"]),  # no fall at the highest rate, either
        ({"aid": 0.08}, ["holds", "holds", "fails"]),
        ({"aid": 0.04}, ["holds", "holds", "holds"]),  # less than half of vanilla's 0.1
    ],
)
def test_each_claim_fails_by_its_own_rule(changed, expected):
    assert decided(lambda spec: as_in_the_paper(spec, **changed)) == expected


def test_subnetworks_are_decided_by_their_own_accuracy():
    def network_alone_falls(spec):
        values = as_in_the_paper(spec)
        if "subnetwork_accuracy" not in values:
            return values
        return {**values, "subnetwork_accuracy": [0.9, 0.9 + 0.001 * spec.seed - 0.01 * (rate_of(spec) or 0.0)]}

    assert decided(network_alone_falls) == ["holds", "fails", "not decided"]  # vanilla's copies lose nothing


def test_an_aid_that_never_learned_keeps_nothing():
    def at_chance(spec):
        values = as_in_the_paper(spec)
        flat = [0.1, 0.1 + 0.001 * spec.seed]
        return dict.fromkeys(values, flat) if spec.method.name == "aid" and "train_accuracy" in values else values

    assert decided(at_chance) == ["holds", "holds", "fails"]


@pytest.mark.parametrize(("level", "verdict"), [(0.16, "not decided"), (0.14, "fails")])
@pytest.mark.parametrize("metric", ["train_accuracy", "subnetwork_accuracy"])
def test_where_the_vanilla_network_never_learned_there_is_nothing_to_keep(metric, level, verdict):
    def flat(spec):
        values = as_in_the_paper(spec)
        return {**values, metric: [level + 0.001 * spec.seed] * 2} if metric in values else values

    assert decided(flat)[2] == verdict


def test_a_rate_that_has_not_run_leaves_the_slope_open():
    found = decided(lambda spec: None if rate_of(spec) == 0.5 else as_in_the_paper(spec))
    assert found == ["not run", "not run", "holds"]


def test_degradation_is_against_the_first_stage_and_rates_have_lines_of_their_own():
    network, subnetworks, starts = (
        STUDY.draw(made_stages(STUDY.specs(TWO_STAGES), as_in_the_paper), TWO_STAGES).figures[0].panels
    )
    assert [curve.label for curve in network.curves] == ["ReLU", "Dropout 0.1", "Dropout 0.3", "Dropout 0.5", "AID"]
    np.testing.assert_allclose(network.curves[3].middle, [0.0, -0.4 + 0.001])
    np.testing.assert_allclose(subnetworks.curves[0].middle, [0.9, 0.8 + 0.001])
    assert [bar.label for bar in starts.bars] == ["ReLU", "Dropout 0.3", "AID"]
    np.testing.assert_allclose(starts.bars[0].middle, [0.501, 0.501])
