"""Help, lists and unknown names are answered without the packages that take seconds to import."""

import dataclasses
import subprocess
import sys

import pytest

from supple_lab import registry
from supple_lab.commands.list import KINDS

SLOW = ("torch", "scipy", "matplotlib", "sklearn")
CODE = (
    "import sys; from supple_lab.entry import main\n"
    "try: main()\n"
    f"finally: print('LOADED', [name for name in {SLOW} if name in sys.modules])"
)


def answered(line: str) -> str:
    """What `supple LINE` prints in a process of its own; it must load nothing slow."""
    done = subprocess.run([sys.executable, "-c", CODE, *line.split()], capture_output=True, text=True)
    assert done.stdout.endswith("LOADED []\n"), done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("line", ["", "--help", "--version", *(f"list {kind}" for kind in KINDS), "list"])
def test_help_and_lists_load_nothing_slow(line):
    assert len(answered(line).splitlines()) > 1


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("rnu quickstart", "no command named 'rnu'. Did you mean 'run'?"),
        ("run quickstrat", "no study named 'quickstrat'. Did you mean 'quickstart'?"),
        ("run quickstart --methods aid vanila", "no method named 'vanila'. Did you mean 'vanilla'?"),
        ("run quickstart --bogus 3", "no option named '--bogus'."),
        ("run quickstart --methods aid --method.relu-probb 1", "no option of aid named '--method.relu-probb'. Did you"),
        ("train --method rdeo", "no method named 'rdeo'. Did you mean 'redo'?"),
        ("train --method aid --method.bogus 3", "no option of aid named '--method.bogus'."),
        ("train --metrics dormnt", "Did you mean 'dormant'?"),
        ("play --game Pogn", "no game named 'Pogn'. Did you mean 'Pong'?"),
        ("play --game Pong --num-iteration 3", "Did you mean '--num-iterations'?"),
        ("report quickstrat", "there is no folder quickstrat here, and no study named 'quickstrat'."),
        ("arena --methods aid l2_init+rdeo", "no method named 'rdeo'. Did you mean 'redo'?"),
        ("data check mnits", "no dataset named 'mnits'. Did you mean 'mnist'?"),
        ("list metods", "Did you mean 'methods'?"),
    ],
)
def test_unknown_names_are_answered_without_loading_anything_slow(line, sentence):
    assert sentence in answered(line)


@pytest.mark.parametrize("kind", [kind for kind in registry.BASES if kind != "command"])
def test_sources_tell_the_classes_that_importing_finds(kind):
    module, _, base = registry.BASES[kind].rpartition(".")
    known = registry.known(getattr(__import__(module, fromlist=[base]), base))
    ours = {name: cls for name, cls in known.items() if registry.is_ours(cls)}
    entries = registry.entries(kind)
    assert {name: (entry.module, entry.cls) for name, entry in entries.items()} == {
        name: (cls.__module__, cls.__name__) for name, cls in ours.items()
    }
    for name, cls in ours.items():
        assert entries[name].summary == (cls.__doc__ or "").partition("\n")[0]
        if dataclasses.is_dataclass(cls):
            assert set(entries[name].fields) == {field.name for field in dataclasses.fields(cls)}
