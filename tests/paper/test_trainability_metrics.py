"""Trainability metrics: measured often enough and not too often, and claims that rest on the right numbers."""

import pytest
from made_runs import verdicts

from supple_lab.paper.study import StudyOptions
from supple_lab.paper.trainability_metrics import TrainabilityMetrics

STUDY = TrainabilityMetrics()
PAPER = StudyOptions(scale="paper")
TWO_STAGES = StudyOptions(scale="smoke", num_seeds=3)
FRESH = 0.9
ACCURACIES = ("online_accuracy", "train_accuracy")
AT_THE_END = {
    "vanilla": {"dormant_ratio": 0.5, "saturated_share": 0.6, "sign_entropy": 0.2, "srank": 5.0},
    "dropout": {"dormant_ratio": 0.5, "saturated_share": 0.6, "sign_entropy": 0.2, "srank": 5.0},
    "aid": {"dormant_ratio": 0.0, "saturated_share": 0.1, "sign_entropy": 0.7, "srank": 12.0},
}
AT_FIRST = {"aid": {"sign_entropy": 0.8, "srank": 11.0}}  # others: sign entropy 0.7, rank 10
ENDS = {"random_label": {"vanilla": 0.2, "dropout": 0.2}, "permuted_input": {"vanilla": 0.8, "dropout": 0.82}}


def as_in_the_paper(spec, *, method="aid", **changed):
    """Two stages: at first all networks learn and are healthy, in the end AID's alone; the reference has the first."""
    if spec.method.name == "full_reset":
        return {name: [FRESH + 0.001 * spec.seed] for name in ACCURACIES}
    accuracy = ENDS[spec.problem.scenario.name].get(spec.method.name, FRESH)
    numbers = {**AT_THE_END[spec.method.name], **dict.fromkeys(ACCURACIES, accuracy)}
    numbers |= changed if spec.method.name == method else {}
    first = dict.fromkeys(numbers, 0.5) | dict.fromkeys(ACCURACIES, FRESH)
    first |= AT_FIRST.get(spec.method.name, {"sign_entropy": 0.7, "srank": 10.0})
    return {name: [first[name], value * (1 + 0.001 * spec.seed)] for name, value in numbers.items()}


def decided(values_of):
    return verdicts(STUDY, TWO_STAGES, values_of)


def test_all_claims_hold_on_numbers_as_the_paper_describes_them():
    assert decided(as_in_the_paper) == ["holds"] * 6


@pytest.mark.parametrize(
    ("metric", "better"),
    [("train_accuracy", 0.3), ("online_accuracy", 0.3), ("saturated_share", 0.5), ("sign_entropy", 0.3)],
)
def test_dropout_has_an_effect_where_it_is_five_points_better_on_random_labels(metric, better):
    def on(problem):
        return lambda spec: (
            as_in_the_paper(spec, method="dropout", **{metric: better})
            if spec.problem.scenario.name == problem
            else as_in_the_paper(spec)
        )

    assert decided(on("random_label"))[0] == "fails"
    assert decided(on("permuted_input"))[0] == "holds"


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [
        (dict.fromkeys(ACCURACIES, 0.82), "holds"),  # of a loss of 0.1, 0.02
        (dict.fromkeys(ACCURACIES, 0.86), "fails"),  # 0.06
        (dict.fromkeys(ACCURACIES, 0.78), "fails"),  # less than none
        (dict.fromkeys(ACCURACIES, 0.8), "not decided"),
        ({"online_accuracy": 0.86}, "not decided"),  # both accuracies must say so
    ],
)
def test_dropout_helps_slightly_if_it_makes_up_for_some_of_the_loss_but_not_for_half(ends, verdict):
    assert decided(lambda spec: as_in_the_paper(spec, method="dropout", **ends))[1] == verdict


@pytest.mark.parametrize(("rank", "verdict"), [(8.7, "holds"), (9.1, "fails"), (10.0, "fails")])
@pytest.mark.parametrize("method", ["vanilla", "dropout"])
def test_a_rank_declines_by_a_tenth_of_what_it_was_after_the_first_stage(method, rank, verdict):
    assert decided(lambda spec: as_in_the_paper(spec, method=method, srank=rank))[5] == verdict
