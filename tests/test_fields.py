"""Values that do not suit their field: refused at construction by every class that a run is made of, and by layers."""

import inspect
import math
import types
import typing
from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
import torch

from small_runs import small_spec
from supple import AID, DropReLU, IntervalDropout, ReLUDropout
from supple.fields import Checked, kinds_of
from supple.layers import RReLU
from supple.methods import CBP, L2, FullReset, Method, ReDo, UseAID
from supple.metrics.base import Metric
from supple_lab import registry
from supple_lab.data.base import Dataset
from supple_lab.models.base import Model
from supple_lab.optimizer import Adam, Optimizer
from supple_lab.rl.base import Game
from supple_lab.scenarios.base import Scenario
from supple_lab.spec import Problem, RunSpec

KINDS = (Method, Metric, Scenario, Dataset, Model, Optimizer, Game, Problem)
CLASSES = [*(cls for kind in KINDS for cls in registry.known(kind).values()), RunSpec]
FIELDS = [(cls, field.name) for cls in CLASSES for field in fields(cls)]
NOTHING_AT_ALL = (object(), [0.5], {"a": 1}, {0.5}, 1j, b"1", int, np.array([1.0, 2.0]), (object(),), lambda: 1)
NO_NUMBERS = (*NOTHING_AT_ALL, True, False, "x", "1", np.bool_(True), np.float32(0.5), np.int64(1), torch.tensor(1.0))
NO_FINITE = (math.nan, math.inf, -math.inf, 10**400, -(10**400))
WRONG = {
    bool: (*NOTHING_AT_ALL, 0, 1, 0.0, "no", "True", np.bool_(True), torch.tensor(True)),
    int: (*NO_NUMBERS, *NO_FINITE, 2.5, 100.0, np.float64(1.0)),
    float: (*NO_NUMBERS, *NO_FINITE),
    str: (*NOTHING_AT_ALL, True, 1, 0.5),
}
INFINITE = {(ReDo, "threshold")}  # at inf every unit is dormant


def wrong_for(cls, name) -> tuple:
    """What the field must not take, by its annotation as it is written in the class."""
    hint = typing.get_type_hints(cls)[name]
    values = (None,)
    if isinstance(hint, types.UnionType):
        (hint,), values = (part for part in typing.get_args(hint) if part is not type(None)), ()
    if (cls, name) in INFINITE:
        return (*values, *(value for value in WRONG[float] if value is not math.inf))
    if typing.get_origin(hint) is tuple:
        member, _ = typing.get_args(hint)
        return (*values, *NOTHING_AT_ALL, "x", 1, 0.5, True, *((value,) for value in WRONG.get(member, (1, "x"))))
    if typing.get_origin(hint) is typing.Literal:
        return (*values, *WRONG[str], "x", "")
    return (*values, *WRONG.get(hint, (*NOTHING_AT_ALL, 1, 0.5, True, "x", UseAID)))


@pytest.mark.parametrize(("cls", "name"), FIELDS, ids=[f"{cls.__name__}.{name}" for cls, name in FIELDS])
def test_every_field_refuses_what_does_not_suit_it(cls, name):
    for value in wrong_for(cls, name):
        with pytest.raises((TypeError, ValueError), match=rf"^{cls.__name__}\.{name} (must be|is) .*; got .*\.$"):
            cls(**{name: value})


@pytest.mark.parametrize("layer", [AID, DropReLU, ReLUDropout, IntervalDropout, RReLU])
def test_every_layer_refuses_what_does_not_suit_its_argument(layer):
    given = {"edges": (0.0,), "drop": (0.9, 0.1)} if layer is IntervalDropout else {}
    scalars = (np.bool_(True), torch.tensor(True), np.complex64(0.5), torch.tensor(0.5j), np.str_("0.9"))
    no_numbers = (None, True, "0.9", b"1", object(), float, *scalars, np.ones((2, 2)), 1j)
    for name in inspect.signature(layer).parameters:
        wrong = WRONG[bool] if name == "inplace" else (*no_numbers, *NO_FINITE)
        in_sequence = [(value,) * len(given[name]) for value in wrong] if name in given else []
        for value in (*wrong, *in_sequence):
            with pytest.raises((TypeError, ValueError), match=rf"(?s)^{layer.__name__}\.{name}\b.*; got .*\.$"):
                layer(**{**given, name: value})


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: CBP(maturity=math.nan), "CBP.maturity must be a whole number; got nan, a float."),
        (lambda: ReDo(num_examples=2.5), "ReDo.num_examples must be a whole number; got 2.5, a float."),
        (lambda: L2(strength=math.nan), "L2.strength must be a finite number; got nan."),
        (lambda: L2(strength=None), "L2.strength must be a number; got None."),
        (lambda: FullReset(built_with="x"), "FullReset.built_with must be a Method or None; got 'x', a str."),
        (
            lambda: FullReset(built_with=UseAID),
            "FullReset.built_with must be a Method or None; got the class UseAID itself.",
        ),
        (
            lambda: replace(small_spec(), precision="half"),
            "RunSpec.precision is one of default, fp32, tf32, bf16; got 'half'.",
        ),
    ],
    ids=["int", "float in an int", "nan", "None", "part", "class", "literal"],
)
def test_the_sentence_says_what_was_wanted_and_what_came(make, sentence):
    with pytest.raises((TypeError, ValueError)) as caught:
        make()
    assert str(caught.value) == sentence


@dataclass(frozen=True, kw_only=True)
class Own(Checked):
    """A class of a user's own, without a rule on its fields."""

    pair: tuple[int, float] = (1, 0.5)
    anything: typing.Any = None
    table: dict[str, int] | None = None


def test_fixed_tuples_and_types_that_say_little_are_checked_as_far_as_they_say():
    assert Own(pair=(2, 3), anything=object(), table={"a": 1}).pair == (2, 3)
    with pytest.raises(TypeError, match=r"^Own\.pair must be a tuple \(a whole number, a number\); got \(1, 2, 3\), a"):
        Own(pair=(1, 2, 3))
    with pytest.raises(TypeError, match=r"^Own\.table must be a dict or None; got \[1\], a list\.$"):
        Own(table=[1])


def test_numpys_float64_is_a_float_and_gives_the_same_run():
    exact, numpys = small_spec(optimizer=Adam(learning_rate=0.003)), Adam(learning_rate=np.float64(0.003))
    assert small_spec(optimizer=numpys).run_id == exact.run_id


def test_a_whole_number_where_a_float_may_be_is_kept_as_it_is_and_is_another_run():
    whole, real = small_spec(method=L2(strength=1)), small_spec(method=L2(strength=1.0))
    assert whole.run_id != real.run_id
    for spec in (whole, real):
        read = RunSpec.from_json(spec.to_json())
        assert (type(read.method.strength), read.run_id) == (type(spec.method.strength), spec.run_id)


def test_defaults_suit_their_fields():
    for cls in CLASSES:
        own = [field for field in fields(cls) if field.name in kinds_of(cls)]
        needed = [field for field in own if registry.needed_field(cls) == field.name]
        if not needed:
            cls(**{field.name: registry.default_of(field) for field in own})
