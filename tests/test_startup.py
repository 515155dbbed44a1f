"""Help and lists are answered without the packages that take seconds to import."""

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
        ("list metods", "Did you mean 'methods'?"),
    ],
)
def test_what_cannot_be_listed_or_commanded_is_answered_without_loading_anything_slow(line, sentence):
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
