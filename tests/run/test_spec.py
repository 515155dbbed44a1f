from dataclasses import dataclass, field

import pytest

from small_runs import small_spec
from supple.methods import UseAID
from supple_lab.codec import decode, encode


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


@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1])
def test_seed_that_no_index_could_hold_is_refused(seed):
    with pytest.raises(ValueError, match=r"RunSpec\.seed must be a number that 64 bits can hold"):
        small_spec(seed=seed)
