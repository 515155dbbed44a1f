"""Trainability: each claim decided by its rule on curves made by hand."""

import numpy as np
import pytest
from made_runs import drawn, verdicts

from supple.methods import ShrinkPerturb
from supple_lab.paper.study import StudyOptions
from supple_lab.paper.trainability import Trainability

STUDY = Trainability()
PAPER = StudyOptions(scale="paper")
TWO_STAGES = StudyOptions(scale="smoke", num_seeds=3)  # all eight conditions; the second stage is the last tenth
FRESH = 0.7  # of a fresh vanilla network, and of most networks at first
KEYS = [claim.key for claim in Trainability.claims]
FALLS = {"vanilla": 0.3, "dropout": 0.3, "fourier": 0.2, "crelu": 0.2, "redo": 0.2, "cbp": 0.2}  # others: none
HEIGHTS = {"fourier": 0.8, "crelu": 0.8, "redo": 0.8, "cbp": 0.8}  # of the first stage; others: as a fresh network


def as_in_the_paper(spec, **changed):
    """Accuracies on which every claim holds, each method's fall from the first stage to the second changed at will."""
    fall = {**FALLS, **changed}.get(spec.method.name, 0.0)
    if spec.method.name in ("shrink_perturb", "l2_init") and spec.optimizer.learning_rate in (1e-4, 3e-3):
        fall = 0.2
    first = HEIGHTS.get(spec.method.name, FRESH) + 0.001 * spec.seed
    return of_both([first, first - fall + 0.0001 * spec.seed], spec)


def of_both(row, spec):
    """The same values for both accuracies, as many as the run has stages: a reference has one."""
    return dict.fromkeys(("online_accuracy", "train_accuracy"), list(row)[: spec.problem.scenario.num_stages])


def decided(values_of):
    return dict(zip(KEYS, verdicts(STUDY, TWO_STAGES, values_of), strict=True))


def test_slips_are_run_as_printed_on_demand_and_told_either_way():
    slip = ShrinkPerturb(shrink=0.7)  # Table 5's block of Adam 1e-4
    for as_printed, rate in ((False, 1e-4), (True, 1e-3)):
        order = StudyOptions(scale="paper", as_printed=as_printed)
        assert {spec.optimizer.learning_rate for spec in STUDY.specs(order) if spec.method == slip} == {rate}
        assert sum("as printed" in note for note in drawn(STUDY, order, lambda spec: None).notes) == 3


def test_a_slip_is_told_only_where_it_is_run():
    order, few = StudyOptions(scale="quick"), StudyOptions(scale="quick", methods=("vanilla", "aid"))
    notes = [note for note in drawn(STUDY, order, lambda spec: None).notes if "as printed" in note]
    assert [note.split(" is run")[0] for note in notes] == ["permuted input: S&P", "random label: S&P"]
    assert all("SGD 3e-2, not SGD 3e-3" in note for note in notes)
    assert not any("as printed" in note for note in drawn(STUDY, few, lambda spec: None).notes)


def test_a_search_reports_the_best_mean_over_stages_and_says_so():
    order = StudyOptions(scale="smoke", num_seeds=2, search=True)

    def rising_with_p(spec):
        height = getattr(spec.method, "relu_prob", 0.5) - 0.3 * (getattr(spec.method, "relu_prob", 0.5) > 0.95)
        return of_both([height, height], spec)

    drawing = drawn(STUDY, order, rising_with_p)
    assert sum("relu prob 0.9: the best of 10" in note for note in drawing.notes) == 8 * 2  # DropReLU
    for panel in drawing.figures[1].panels:
        assert {curve.middle[0] for curve in panel.curves if curve.method == "aid"} == {0.9}


def test_all_claims_hold_on_accuracies_as_the_paper_describes_them():
    assert set(decided(as_in_the_paper).values()) == {"holds"}


STOCHASTIC = {"stochastic_activations_keep"}
NAMED_KEEP = {
    "drop_relu_and_aid_keep_random_label_online",
    "drop_relu_and_aid_keep_random_label",
    "drop_relu_and_aid_keep_permuted_online",
    "drop_relu_and_aid_keep_permuted_at_end",
}


@pytest.mark.parametrize(
    ("changed", "failing"),
    [
        ({"vanilla": -0.3}, {"vanilla_falls", "designed_methods_beat_vanilla"}),  # it rises above them
        ({"rrelu": 0.06}, STOCHASTIC),
        ({"drop_relu": 0.06}, STOCHASTIC | NAMED_KEEP),
        ({"aid": 0.06}, NAMED_KEEP),
        ({"identity": 0.06}, {"identity_keeps_plasticity"}),
        ({"cbp": 0.6}, {"designed_methods_beat_vanilla"}),
        ({"redo": 0.11}, {"designed_methods_fall_somewhere"}),  # from 0.8, a point below a fresh network
        ({"dropout": 0.1}, {"dropout_does_not_help"}),  # a third of vanilla's loss is left
        ({"dropout": 0.2}, set()),  # two thirds
    ],
)
def test_each_claim_fails_by_its_own_rule(changed, failing):
    found = decided(lambda spec: as_in_the_paper(spec, **changed))
    assert {key for key, verdict in found.items() if verdict == "fails"} == failing


def test_quick_scale_decides_what_its_two_optimizers_can():
    order = StudyOptions(scale="quick")

    def falling(spec):
        number = spec.problem.scenario.num_stages
        fall = {"vanilla": 0.3, "aid": 0.0}.get(spec.method.name, 0.1)
        return of_both(np.linspace(0.7, 0.7 - fall, max(number, 2)) + 0.001 * spec.seed, spec)

    drawing = drawn(STUDY, order, falling)
    found = dict(zip(KEYS, [claim.verdict for claim in drawing.claims], strict=True))
    assert found["shrink_and_l2_init_fail_at_low_rates"] == found["identity_keeps_plasticity"] == "not run"
    assert found["drop_relu_and_aid_keep_random_label"] == "not decided"
    assert [len(figure.panels) for figure in drawing.figures] == [8]


def test_figures_are_the_papers_and_claims_name_their_runs():
    drawing = drawn(STUDY, TWO_STAGES, as_in_the_paper)
    assert [len(figure.panels) for figure in drawing.figures] == [8, 16]
    assert [len(panel.curves) for panel in drawing.figures[0].panels] == [11] * 8
    assert [len(panel.curves) for panel in drawing.figures[1].panels] == [15] * 16  # the reference is not drawn
    named = ("full_reset", "drop_relu", "aid")
    three = {spec.run_id for spec in STUDY.specs(TWO_STAGES) if spec.method.name in named}
    random = [spec for spec in STUDY.specs(TWO_STAGES) if spec.problem.scenario.name == "random_label"]
    assert set(drawing.claims[1].runs) == three & {spec.run_id for spec in random}


def test_tables_show_means_and_losses_with_the_best_in_bold():
    drawing = drawn(STUDY, TWO_STAGES, as_in_the_paper)
    online = drawing.tables[0]
    vanilla = next(row for row in online.rows if row[0] == "ReLU")
    assert online.header[:3] == ("method", "Adam 1e-3", "Adam 1e-3 below fresh")
    assert vanilla[1:3] == ("0.551 ± 0.001", "0.300 ± 0.000")
    assert vanilla[-1] == "3"
    best = {row for row, column in online.bold if column == 1}
    assert {online.rows[row][0] for row in best} == {"Fourier", "CReLU", "ReDo", "CBP"}
