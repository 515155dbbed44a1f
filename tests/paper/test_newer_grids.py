"""Grids of the newer methods: every method has one, and a search of a study runs it."""

from dataclasses import fields

import pytest

from supple.methods import Method
from supple_lab import registry
from supple_lab.arena.entries import Entry
from supple_lab.paper.newer_grids import GRIDS, grid_of, searched
from supple_lab.paper.study import Study, StudyOptions
from supple_lab.paper.tables import EXPERIMENTS, search

KNOWN = registry.known(Method)


def test_every_method_can_be_searched():
    of_the_paper = {row.method.name for name in EXPERIMENTS if EXPERIMENTS[name].search for row in all_rows(name)}
    assert set(KNOWN) - {"chain"} <= of_the_paper | set(GRIDS)
    assert not of_the_paper & set(GRIDS)


def all_rows(experiment):
    return [row for case in EXPERIMENTS[experiment].search for row in search(experiment, case)]


@pytest.mark.parametrize("name", [name for name in GRIDS if name in KNOWN])
def test_settings_are_different_and_of_fields_that_the_method_has(name):
    methods = grid_of(name, steps_per_epoch=100)
    assert len(set(methods)) == len(methods)
    default = KNOWN[name]()
    assert set(GRIDS[name]) <= {field.name for field in fields(default)}


def test_grids_have_the_sizes_of_their_papers():
    sizes = {name: len(grid_of(name, steps_per_epoch=1)) for name in GRIDS if name in KNOWN}
    assert sizes["upgd"] == 4 * 4 * 5
    assert (sizes["snr"], sizes["regrama"], sizes["cpr"], sizes["weight_clipping"]) == (7, 5, 6, 10)
    assert sizes["fire"] == sizes["nap"] == sizes["trac"] == 1


@pytest.mark.parametrize("name", ["regrama", "cpr"])
def test_what_acts_every_thousand_steps_by_default_acts_between_the_stages_of_studies_and_of_the_arena(name):
    order = StudyOptions(scale="smoke", methods=(name,))
    (condition, *_) = registry.find(Study, "trainability")().conditions(order)
    in_studies = [setting.method for setting in condition.settings(order)]
    in_arena = [Entry(name).setting("random_labels", 0)[0]]
    for method in [*in_studies, *grid_of(name, steps_per_epoch=25), *in_arena]:
        assert method.every is None
    assert KNOWN[name]().every == 1000


def test_hare_and_tortoise_meets_after_epochs_of_the_study():
    every = {method.every for method in grid_of("hare_tortoise", steps_per_epoch=25)}
    assert every == {125, 250, 500}


@pytest.mark.parametrize(("study", "per_method"), [("trainability", 1), ("continual_full", 2)])
def test_search_of_a_study_runs_the_grid_with_each_of_its_optimizers(study, per_method):
    order = StudyOptions(scale="paper", search=True, methods=("regrama", "fire"))
    (first, *_) = registry.find(Study, study)().conditions(order)
    settings = first.settings(order)
    assert [s.method.name for s in settings] == ["regrama"] * 5 * per_method + ["fire"] * per_method
    assert len({setting.optimizer for setting in settings}) == per_method


def test_search_takes_the_form_of_upgd_that_is_the_authors_with_the_optimizer():
    order = StudyOptions(scale="paper", search=True, methods=("upgd",))
    conditions = registry.find(Study, "trainability")().conditions(order)
    forms = {(s.optimizer.name, s.method.adaptive) for one in conditions if not one.given for s in one.settings(order)}
    assert forms == {("adam", True), ("sgd", False)}


def test_without_a_search_a_method_runs_at_its_defaults_and_rows_of_the_paper_stay():
    order = StudyOptions(scale="smoke", methods=("regrama", "l2"))
    (condition, *_) = registry.find(Study, "trainability")().conditions(order)
    first, second = condition.settings(order)
    assert (first.method, second.method.name) == (KNOWN["regrama"](every=None), "l2")
    rows = condition.rows(StudyOptions(scale="smoke", search=True))
    assert searched("l2", rows, condition.problem) == []
