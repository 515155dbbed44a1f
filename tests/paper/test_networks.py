"""Networks: the paper's pairs at paper scale, labelled slim ones elsewhere, and what holds for every study on them."""

import re

import pytest
from made_runs import claims, made, verdicts, wavering

from supple.methods import FullReset, UseAID
from supple_lab.models.cnn import CNN
from supple_lab.models.resnet18 import ResNet18
from supple_lab.models.vgg16 import VGG16
from supple_lab.paper.networks import ALL, networks
from supple_lab.paper.study import Study, StudyOptions
from supple_lab.registry import known
from supple_lab.report.study_json import ReportInfo
from supple_lab.report.write import write_report
from supple_lab.results.results import Results
from supple_lab.run.check import check_suitable
from supple_lab.spec import RunSpec

PAPERS_OWN = (CNN(), ResNet18(), VGG16())


def test_paper_scale_has_the_papers_networks_with_its_seeds():
    found = networks(StudyOptions(scale="paper"), *ALL)
    assert tuple(network.model for network in found) == PAPERS_OWN
    assert [network.seeds.paper for network in found] == [5, 5, 3]
    assert all(network.optimizer is None and not network.stand_ins for network in found)


@pytest.mark.parametrize("scale", ["smoke", "quick"])
def test_networks_that_are_not_the_papers_say_so(scale):
    for network in networks(StudyOptions(scale=scale), *ALL):
        assert network.model not in PAPERS_OWN
        assert "digits" in network.label
        assert "slim" in network.label or "tiny" in network.label


def test_slim_resnet_has_its_own_settings_inside_a_reset_too_but_not_in_a_search():
    (network,) = networks(StudyOptions(scale="quick"), "resnet18")
    cold = FullReset(built_with=UseAID(relu_prob=0.7))
    assert network.stand_in(cold, StudyOptions(scale="quick")) == FullReset(built_with=UseAID(relu_prob=0.95))
    assert network.stand_in(cold, StudyOptions(scale="quick", search=True)) == cold


ON_NETWORKS = (
    "class_incremental",
    "continual_full",
    "continual_limited",
    "generalizability_gap",
    "sensitivity",
    "supervised",
    "warm_start",
)


def study_named(name):
    return known(Study)[name]()


every_study = pytest.mark.parametrize("study", [study_named(name) for name in ON_NETWORKS], ids=ON_NETWORKS)


def in_pieces(spec):
    """A third of the runs done, a third diverged in their second stage, a third not begun."""
    kind = int(spec.run_id, 16) % 3
    if kind == 0:
        return None
    num_stages = spec.problem.scenario.num_stages
    return wavering(spec, 0.5) if kind == 1 else [*[0.4] * min(1, num_stages - 1), float("nan")] + [0.4] * num_stages


@every_study
@pytest.mark.parametrize("scale", ["smoke", "quick"])
def test_parts_of_every_run_go_together(study, scale):
    for spec in study.specs(StudyOptions(scale=scale)):
        check_suitable(spec, device="cpu")


def aid_far_ahead(spec):
    """AID far above all others, reset or not; networks that are reset in between, and the others fall to half."""
    method = getattr(spec.method, "built_with", None) or spec.method
    if method.name == "aid" or spec.method.name == "full_reset":
        return wavering(spec, 0.9 if method.name == "aid" else 0.6)
    num_stages = spec.problem.scenario.num_stages
    return [0.4 - 0.2 * stage / num_stages + 0.001 * spec.seed for stage in range(num_stages)]


@pytest.mark.parametrize("name", ON_NETWORKS[:-1])  # warm_start is of one network
def test_a_network_that_quick_scale_leaves_out_is_not_run_and_lets_no_claim_over_all_of_them_hold(name):
    study, order = study_named(name), StudyOptions(scale="quick")
    at = {scale: {one.case for one in study.conditions(StudyOptions(scale=scale))} for scale in ("quick", "paper")}
    missing = at["paper"] - at["quick"]
    told = {"cnn": "CNN on CIFAR-10", "resnet18": "ResNet-18 on CIFAR-100", "vgg16": "VGG-16 on TinyImageNet"}
    rows = claims(study, order, aid_far_ahead)
    assert missing
    for row in rows:
        leaves = [leaf for part in row.parts for leaf in (part.parts or (part,))]
        absent = [leaf for leaf in leaves if any(told[case] in leaf.name for case in missing)]
        assert {leaf.verdict for leaf in absent} <= {"not run"}
    assert not [row.claim for row in rows if row.verdict == "holds"]


