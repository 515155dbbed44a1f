"""One codec: values are checked by their annotation and never converted, and errors name the path."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from small_runs import small_spec
from supple.methods import L2, FullReset, Method, UseAID
from supple_lab.codec import decode, encode
from supple_lab.spec import RunSpec

SPEC = small_spec(FullReset(built_with=UseAID(relu_prob=0.7))).to_dict()


def changed(path: str, value: object) -> str:
    """The JSON of a spec with another value at the path."""
    content = json.loads(json.dumps(SPEC))
    *way, last = path.split(".")
    part = content
    for name in way:
        part = part[name]
    part[last] = value
    return json.dumps(content)


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("method.built_with.relu_prob", "0.7", "method.built_with.relu_prob must be a number; got '0.7', a str."),
        ("method.built_with.relu_prob", float("nan"), "method.built_with.relu_prob must be a finite number; got nan."),
        (
            "method.built_with.relu_prob",
            1e308,
            "method.built_with.relu_prob must be a number of at most 1e+36; got 1e+308",
        ),
        ("model.width", 16.0, "model.width must be a whole number; got 16.0, a float."),
        ("model.width", True, "model.width must be a whole number; got True, a bool."),
        ("model.width", 2**63, "model.width must be a number that 64 bits can hold"),
        ("problem.scenario.gone", 1, "problem.scenario: no field named 'gone'. Known: num_stages"),
        ("method", None, "method must be a Method; got None."),
        ("method", [1], "method must be a Method; got [1], a list."),
        ("method", {}, "method.kind must be text; got None."),
        ("method.kind", 7, "method.kind must be text; got 7, an int."),
        ("method.kind", ["aid"], "method.kind must be text; got ['aid'], a list."),
        ("method.kind", "", "no method named ''."),
        ("problem.metrics", [{"kind": "dormnt"}], "no metric named 'dormnt'. Did you mean 'dormant'?"),
        ("precision", "half", "precision is one of default, fp32, tf32, bf16; got 'half'."),
    ],
)
def test_wrong_values_are_named_by_their_path(path, value, sentence):
    with pytest.raises((TypeError, ValueError, LookupError)) as caught:
        RunSpec.from_json(changed(path, value))
    assert sentence in str(caught.value)


def test_what_is_missing_and_what_is_nested_beyond_bounds_is_said():
    with pytest.raises(TypeError, match=r"^seed is missing\.$"):
        decode(RunSpec, {name: value for name, value in SPEC.items() if name != "seed"})
    deep: object = None
    for _ in range(5000):
        deep = {"kind": "full_reset", "built_with": deep}
    with pytest.raises(ValueError, match="nested too deeply"):
        RunSpec.from_json('{"method":' * 500_000 + "1" + "}" * 500_000)  # Python 3.14 reads 50,000
    with pytest.raises(RecursionError):
        decode(Method, deep)


@dataclass(frozen=True, kw_only=True)
class OfPlugin:
    sizes: tuple[int, ...] | None = None
    file: Path | None = None


def test_paths_and_tuples_that_may_be_absent_come_back():
    written = OfPlugin(sizes=(1, 2), file=Path("a/b"))
    assert decode(OfPlugin, json.loads(json.dumps(encode(written)))) == written
    assert decode(OfPlugin, encode(OfPlugin())) == OfPlugin()
    with pytest.raises(TypeError, match="sizes must be a tuple"):
        decode(OfPlugin, {"sizes": 1})


def test_a_whole_number_stays_one_where_a_number_is_wanted():
    assert (read := decode(L2, {"strength": 1})) == L2(strength=1)
    assert json.dumps(encode(read)) == '{"kind": "l2", "strength": 1}'
