"""A plugin is looked at as a whole when it is loaded: what cannot be told apart or written down is refused then."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from torch import nn

from alone import supple_alone
from supple.methods import L2, L2Init, Method, ReDo, ShrinkPerturb, UseAID, Vanilla
from supple_lab import registry
from supple_lab.arena.spaces import Uniform
from supple_lab.commands.one_run import find_metrics
from supple_lab.paper.study import at_defaults

TAKEN = """
from dataclasses import dataclass
from supple.methods import Method

@dataclass(frozen=True, kw_only=True)
class Mine(Method):
    name = "aid"
"""
MINE = """
from dataclasses import dataclass
from supple.methods import Method
from supple_lab.arena.spaces import Choice

@dataclass(frozen=True, kw_only=True)
class Mine(Method):
    rate: float = 0.5
    {}
    def after_step(self, learner, state):
        pass
"""


@pytest.mark.parametrize(
    "file",
    [
        pytest.param("mine.py", id="in the plugin"),
        pytest.param("neighbour.py", id="in a file that it imports", marks=pytest.mark.slow),
    ],
)
def test_a_taken_name_is_refused_before_anything_is_written(tmp_path, file):
    (tmp_path / "mine.py").write_text("import neighbour")
    (tmp_path / file).write_text(TAKEN)
    given = ["--plugin", "mine.py", "--out", "out", "--engine", "inline", "--quiet"]
    done = supple_alone(tmp_path, "run", "quickstart", "--scale", "smoke", "--methods", "aid", *given)
    assert (done.returncode, done.stdout) == (2, "")
    assert "the name 'aid' of the plugin's Mine is taken by supple.methods.activations.UseAID" in done.stderr
    assert not (tmp_path / "out").exists()


class Bare:  # these are no Methods, or every test after this one would find them
    name = "bare"
    rate: float = 0.5


@dataclass
class Unfrozen:
    name = "unfrozen"
    rate: float = 0.5


@dataclass(frozen=True, kw_only=True)
class WithTable:
    name = "with_table"
    rates: dict = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class WithPath:
    name = "with_path"
    rates: tuple[Path, ...] = (Path("rates"),)


@dataclass(frozen=True, kw_only=True)
class OfAKind:
    name = "of_a_kind"
    kind: str = "mean"


@dataclass(frozen=True, kw_only=True)
class Plain:
    name = "plain"
    needed: float
    rates: tuple[float | None, ...] = (0.5, None)
    word: str = "word"
    part: Method = field(default_factory=Vanilla)


class Undecorated(Plain):
    name = "undecorated"
    rate: float = 0.5


class OfTheSameFields(Plain):
    name = "of_the_same_fields"


class Numbered:
    name = 7


class Nameless(Bare):
    pass


@pytest.mark.parametrize(
    ("cls", "words"),
    [
        (Bare, "Bare is no frozen dataclass"),
        (Unfrozen, "Unfrozen is no frozen dataclass"),
        (Undecorated, "Undecorated is no frozen dataclass"),
        (WithTable, r"WithTable\.rates is {} by default"),
        (WithPath, r"WithPath\.rates is \(PosixPath\('rates'\),\) by default, but"),
        (OfAKind, "OfAKind has a field named 'kind'"),
        (Numbered, "Numbered has a name that is no text; give it one: name = 'numbered'"),
        (Nameless, "Nameless has no name of its own; give it one: name = 'nameless'"),
    ],
)
def test_a_class_that_cannot_be_named_or_that_no_spec_can_hold_is_refused(cls, words):
    with pytest.raises(registry.UnknownName, match=f"the plugin's {words}"):
        registry.check_class(cls, [], in_specs=True)


@pytest.mark.parametrize("name", ["", "a/b", "my method", "l2_init+redo", "mine\n"])
def test_a_name_that_is_no_word_is_refused(name):
    with pytest.raises(registry.UnknownName, match=r"of the plugin's Odd is no word of .*; give it one: name = 'odd'"):
        registry.check_class(type("Odd", (), {"name": name}), [], in_specs=False)


def test_names_that_commands_take_for_something_else_are_refused():
    for kind, words in registry.RESERVED.items():
        for word in words:
            with pytest.raises(
                registry.UnknownName, match=f"name '{word}' of the plugin's Odd is a word of the command"
            ):
                registry.check_class(type("Odd", (), {"name": word}), [], in_specs=False, reserved=words)
            assert word not in registry.entries(kind)


@dataclass(frozen=True, kw_only=True)
class Tuned:
    name = "tuned"
    rate: float = 0.5


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ({"rat": Uniform(0.1, 0.2)}, r"tunes a field that is none: no field named 'rat'\. Did you mean 'rate'\?"),
        ({"rate": (0.1, 0.2)}, r"must map fields to ranges of .*; got {'rate': \(0\.1, 0\.2\)}"),
        (Uniform(0.1, 0.2), r"must map fields to ranges of .*; got Uniform\(low=0\.1, high=0\.2\)"),
    ],
)
def test_a_space_that_the_arena_cannot_draw_from_is_refused(space, words):
    with pytest.raises(registry.UnknownName, match=rf"the plugin's Mine\.space {words}"):
        registry.check_space(type("Mine", (Tuned,), {"space": space}))
    registry.check_space(type("Mine", (Tuned,), {"space": {"rate": Uniform(0.1, 0.2)}}))
    registry.check_space(Tuned)


@pytest.mark.parametrize(
    ("activation", "words"),
    [
        (lambda self: nn.functional.relu, r"must return a module, such as nn\.Tanh\(\); got <function relu"),
        (lambda self: self.nothing, "cannot be called: AttributeError: 'Mine' object has no attribute 'nothing'"),
    ],
)
def test_an_activation_that_is_no_module_is_refused(activation, words):
    with pytest.raises(registry.UnknownName, match=rf"the plugin's Mine\.activation\(\) {words}"):
        registry.check_activation(type("Mine", (Tuned,), {"activation": activation}))
    registry.check_activation(UseAID)
    registry.check_activation(Plain)  # needs a value, so that there is nothing to look at


REFUSED = {
    "a range that is none": ('name = "mine"; space = {"rate": 2}', "the plugin's Mine.space must map fields to ranges"),
    "a value that it does not take": (
        'name = "mine"; space = {"rate": Choice(("x",))}',
        "supple: the arena drew Mine(rate='x'), which cannot be: Mine.rate must be a number; got 'x', a str.",
    ),
    "a field without a value": (
        'name = "mine"; other: float',
        "the arena drew Mine(), which cannot be: Mine.__init__()",
    ),
    "an absent part's": ('name = "none"', "the name 'none' of the plugin's Mine is a word of the command line's own"),
}


@pytest.mark.parametrize("code", ["", "class Mine:\n    name = 'mine'\n"], ids=["empty", "upon no base class"])
def test_a_plugin_that_brings_nothing_is_refused(tmp_path, code):
    (path := tmp_path / "nothing.py").write_text(code)
    done = supple_alone(tmp_path, "list", "methods", "--plugin", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"supple: --plugin {path} brings nothing: none of its classes builds upon Method, ")


@pytest.mark.parametrize(("body", "sentence"), REFUSED.values(), ids=REFUSED)
def test_the_arena_refuses_a_plugin_in_a_sentence(tmp_path, body, sentence):
    (tmp_path / "mine.py").write_text(MINE.format(body))
    done = supple_alone(tmp_path, "arena", "--scale", "smoke", "--plugin", "mine.py")
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["run quickstart --methods vanilla mine --seeds 1 --jobs 1", "arena"])
def test_runs_that_are_older_than_the_plugin_are_said_to_be(tmp_path, command):
    (path := tmp_path / "mine.py").write_text(MINE.format('name = "mine"'))
    line = [*command.split(), "--scale", "smoke", "--plugin", "mine.py", "--engine", "inline", "--out", "out"]
    line += ["--problems", "random_labels"] if command == "arena" else []
    said = ("1 run is" if command != "arena" else "4 runs are") + " older than mine.py and kept."
    assert said not in (done := supple_alone(tmp_path, *line)).stdout + done.stderr
    later = path.stat().st_mtime + 1000
    os.utime(path, (later, later))
    assert said in (done := supple_alone(tmp_path, *line)).stdout + done.stderr


def test_a_method_without_any_hook_is_refused():
    hooks = ("activation", "after_backward", "after_step", "end_stage", "begin_stage")
    unlike = type("OfAnotherName", (), {"on_step": None, **{hook: getattr(Method, hook) for hook in hooks}})
    with pytest.raises(registry.UnknownName, match="the plugin's OfAnotherName never acts: it has none of the hooks"):
        registry.check_acts(unlike, Method)
    for cls in (UseAID, L2, L2Init, ReDo, ShrinkPerturb):
        registry.check_acts(cls, Method)


def test_fields_that_a_spec_can_hold_and_a_nameless_class_that_others_build_upon_are_not_refused():
    class Base:
        pass

    class Mine(Base):
        name = "mine"

    registry.check_class(Plain, [], in_specs=True)
    registry.check_class(OfTheSameFields, [], in_specs=True)
    registry.check_class(Base, [Mine], in_specs=False)


def test_a_study_refuses_a_method_that_has_no_defaults_and_says_how_to_run_it():
    with pytest.raises(registry.UnknownName, match=r"Plain\.needed has none; .* --method plain --method\.needed"):
        at_defaults(Plain)


def test_a_metric_that_has_no_defaults_is_refused_by_its_name(monkeypatch):
    monkeypatch.setattr(registry, "find", lambda base, name: Plain)
    with pytest.raises(registry.UnknownName, match=r"measures plain at its defaults, and Plain\.needed has none"):
        find_metrics(["plain"])
