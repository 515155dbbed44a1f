"""Continual full: the paper's runs, and its three claims decided by their rules."""

from collections import Counter

import numpy as np
import pytest
from made_records import made, verdicts, wavering

from supple_lab.data.cifar import CIFAR10, CIFAR100
from supple_lab.data.tiny_imagenet import TinyImageNet
from supple_lab.models.cnn import CNN
from supple_lab.models.resnet18 import ResNet18
from supple_lab.models.vgg16 import VGG16
from supple_lab.paper.continual import ContinualFull
from supple_lab.paper.study import StudyOptions
from supple_lab.paper.tables import best
from supple_lab.scenarios.continual import ContinualFull as Scenario
from supple_lab.spec import Supervised

PAPER = StudyOptions(scale="paper")
STUDY = ContinualFull()
OTHERS = {"vanilla": 0.5, "full_reset": 0.6, "dash": 0.6, "shrink_perturb": 0.595, "aid": 0.7}


def accuracy(spec, **changed):
    return wavering(spec, {**OTHERS, **changed}.get(spec.method.name, 0.4))


def test_paper_scale_is_the_papers():
    specs = STUDY.specs(PAPER)
    scenario = Scenario(num_stages=10, epochs=100, batch_size=256)
    pairs = {(CNN(channels=16, hidden=100), CIFAR10()), (ResNet18(width=64), CIFAR100())}
    pairs |= {(VGG16(width=64, hidden=4096), TinyImageNet())}
    assert {(spec.model, spec.problem.dataset) for spec in specs} == pairs
    assert {spec.problem for spec in specs} == {Supervised(scenario=scenario, dataset=data) for _, data in pairs}
    assert Counter(spec.model.name for spec in specs) == {"cnn": 12 * 5, "resnet18": 12 * 5, "vgg16": 12 * 3}
    for network in ("cnn", "resnet18", "vgg16"):
        ran = [(spec.method, spec.optimizer) for spec in specs if spec.model.name == network and spec.seed == 0]
        assert ran == best("continual_full", network)


def test_first_seed_of_everything_comes_first():
    seeds = [spec.seed for spec in STUDY.specs(PAPER)]
    assert seeds == sorted(seeds)


def test_both_claims_hold_where_aid_leads_and_the_two_match_reset():
    results = made(STUDY.specs(PAPER), accuracy)
    first, second, _ = STUDY.draw(results, PAPER).claims
    assert (first.verdict, second.verdict) == ("holds", "holds")
    assert first.measured.startswith("holds in 12 of 12")  # four quarters on each network


def test_claims_name_the_runs_they_rest_on():
    results = made(STUDY.specs(PAPER), accuracy)
    lead, match, _ = STUDY.draw(results, PAPER).claims
    methods = {run.spec.run_id: run.spec.method.name for run in results.runs}
    assert set(lead.runs) == set(methods)
    assert [len(part.runs) for part in lead.parts] == [12 * 5] * 8 + [12 * 3] * 4
    assert Counter(methods[run] for run in match.runs) == {"dash": 13, "shrink_perturb": 13, "full_reset": 13}


def test_aid_must_lead_on_each_network():
    results = made(STUDY.specs(PAPER), lambda spec: accuracy(spec, aid=0.59 if spec.model.name == "vgg16" else 0.7))
    assert verdicts(STUDY, results, PAPER)[0] == "fails"


def test_dash_and_shrink_fail_only_where_one_is_below_reset_on_all():
    def shrink_good_on(*networks):
        return lambda spec: accuracy(spec, shrink_perturb=0.6 if spec.model.name in networks else 0.5)

    one = made(STUDY.specs(PAPER), shrink_good_on("vgg16"))
    none = made(STUDY.specs(PAPER), shrink_good_on())
    assert verdicts(STUDY, one, PAPER)[1] == "holds"
    assert verdicts(STUDY, none, PAPER)[1] == "fails"


