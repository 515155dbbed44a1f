"""tools/mutate.py: what is mutated, and that its lists still speak of the sources as they are."""

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tools"))  # where one tool finds another, as a script does

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
