"""tools/mutate.py: what is mutated, and that its lists still speak of the sources as they are."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

SOURCE = '''"""A docstring with 1 < 2."""

LIMIT: int = 3


def root(x: float | None = 2.0) -> float:
    """Return 1 + 1."""
    if x < 0:
        raise ValueError(f"{1 + x} is below 0")
    return x ** 0.5
'''


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    return importlib.import_module("mutate")


def test_mutants_change_what_runs_and_neither_text_nor_annotations(tool, tmp_path):
    (tmp_path / "root.py").write_text(SOURCE)
    found = tool.mutants_of(tmp_path / "root.py")
    assert {mutant.after for mutant in found} == {
        "LIMIT: int = 4",
        "def root(x: float | None=4.0) -> float:",
        "if not x < 0:",
        "if x <= 0:",
        "if x < 1:",
        "return",
        "return x * 0.5",
        "return x ** 1.0",
    }


def test_every_planted_error_has_one_place_in_its_source(tool):
    for planted in tool.LISTED["planted"]:
        assert Path(planted["file"]).read_text().count(planted["before"]) == 1, planted


def test_every_mutant_listed_as_equivalent_exists_and_has_a_reason(tool):
    listed = tool.LISTED.get("equivalent", [])
    files = {entry["file"] for entry in listed}
    known = {tool.key_of(mutant) for file in files for mutant in tool.mutants_of(Path(file))}
    for entry in listed:
        assert tuple(entry[field] for field in ("file", "where", "before", "after")) in known, entry
        assert entry["reason"]


def test_every_mutated_source_and_every_test_of_it_exists(tool):
    for module in tool.MODULES.values():
        assert all(Path(path).exists() for path in (*module.sources, *module.tests)), module


@pytest.mark.parametrize(
    ("by", "counts"),
    [
        ("tests/test_mutate.py::test_verdict_counts_while_the_test_that_killed_is_there[by-1 :: 2: x]", True),
        ("takes too long: tests/run/test_captured.py::TestOnAGpu::test_captured_steps_equal_eager_ones[a]", True),
        ("crashes", True),
        ("tests/test_mutate.py::test_that_is_gone", False),
        ("crashes: tests/test_gone.py::test_mutants_change_what_runs", False),
    ],
)
def test_verdict_counts_while_the_test_that_killed_is_there(tool, by, counts):
    mutant = tool.Mutant("tools/mutants.py", "", "a", "b")
    line = {"source": tool.digest(Path("tools/mutants.py").read_bytes()), "verdict": "killed", "by": by, "state": ""}
    assert tool.is_known(line, mutant, "another") == counts


SMALL = """LIMIT = 3


def capped(x):
    if x > LIMIT:
        return LIMIT
    return x + 0
"""
TESTS_OF_SMALL = """import functools

import small


@functools.cache
def remembered():
    return small.capped(2)


def test_memory():
    assert remembered() < 3


def test_above():
    assert small.capped(5) == 3


def test_below():
    assert small.capped(2) == 2


def test_that_always_fails():
    assert small.capped(1) == 2


def test_that_fails_behind_others():
    assert remembered.cache_info().currsize == 0
"""
TRIAL = """import json, sys
from pathlib import Path
from mutant_trials import Trials

plain = Path("small.py").read_text()
trials = Trials({"small.py": plain}, ["tests/test_small.py"], log=Path("log.txt"))
changes = json.loads(sys.argv[1])
print(json.dumps([trials.killer({"small.py": plain.replace(*change)}, "small") for change in changes]))
"""


def test_mutant_is_killed_by_a_test_that_passes_without_it_and_fails_alone(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "small.py").write_text(SMALL)
    (tmp_path / "tests/test_small.py").write_text(TESTS_OF_SMALL)
    changes = [("x + 0", "x - 1"), ("x > LIMIT", "x >= LIMIT"), ("LIMIT = 3", "LIMIT = 4")]
    command = [sys.executable, "-c", TRIAL, json.dumps(changes)]
    environment = {"PYTHONPATH": f"{ROOT / 'tools'}:{tmp_path}", "PATH": ""}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    below, above = (f"tests/test_small.py::test_{name}" for name in ("below", "above"))
    assert json.loads(done.stdout.splitlines()[-1]) == [[below, 2], ["", 3], [above, 1]]