@every_study
def test_quick_scale_adds_no_method_and_smoke_scale_no_data(study):
    methods = {
        scale: {spec.method.name for spec in study.specs(StudyOptions(scale=scale))} for scale in ("quick", "paper")
    }
    assert methods["quick"] <= methods["paper"]
    assert {spec.problem.dataset.of.name for spec in study.specs(StudyOptions(scale="smoke"))} == {"digits"}


@every_study
def test_every_scale_tells_how_it_differs_from_the_paper(study):
    notes = {scale: study.draw(Results(()), StudyOptions(scale=scale)).notes for scale in ("quick", "paper")}
    assert notes["quick"][0].startswith("Quick scale, not the paper's protocol")
    assert notes["paper"][0].startswith("Where the paper is silent")
    by_looking = "chosen by looking at test accuracies on these very digits"
    assert (by_looking in " ".join(notes["quick"]), by_looking in " ".join(notes["paper"])) == (True, False)


@pytest.mark.slow
@every_study
def test_draws_and_writes_what_there_is_of_a_broken_sweep_or_search(study, tmp_path):
    order = StudyOptions(scale="smoke", num_seeds=2)
    searched = StudyOptions(scale="smoke", num_seeds=2, search=True)
    assert "holds" not in verdicts(study, searched, in_pieces)
    results = made(study.specs(order), in_pieces)
    drawing = study.draw(results, order)
    assert "holds" not in {row.verdict for row in drawing.claims}
    about = ReportInfo(
        study=study.name, title=study.title, question=study.question, scale=order.scale, command="supple"
    )
    write_report(tmp_path, about, results=results, report=drawing)


@every_study
def test_draws_methods_that_the_study_does_not_have(study):
    order = StudyOptions(scale="smoke", methods=("tanh", "redo"))
    assert set(verdicts(study, order, lambda spec: 0.5)) <= {"not run", "not decided"}


NETWORKS = {"cnn": "slim CNN", "resnet18": "slim ResNet-18"}
WITH_P = {"aid": "AID", "drop_relu": "DropReLU", "dropout": "ReLU + Dropout"}


def settings_note(name: str, order: StudyOptions) -> str:
    (note,) = [note for note in study_named(name).draw(Results(()), order).notes if "share one learning rate" in note]
    return note


def slim_specs(name: str, order: StudyOptions) -> list[RunSpec]:
    return [spec for spec in study_named(name).specs(order) if spec.model.name in NETWORKS]


with_slim = pytest.mark.parametrize("name", [name for name in (*ON_NETWORKS, "dropout_fails") if name != "sensitivity"])


@with_slim
def test_quick_notes_name_the_networks_and_rates_that_are_run(name):
    order = StudyOptions(scale="quick")
    rates = {(spec.model.name, spec.optimizer.learning_rate) for spec in slim_specs(name, order)}
    told = re.findall(r"([\d.]+) on the (slim [\w-]+)", settings_note(name, order))
    assert {(network, float(rate)) for rate, network in told} == {(NETWORKS[model], rate) for model, rate in rates}


@with_slim
def test_quick_notes_name_the_methods_whose_p_is_not_the_papers(name):
    order = StudyOptions(scale="quick")
    methods = {spec.method for spec in slim_specs(name, order) if spec.model.name == "resnet18"}
    run = {
        (WITH_P[method.name], getattr(method, "relu_prob", None) or method.drop_positive)
        for method in methods
        if method.name in WITH_P
    }
    note = settings_note(name, order).partition("; on the slim ResNet-18 ")[2]
    told = re.findall(r"([\w+ ]+) has p = ([\d.]+)[,.]", note)
    assert {(method.strip(), float(p)) for method, p in told} == run


@with_slim
def test_a_search_is_told_no_p(name):
    note = settings_note(name, StudyOptions(scale="quick", search=True))
    assert "p = 0." not in note
    assert "those that the paper searched" in note
