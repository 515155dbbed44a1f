from dataclasses import dataclass, field

import pytest

from small_runs import small_spec
from supple.methods import (
    CBP,
    FullReset,
    Method,
    ReDo,
    UseAID,
    UseIdentity,
    UseRReLU,
    UseSigmoid,
    UseTanh,
)
from supple.metrics.preactivation import PreactivationQuartiles
from supple.metrics.units import DormantRatio
from supple_lab.codec import decode, encode
from supple_lab.data.digits import Digits
from supple_lab.models.mlp import MLP
from supple_lab.optimizer import Adam
from supple_lab.scenarios.stationary import Stationary
from supple_lab.spec import RunSpec, Supervised


def test_equal_specs_are_the_same_run_and_any_field_makes_another():
    spec = small_spec(UseAID(relu_prob=0.95))
    assert spec.run_id == small_spec(UseAID(relu_prob=0.95)).run_id
    others = [
        small_spec(UseAID(relu_prob=0.9)),
        small_spec(UseAID(relu_prob=0.95), seed=1),
        small_spec(),
        small_spec(epochs=3),
    ]
    assert len({spec.run_id, *(other.run_id for other in others)}) == 5


def test_run_ids_do_not_move_between_versions():
    """A change of this id orphans every finished run in the world: add new fields as `later` instead."""
    assert small_spec(UseAID(relu_prob=0.95), seed=3).run_id == "4912af929c911b50"


@dataclass(frozen=True, kw_only=True)
class Old:
    name = "grown_in_test"
    strength: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Corrected:
    name = "grown_in_test"
    strength: float = 1.0
    revision: int = field(default=2, metadata={"later": True, "absent": 1})


def test_spec_of_before_a_correction_is_read_as_what_it_was_and_is_another_run():
    old = decode(Corrected, {"strength": 1.0})
    assert old == Corrected(revision=1)
    assert encode(old) == encode(Old())
    assert encode(Corrected()) == {"kind": "grown_in_test", "strength": 1.0, "revision": 2}


def test_unknown_kind_in_a_stored_spec_is_named():
    with pytest.raises(LookupError, match="no method named 'nonsense'"):
        decode(Method, {"kind": "nonsense"})


@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1])
def test_seed_that_no_index_could_hold_is_refused(seed):
    with pytest.raises(ValueError, match=r"RunSpec\.seed must be a number that 64 bits can hold"):
        small_spec(seed=seed)


def test_method_inside_a_method_and_metrics_survive_the_json():
    method = FullReset(built_with=UseAID(relu_prob=0.7))
    problem = Supervised(
        scenario=Stationary(), dataset=Digits(), metrics=(DormantRatio(), PreactivationQuartiles()), metrics_every=3
    )
    spec = RunSpec(problem=problem, model=MLP(), method=method, optimizer=Adam(), seed=1, precision="bf16")
    assert RunSpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize("method", [CBP, ReDo, UseIdentity, UseRReLU, UseSigmoid, UseTanh])
def test_a_run_without_a_revision_is_of_the_first_one_and_new_runs_are_of_the_second(method):
    assert "revision" not in encode(method(revision=1))
    assert encode(method())["revision"] == 2
    assert small_spec(method()).run_id != small_spec(method(revision=1)).run_id
