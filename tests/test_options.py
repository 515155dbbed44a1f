"""Options: what a command line spells, what it cannot, and the help."""

import inspect
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

import pytest

from supple.methods import L2, FullReset, Method, UseAID, Vanilla
from supple_lab.commands.base import grouped
from supple_lab.errors import UserError
from supple_lab.options import Form, read, wrapped


@dataclass(frozen=True, kw_only=True)
class Whole:
    """What a command may be made of."""

    method: Method = field(default_factory=lambda: UseAID(relu_prob=0.6))
    inner: Method | None = None
    count: int | None = 3
    """How many."""
    places: tuple[float, ...] = (0.5,)
    quiet: bool = False
    careful: bool = True  # unless told otherwise
    mode: Literal["fast", "exact"] = "exact"
    out: Path = Path("out")


@dataclass(frozen=True, kw_only=True)
class Placed:
    """What has fields that are given by their places."""

    what: str = field(metadata={"place": "WHAT"})
    """What it is about."""
    where: str = field(default="here", metadata={"place": "WHERE"})
    hidden: str = field(default="kept", metadata={"place": None})
    count: int = 3
    quiet: bool = False


@dataclass(frozen=True, kw_only=True)
class Odd:
    """What authors of plugins may annotate their fields with."""

    level: Literal[1, 2] = 1
    start: int | Literal["auto"] = "auto"
    share: float | int = 0.5
    label: int | str = "first"
    decided: bool | None = None
    mode: Literal["fast", "exact"] | None = None
    betas: tuple[float, float] = (0.9, 0.99)
    sizes: tuple[int, ...] | None = None
    switches: tuple[bool, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Needed:
    """Paragraphs are as wide as the terminal, and no wider, also if the source has them as wide as this line is.

    And they stay apart.
    """

    strength: float
    """How strong. Default: there is none, as it would be random-label MNIST's."""
    rate: float = 0.5
    """How fast. Default: the paper's."""


def spelled(line: str) -> Whole:
    return read(Whole, grouped(line.split()))


def refusal(cls: type, line: str) -> str:
    with pytest.raises(UserError) as caught:
        read(cls, grouped(line.split()))
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("", Whole()),
        ("--method aid", Whole()),  # the default's own fields
        ("--method aid --method.relu-prob 1", Whole(method=UseAID(relu_prob=1.0))),
        ("--method full_reset --method.built-with vanilla", Whole(method=FullReset(built_with=Vanilla()))),
        ("--inner l2 --inner.strength 1e-2", Whole(inner=L2(strength=1e-2))),
        ("--inner none --count none", Whole(count=None)),
        (
            "--count 4 --places 1 2.5 --quiet --careful false",
            Whole(count=4, places=(1.0, 2.5), quiet=True, careful=False),
        ),
        ("--places none --out a/b", Whole(places=(), out=Path("a/b"))),
        ("--count=4 --mode fast", Whole(count=4, mode="fast")),
        (
            "--quiet True --careful FALSE --count NONE --places None",
            Whole(count=None, places=(), quiet=True, careful=False),
        ),
    ],
)
def test_options_spell_fields_and_parts(line, wanted):
    assert spelled(line) == wanted


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--count x", "--count must be a whole number or None; got 'x'."),
        ("--count " + "9" * 5000, "--count must be a whole number or None; got '999"),
        ("--count 1 2", "--count takes one value; got '1 2'."),
        ("--count", "--count takes one value; got none."),
        ("--places", "--places takes one value or more; got none. Leave it out for its default."),
        ("--places 1e37", "--places must be a number of at most 1e+36; got 1e+37."),
        ("--places 1 inf", "--places must be a finite number; got inf"),
        ("--mode slow", "--mode must be one of fast, exact; got 'slow'."),
        ("--count 1 --count 2", "--count is given 2 times; give it once."),
        ("word", "'word' is one word too many: the command takes options alone, such as --out FOLDER."),
        ("--count=1 2", "'2' is one word too many"),
        ("--places 1 x", "--places must be a number; got 'x'."),
        ("--quiet yes", "--quiet takes true (or nothing) or false; got 'yes'."),
        ("--method.built-with vanilla", "no option named '--method.built-with'."),
        ("--method", "no method named ''."),
    ],
)
def test_options_that_spell_nothing_are_refused(line, sentence):
    assert sentence in refusal(Whole, line)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("this", Placed(what="this")),
        ("this there --count 4", Placed(what="this", where="there", count=4)),
        ("--quiet this --count 4 there", Placed(what="this", where="there", count=4, quiet=True)),
        ("--count=4 this --quiet false there", Placed(what="this", where="there", count=4)),
    ],
)
def test_words_that_follow_no_option_have_their_places(line, wanted):
    assert read(Placed, grouped(line.split())) == wanted


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--quiet", "WHAT must be given. What it is about."),
        ("this there too", "'too' is one word too many: the command takes WHAT WHERE."),
        ("this there --count 4 5", "--count takes one value; got '4 5'."),
        ("--count 4 5 this there", "--count takes one value; got '4 5 this there'."),
        ("this there --quiet no", "--quiet takes true (or nothing) or false; got 'no'."),
        ("--quiet=no this there", "--quiet takes true (or nothing) or false; got 'no'."),
        ("--quiet this there --count=3 too", "--quiet takes true (or nothing) or false; got 'this there'."),
        ("this --hidden x", "no option named '--hidden'."),
        ("this --what that", "no option named '--what'."),
    ],
)
def test_words_without_a_place_are_refused(line, sentence):
    assert sentence in refusal(Placed, line)