@pytest.mark.parametrize(("aid", "verdict"), [(0.7, "not decided"), (0.55, "fails")])
def test_while_a_method_has_not_run_the_lead_can_fail_but_not_hold(aid, verdict):
    results = made(STUDY.specs(PAPER), lambda spec: None if spec.method.name == "cbp" else accuracy(spec, aid=aid))
    assert verdicts(STUDY, results, PAPER)[0] == verdict


def test_one_seed_decides_nothing():
    results = made(STUDY.specs(PAPER), lambda spec: accuracy(spec) if spec.seed == 0 else None)
    assert verdicts(STUDY, results, PAPER) == ["not decided", "not decided", "not run"]


WITH_BOTH = StudyOptions(scale="paper", also=("l2_init", "redo"))


@pytest.mark.parametrize(
    ("redo", "verdict"), [(0.505, "holds"), (0.52, "fails"), (0.51, "not decided"), (0.3, "holds")]
)
def test_l2_init_and_redo_are_no_help_less_than_a_point_above_vanilla(redo, verdict):
    def noisy(spec):
        noise = 0.0005 * (-1) ** spec.seed if spec.method.name == "redo" else 0.0
        return accuracy(spec, l2_init=0.5, redo=redo + noise)

    assert verdicts(STUDY, made(STUDY.specs(WITH_BOTH), noisy), WITH_BOTH) == ["holds", "holds", verdict]


def test_l2_init_and_redo_are_run_on_demand_alone_and_the_claim_says_how():
    assert not {"l2_init", "redo"} & {spec.method.name for spec in STUDY.specs(PAPER)}
    row = STUDY.draw(made(STUDY.specs(PAPER), accuracy), PAPER).claims[2]
    assert row.verdict == "not run"
    assert "supple run continual_full --methods vanilla l2_init redo" in row.measured


def test_a_method_outside_the_papers_table_has_no_say_in_aids_lead():
    results = made(STUDY.specs(WITH_BOTH), lambda spec: accuracy(spec, l2_init=0.9))
    assert verdicts(STUDY, results, WITH_BOTH)[0] == "holds"


def with_l2(spec, level, *, lost):
    """L2 at a level of its own, diverged in the seeds that are lost."""
    if spec.method.name != "l2":
        return accuracy(spec)
    return [0.9, *[float("nan")] * 9] if spec.seed in lost else wavering(spec, level)


def test_a_method_that_always_diverged_lost_and_is_told():
    results = made(STUDY.specs(PAPER), lambda spec: with_l2(spec, 0.9, lost=range(5)))
    row = STUDY.draw(results, PAPER).claims[0]
    assert row.verdict == "holds"
    assert "; diverged and lost there: L2 in 5 of 5 seeds" in row.parts[0].measured
    assert ("L2", *("without a value",) * 3) in STUDY.draw(results, PAPER).tables[0].rows


def test_a_method_that_diverged_once_and_is_below_elsewhere_lets_aid_lead():
    results = made(STUDY.specs(PAPER), lambda spec: with_l2(spec, 0.5, lost={4}))
    row = STUDY.draw(results, PAPER).claims[0]
    assert row.verdict == "holds"
    assert row.parts[0].measured.startswith("closest, full reset: 0.100 ± 0.000: quarter-mean test accuracy, AID minus")
    assert "diverged and lost there: L2 in 1 of 5 seeds" in row.parts[0].measured
    assert "diverged" not in row.parts[8].measured  # VGG-16 has no fifth seed


@pytest.mark.parametrize(("lost", "verdict"), [({1}, "not decided"), ({4}, "fails")])  # VGG-16 has no fifth seed
def test_a_method_that_is_above_fails_the_lead_only_where_it_never_diverged(lost, verdict):
    results = made(STUDY.specs(PAPER), lambda spec: with_l2(spec, 0.9, lost=lost))
    row = STUDY.draw(results, PAPER).claims[0]
    assert row.verdict == verdict
    assert row.parts[0].verdict == "not decided"
    assert "the other is above where it ended, but diverged elsewhere, so not decided" in row.parts[0].measured


