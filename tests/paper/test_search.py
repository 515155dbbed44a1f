"""A search of a study: the paper's grid of its methods, the arena's draws of all others."""

import pytest

from supple.methods import L2, Method
from supple_lab import registry
from supple_lab.arena.entries import Entry
from supple_lab.arena.spaces import NUM_DRAWS
from supple_lab.paper.study import Study, StudyOptions

KNOWN = registry.known(Method)


def settings_in(study, *methods, search):
    order = StudyOptions(scale="paper", search=search, methods=methods)
    return registry.find(Study, study)().conditions(order)[0].settings(order)


@pytest.mark.parametrize(("study", "num_optimizers"), [("trainability", 1), ("continual_full", 2)])
def test_search_of_a_study_runs_the_arenas_draws_with_each_of_its_optimizers(study, num_optimizers):
    settings = settings_in(study, "regrama", "snr", "gelu", search=True)
    own = {name: {one.method for one in settings if one.method.name == name} for name in ("regrama", "snr", "gelu")}
    assert len(own["regrama"]) == 5  # of twelve draws from five values
    assert len(own["snr"]) == NUM_DRAWS
    assert len(own["gelu"]) == 1  # has nothing to tune
    assert len(settings) == num_optimizers * sum(map(len, own.values()))
    assert len({setting.optimizer for setting in settings}) == num_optimizers


@pytest.mark.parametrize("name", ["regrama", "cpr"])
def test_what_acts_every_thousand_steps_by_default_acts_between_the_stages_of_studies_and_of_the_arena(name):
    methods = [one.method for search in (False, True) for one in settings_in("trainability", name, search=search)]
    for method in [*methods, Entry(name).setting("random_labels", 0)[0]]:
        assert method.every is None
    assert KNOWN[name]().every == 1000


def test_without_a_search_a_method_runs_at_its_defaults_and_rows_of_the_paper_stay():
    first, second = settings_in("trainability", "regrama", "l2", search=False)
    assert (first.method, second.method.name) == (KNOWN["regrama"](every=None), "l2")
    searched = [one.method for one in settings_in("trainability", "l2", search=True)]
    assert searched == [L2(strength=strength) for strength in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)]
