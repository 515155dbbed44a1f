"""Continual full: the paper's runs, and its two claims decided by their rules."""

from collections import Counter

import pytest
from made_records import made, verdicts, wavering

from supple_lab.data.cifar10 import CIFAR10
from supple_lab.data.cifar100 import CIFAR100
from supple_lab.data.tiny_imagenet import TinyImageNet
from supple_lab.models.cnn import CNN
from supple_lab.models.resnet18 import ResNet18
from supple_lab.models.vgg16 import VGG16
from supple_lab.runs.problem import Supervised
from supple_lab.scenarios.continual_full import ContinualFull as Scenario
from supple_lab.studies.continual_full import ContinualFull
from supple_lab.studies.hyperparameters import best
from supple_lab.studies.order import Order

PAPER = Order(scale="paper")
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
    first, second = STUDY.draw(results, PAPER).claims
    assert (first.verdict, second.verdict) == ("holds", "holds")
    assert first.measured.startswith("holds in 3 of 3")


def test_claims_name_the_runs_they_rest_on():
    results = made(STUDY.specs(PAPER), accuracy)
    lead, match = STUDY.draw(results, PAPER).claims
    methods = {run.spec.run_id: run.spec.method.name for run in results.runs}
    assert {methods[run] for run in lead.runs} == {"aid", "full_reset"}
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
    assert verdicts(STUDY, results, PAPER) == ["not decided", "not decided"]


def test_a_diverged_method_is_not_the_best_other():
    results = made(
        STUDY.specs(PAPER),
        lambda spec: [0.9, float("nan")] + [0.9] * 8 if spec.method.name == "l2" else accuracy(spec),
    )
    assert verdicts(STUDY, results, PAPER)[0] == "holds"
    assert ("L2", "diverged", "diverged", "diverged") in STUDY.draw(results, PAPER).tables[0].rows


def test_a_search_reports_the_best_and_says_so():
    order = Order(scale="smoke", search=True, methods=("aid", "vanilla"), num_seeds=2)
    results = made(STUDY.specs(order), lambda spec: getattr(spec.method, "relu_prob", 0.1))
    drawing = STUDY.draw(results, order)
    assert any("relu_prob 0.9: the best of 3 configurations" in note for note in drawing.notes)
    assert drawing.tables[0].rows[0][1:] == ("0.900 ± 0.000",) * 3
