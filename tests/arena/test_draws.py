"""Draws of the arena: the same everywhere, inside their space, for every method there is."""

import re

import pytest

from supple.methods.base import Method
from supple_lab import registry
from supple_lab.arena import spaces
from supple_lab.arena.contest import BUDGETS, TUNING_SEED, Contest
from supple_lab.arena.entries import CHAINS, Entry, entries_of, every_entry
from supple_lab.arena.problems import PROBLEMS
from supple_lab.errors import UserError
from supple_lab.spec import RunSpec

BY_NAME = {problem.name: problem for problem in PROBLEMS}


def test_every_method_has_a_space_or_a_reason():
    assert {*spaces.SPACES, *spaces.NOT_ALONE} == set(registry.entries("method"))


def test_every_entry_is_a_method_or_a_chain_once():
    names = [entry.name for entry in every_entry()]
    assert names[:2] == ["full_reset", "vanilla"]
    assert sorted(names) == sorted({*registry.entries("method"), *CHAINS} - {*spaces.NOT_ALONE})


@pytest.mark.parametrize("entry", every_entry(), ids=lambda entry: entry.name)
def test_draws_are_inside_their_space_and_make_a_run_that_can_be_read_back(entry):
    for index in (0, spaces.NUM_DRAWS - 1):
        spec = Contest(BY_NAME["random_labels"], entry, "quick").spec(index, TUNING_SEED)
        assert spaces.LEARNING_RATE.low <= spec.optimizer.learning_rate <= spaces.LEARNING_RATE.high
        assert RunSpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize(
    ("within", "low", "high"),
    [
        (spaces.LogUniform(1e-4, 1.0), 1e-4, 1.0),
        (spaces.NearOne(0.001, 0.5), 0.5, 0.999),
        (spaces.Uniform(0.0, 0.9), 0.0, 0.9),
        (spaces.Choice((1, 2, 3)), 1, 3),
    ],
)
def test_the_draws_of_a_field_cover_its_range_evenly(within, low, high):
    values = [spaces.draw(within, "problem", "entry", "field", index=index) for index in range(12)]
    assert all(low <= value <= high for value in values)
    assert values != sorted(values)
    edges = [within.at(part / 12) for part in range(12)]
    if isinstance(within, spaces.Choice):
        assert {value: values.count(value) for value in within.values} == {1: 4, 2: 4, 3: 4}
    else:  # one in each twelfth of the range, NearOne's from above; to three digits
        for value, edge in zip(sorted(values, reverse=edges[0] > edges[-1]), edges, strict=True):
            assert (value <= edge + 1e-3) if edges[0] > edges[-1] else (value >= edge * 0.99)


def test_draws_never_move():
    spec = Contest(BY_NAME["random_labels"], Entry("aid"), "quick").spec(3, TUNING_SEED)
    assert (spec.method.relu_prob, spec.optimizer.learning_rate, spec.run_id) == (0.957, 0.00779, "13f45054eda0eddd")
    other = Contest(BY_NAME["random_labels"], Entry("aid+l2_init"), "quick").spec(3, TUNING_SEED)
    assert other.method.methods[0].relu_prob != spec.method.relu_prob


@pytest.mark.parametrize(("value", "wanted"), [(0.0, 0.0), (0.0123456, 0.0123), (123456.0, 123000.0), (0.9996, 1.0)])
def test_numbers_have_three_digits(value, wanted):
    assert spaces.rounded(value) == wanted


def test_no_seed_of_the_score_is_a_tuning_seed():
    for budget in BUDGETS.values():
        assert TUNING_SEED not in range(budget.num_seeds)


def test_unknown_entries_are_refused():
    assert [entry.name for entry in entries_of(["aid", "l2+redo", "aid"])] == ["aid", "l2+redo"]
    for name, sentence in (("rdeo", "Did you mean 'redo'"), ("l2+rdeo", "'rdeo'"), ("chain", "a chain is its methods")):
        with pytest.raises(registry.UnknownName, match=sentence):
            entries_of([name])


@pytest.mark.parametrize("name", ["cbp+redo", "aid+l2+crelu"])
def test_methods_that_cannot_go_together_are_no_entry(name):
    with pytest.raises(UserError, match=rf"^{re.escape(name)} is no entry of the arena: .*(renew units|activation)"):
        entries_of([name])


def test_chains_hold_their_methods_in_order():
    method, _ = Entry("l2_init+redo").setting("random_labels", 0)
    assert [type(part) for part in method.methods] == [registry.find(Method, name) for name in ("l2_init", "redo")]
