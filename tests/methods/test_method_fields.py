"""A method is a value: checked when it is made, copied, compared."""

import copy
import pickle
from dataclasses import dataclass, replace

import pytest

from supple.methods import L2
from supple.methods.base import Method


@dataclass(frozen=True, kw_only=True)
class Own(Method):
    """A method of a user's own, without a rule on its fields."""

    rate: float = 0.5
    kind: str = "plain"


def test_a_field_of_a_users_own_method_is_checked_by_its_annotation():
    assert Own(kind="other", rate=1) == Own(kind="other", rate=1.0)
    with pytest.raises(TypeError, match=r"^Own\.rate must be a number; got 'fast', a str\.$"):
        Own(rate="fast")


def test_copies_of_a_method_are_equal_to_it():
    method = Own(rate=0.25)
    assert replace(method, rate=0.25) == copy.deepcopy(method) == pickle.loads(pickle.dumps(method)) == method


def test_a_positional_value_is_refused_by_the_methods_own_name():
    with pytest.raises(TypeError, match=r"^L2\.__init__\(\) takes 1 positional argument"):
        L2(1e-3)