def test_a_noisy_rival_that_may_be_better_keeps_the_lead_open_though_another_comes_closer():
    noise = (-0.06, -0.03, 0.0, 0.03, 0.06)

    def values(spec):
        if spec.method.name == "cbp":  # three points below AID, give or take six: it may well be above
            return accuracy(spec, cbp=0.67) + noise[spec.seed]
        return accuracy(spec, l2=0.69)  # one point below AID in every seed

    row = STUDY.draw(made(STUDY.specs(PAPER), values), PAPER).claims[0]
    assert (row.verdict, row.parts[0].verdict) == ("not decided", "not decided")
    assert row.parts[0].measured.startswith("closest, L2: 0.010")
    assert "not decided in CBP" in row.parts[0].measured


def test_aid_must_lead_in_each_quarter_of_the_stages():
    def behind_at_first(spec):
        if spec.method.name != "aid":
            return accuracy(spec)
        return [wavering(spec, 0.58 if stage < 6 else 0.8) for stage in range(10)]  # mean 0.668, full reset 0.6

    row = STUDY.draw(made(STUDY.specs(PAPER), behind_at_first), PAPER).claims[0]
    assert row.verdict == "fails"
    assert [part.verdict for part in row.parts[:4]] == ["fails", "fails", "holds", "holds"]


def test_a_method_that_ended_once_alone_cannot_be_compared_where_it_is_the_best():
    results = made(STUDY.specs(PAPER), lambda spec: with_l2(spec, 0.9, lost=range(4)))
    assert STUDY.draw(results, PAPER).claims[0].parts[0].verdict == "not decided"


def test_an_aid_that_diverged_keeps_the_lead_undecided():
    results = made(
        STUDY.specs(PAPER),
        lambda spec: [0.9, *[float("nan")] * 9] if (spec.method.name, spec.seed) == ("aid", 1) else accuracy(spec),
    )
    assert verdicts(STUDY, results, PAPER)[0] == "not decided"


def test_the_best_of_eleven_must_be_ahead_by_more_than_chance():
    def ahead_by(mean, spread):
        """CBP ahead of AID by so much, with a spread over the seeds; n = 5 for the CNN."""
        ahead = np.array([-2.0, -1.0, 0.0, 1.0, 2.0]) * spread + mean
        return lambda spec: 0.7 + float(ahead[spec.seed]) if spec.method.name == "cbp" else accuracy(spec)

    def of_the_cnn(values):
        return STUDY.draw(made(STUDY.specs(PAPER), values), PAPER).claims[0].parts[0]

    # t = mean / (1.58 spread / sqrt 5): 3.5 is beyond 5% (2.78), 7 beyond 5% of eleven looks (5.6).
    assert of_the_cnn(ahead_by(0.0254, 0.01)).verdict == "not decided"
    assert "after 11 looks that may be chance" in of_the_cnn(ahead_by(0.0254, 0.01)).remark
    assert of_the_cnn(ahead_by(0.0508, 0.01)).verdict == "fails"


def test_a_method_besides_the_papers_is_drawn_and_decides_nothing():
    order = StudyOptions(scale="paper", also=("redo",))
    results = made(STUDY.specs(order), lambda spec: accuracy(spec, redo=0.9))
    drawing = STUDY.draw(results, order)
    assert any(row[0] == "ReDo" for row in drawing.tables[0].rows)
    assert drawing.claims[0].verdict == "holds"


def test_a_search_reports_the_best_and_says_so():
    order = StudyOptions(scale="smoke", search=True, methods=("aid", "vanilla"), num_seeds=2)
    results = made(STUDY.specs(order), lambda spec: getattr(spec.method, "relu_prob", 0.1))
    drawing = STUDY.draw(results, order)
    assert any("relu prob 0.9: the best of 3 configurations" in note for note in drawing.notes)
    assert drawing.tables[0].rows[0][1:] == ("0.900 ± 0.000",) * 3
