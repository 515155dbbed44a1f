"""Options: what a command line spells, what it cannot, and the help."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from supple.methods import L2, FullReset, Method, UseAID, Vanilla
from supple_lab.commands.base import grouped
from supple_lab.errors import UserError
from supple_lab.options import Form, read


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


def spelled(line: str) -> Whole:
    return read(Whole, grouped(line.split()))


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
    with pytest.raises(UserError) as caught:
        spelled(line)
    assert sentence in str(caught.value)


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
        ("this --hidden x", "no option named '--hidden'."),
        ("this --what that", "no option named '--what'."),
    ],
)
def test_words_without_a_place_are_refused(line, sentence):
    with pytest.raises(UserError) as caught:
        read(Placed, grouped(line.split()))
    assert sentence in str(caught.value)


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


def test_fields_of_a_part_are_changed_by_options():
    start = FullReset(built_with=UseAID(relu_prob=0.6))
    assert read(FullReset, {}, prefix="--method.", start=start) == start
    assert read(L2, {"--method.strength": [["0.5"]]}, prefix="--method.", start=L2()) == L2(strength=0.5)
    with pytest.raises(UserError, match=r"method\.strength must be a finite number; got nan"):
        read(L2, {"--method.strength": [["nan"]]}, prefix="--method.", start=L2())
