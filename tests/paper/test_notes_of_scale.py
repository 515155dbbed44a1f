"""Notes of a scale and of slips: a page speaks of the networks and methods that it has, and of what is yet to run."""

import re

import pytest
from made_runs import drawn

from supple_lab.paper.study import Study, StudyOptions
from supple_lab.registry import known
from supple_lab.results.results import Results
from supple_lab.spec import RunSpec

WITH_SLIM = (
    "class_incremental", "continual_full", "continual_limited", "dropout_fails", "generalizability_gap", "supervised",
    "warm_start",
)  # fmt: skip
NETWORKS = {"cnn": "slim CNN", "resnet18": "slim ResNet-18"}
WITH_P = {"aid": "AID", "drop_relu": "DropReLU", "dropout": "ReLU + Dropout"}


def notes_of(name: str, order: StudyOptions) -> list[str]:
    return list(known(Study)[name]().draw(Results(()), order).notes)


def settings_note(name: str, order: StudyOptions) -> str:
    (note,) = [note for note in notes_of(name, order) if "share one learning rate" in note]
    return note


def slim_specs(name: str, order: StudyOptions) -> list[RunSpec]:
    return [spec for spec in known(Study)[name]().specs(order) if spec.model.name in NETWORKS]


@pytest.mark.parametrize("name", WITH_SLIM)
def test_quick_notes_name_the_networks_and_rates_that_are_run(name):
    order = StudyOptions(scale="quick")
    rates = {(spec.model.name, spec.optimizer.learning_rate) for spec in slim_specs(name, order)}
    told = re.findall(r"([\d.]+) on the (slim [\w-]+)", settings_note(name, order))
    assert {(network, float(rate)) for rate, network in told} == {(NETWORKS[model], rate) for model, rate in rates}


@pytest.mark.parametrize("name", WITH_SLIM)
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


@pytest.mark.parametrize("name", WITH_SLIM)
def test_a_search_is_told_no_p(name):
    note = settings_note(name, StudyOptions(scale="quick", search=True))
    assert "p = 0." not in note
    assert "those that the paper searched" in note


def test_notes_of_slips_do_not_say_that_anything_was_run():
    for order in (StudyOptions(scale="paper"), StudyOptions(scale="paper", as_printed=True)):
        studies = [known(Study)[name]() for name in ("trainability", "atari")]
        notes = [note for study in studies for note in drawn(study, order, lambda spec: None).notes]
        slips = [note for note in notes if "as printed" in note]
        assert len(slips) > 1
        assert not any(re.search(r"\b(was|were) run\b", note) for note in slips)
