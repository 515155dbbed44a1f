"""What any method says of a value that is not of the kind its field holds."""

import copy
import pickle
from dataclasses import dataclass, replace

import pytest

from supple.methods import CBP, L2, ReDo, UseAID
from supple.methods.base import Method


@dataclass(frozen=True, kw_only=True)
class Own(Method):
    """A method of a user's own, without a rule on its fields."""

    rate: float = 0.5
    kind: str = "plain"


@pytest.mark.parametrize(
    ("cls", "field", "value"),
    [
        (L2, "strength", "x"),
        (CBP, "maturity", None),
        (ReDo, "threshold", [0.1]),
        (UseAID, "relu_prob", "0.9"),
        (Own, "rate", "fast"),
    ],
)
def test_what_is_no_number_is_refused_with_the_name_of_the_field(cls, field, value):
    with pytest.raises(TypeError, match=rf"^{cls.__name__}\.{field} must be a number, as its default .* is; got "):
        cls(**{field: value})


def test_fields_that_hold_no_number_take_what_they_are_given():
    assert Own(kind="other").kind == "other"


def test_copies_of_a_method_are_equal_to_it():
    method = Own(rate=0.25)
    assert replace(method, rate=0.25) == copy.deepcopy(method) == pickle.loads(pickle.dumps(method)) == method


def test_a_positional_value_is_refused_by_the_methods_own_name():
    with pytest.raises(TypeError, match=r"^L2\.__init__\(\) takes 1 positional argument"):
        L2(1e-3)