def test_help_says_what_the_source_says():
    text = Form(Whole, {}).help()
    assert "--count INT|none" in text
    assert "How many. (default: 3)" in text
    assert "--careful [true|false]" in text
    assert "(default: true)" in text
    assert "unless told otherwise" in text
    assert "--method.relu-prob FLOAT" in text
    assert "(default: 0.6)" in text
    assert "--mode {fast,exact}" in text
    text = Form(Placed, {}).help()
    assert text.startswith("arguments:\n  WHAT ")
    assert "What it is about. (required)" in text
    assert "hidden" not in text


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("--level 2", Odd(level=2)),
        ("--start 3", Odd(start=3)),
        ("--start auto", Odd()),
        ("--share 1", Odd(share=1)),
        ("--share 0.1", Odd(share=0.1)),
        ("--label 3", Odd(label=3)),
        ("--label last", Odd(label="last")),
        ("--decided true", Odd(decided=True)),
        ("--decided --mode fast", Odd(decided=True, mode="fast")),
        ("--decided false", Odd(decided=False)),
        ("--decided none --mode none", Odd()),
        ("--betas 0.5 1", Odd(betas=(0.5, 1.0))),
        ("--sizes 1 2", Odd(sizes=(1, 2))),
        ("--sizes none", Odd()),
        ("--switches true False", Odd(switches=(True, False))),
    ],
)
def test_values_of_every_annotation_can_be_typed(line, wanted):
    assert (found := read(Odd, grouped(line.split()))) == wanted
    assert [type(getattr(found, own.name)) for own in fields(Odd)] == [
        type(getattr(wanted, own.name)) for own in fields(Odd)
    ]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--level 3", "--level must be one of 1, 2; got '3'."),
        ("--start later", "--start must be a whole number or one of auto; got 'later'."),
        ("--decided maybe", "--decided takes true (or nothing) or false; got 'maybe'."),
        ("--betas 0.5", "--betas takes 2 values; got '0.5'."),
        ("--betas 0.5 0.6 0.7", "--betas takes 2 values; got '0.5 0.6 0.7'."),
        ("--betas none", "--betas takes 2 values; got 'none'."),
        ("--sizes 1 x", "--sizes must be a whole number; got 'x'."),
        ("--switches maybe", "--switches must be True or False; got 'maybe'."),
    ],
)
def test_values_of_no_annotation_are_refused(line, sentence):
    assert sentence in refusal(Odd, line)


def test_help_says_what_can_be_typed():
    text = Form(Odd, {}).help()
    for line in (
        "--level {1,2} ",
        "--start INT|{auto} ",
        "--decided [true|false]|none ",
        "--mode {fast,exact}|none",
        "--betas FLOAT FLOAT ",
        "--sizes INT ...|none ",
        "--switches [true|false] ... ",
    ):
        assert line in text


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_help_is_as_wide_as_the_terminal_and_says_what_is_required(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    text = wrapped(str(inspect.getdoc(Needed))) + Form(Needed, {}).help()
    assert max(map(len, text.splitlines())) <= columns
    words = " ".join(text.split())
    assert "random-label MNIST's. (required)" in words  # no hyphen breaks a name
    assert "How fast. Default: the paper's. (default: 0.5)" in words
    assert "\n\nAnd they stay apart." in text


def test_fields_of_a_part_are_changed_by_options():
    start = FullReset(built_with=UseAID(relu_prob=0.6))
    assert read(FullReset, {}, prefix="--method.", start=start) == start
    assert read(L2, {"--method.strength": [["0.5"]]}, prefix="--method.", start=L2()) == L2(strength=0.5)
    with pytest.raises(UserError, match=r"method\.strength must be a finite number; got nan"):
        read(L2, {"--method.strength": [["nan"]]}, prefix="--method.", start=L2())
