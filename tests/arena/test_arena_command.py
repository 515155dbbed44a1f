"""supple arena, end to end at smoke scale: tuned, scored, resumed, cut off, with a stranger's file, beside others."""

import itertools
import json
import subprocess
import sys

import pytest

from supple_lab import cli
from supple_lab.arena import published as published_module
from supple_lab.arena.published import from_json, to_json
from supple_lab.run.run import execute

SMOKE = ["arena", "--scale", "smoke", "--device", "cpu", "--engine", "inline", "--jobs", "1"]
SMOKE += ["--problems", "random_labels"]
MINE = """
from dataclasses import dataclass
from supple.methods.l2 import L2
from supple_lab.arena.spaces import LogUniform

@dataclass(frozen=True, kw_only=True)
class Mine(L2):
    "A stranger's decay."
    name = "mine"
    space = {"strength": LogUniform(1e-4, 1e-2)}
"""


@pytest.fixture(autouse=True)
def no_plugin(monkeypatch):
    monkeypatch.delenv("SUPPLE_PLUGIN", raising=False)


def test_two_methods_are_tuned_scored_and_not_run_twice(tmp_path, capsys, monkeypatch):
    line = [*SMOKE, "--methods", "aid", "l2_init+redo", "--out", str(tmp_path)]
    assert cli.supple(line) == 0
    printed = capsys.readouterr().out
    assert "16 runs: 4 entries, 1 problems, 2 draws and 2 seeds each" in printed
    assert "4 of 4: random_labels, " in printed
    board = from_json((tmp_path / "report" / "arena.json").read_text())
    assert [one.entry for one in board.results] == ["full_reset", "vanilla", "aid", "l2_init+redo"]
    for result in board.results:
        best = max(range(2), key=lambda index: result.draws[index].tuning_score)
        assert result.chosen == best
        assert len(result.seeds) == 2
        assert {run.id for run in (*result.draws, *result.seeds)} <= {
            path.name for path in (tmp_path / "runs").iterdir()
        }
    assert from_json(to_json(board)) == board

    page = (tmp_path / "report" / "arena.html").read_text()
    assert all(run.id in page for result in board.results for run in (*result.draws, *result.seeds))
    assert "The numbers mean nothing" in page

    def refuse(*args, **named):
        raise AssertionError("a finished run was run again")

    monkeypatch.setattr("supple_lab.sweep.executor.execute", refuse)
    assert cli.supple(line) == 0


def test_what_is_interrupted_goes_on_and_ends_as_what_was_not(tmp_path, monkeypatch):
    lines = [[*SMOKE, "--methods", "redo", "--quiet", "--out", str(tmp_path / name)] for name in ("whole", "cut")]
    assert cli.supple(lines[0]) == 0
    calls = itertools.count(1)

    def interrupted(*args, **named):
        if next(calls) == 6:  # the reference's four runs are done, vanilla's are not
            raise KeyboardInterrupt
        return execute(*args, **named)

    with monkeypatch.context() as patch:
        patch.setattr("supple_lab.sweep.executor.execute", interrupted)
        assert cli.supple(lines[1]) == 1
    assert [one.entry for one in results_in(tmp_path / "cut")] == ["full_reset"]
    assert cli.supple(lines[1]) == 0
    whole, cut = ([scores_in(one) for one in results_in(tmp_path / name)] for name in ("whole", "cut"))
    assert len(whole) == 3
    assert cut == whole


def scores_in(result):
    return result.entry, result.chosen, [(run.id, run.score) for run in (*result.draws, *result.seeds)]


def results_in(out):
    return from_json((out / "report" / "arena.json").read_text()).results


def test_a_strangers_file_is_run_alone_and_placed_among_the_published(tmp_path, capsys, monkeypatch):
    assert cli.supple([*SMOKE, "--methods", "aid", "--out", str(tmp_path / "theirs"), "--quiet"]) == 0
    theirs = (tmp_path / "theirs" / "report" / "arena.json").read_text()
    (tmp_path / "published").mkdir()
    (tmp_path / "published" / "smoke.json").write_text(theirs)
    monkeypatch.setattr(published_module, "FOLDER", tmp_path / "published")
    (tmp_path / "mine.py").write_text(MINE)
    line = [*SMOKE, "--plugin", tmp_path / "mine.py", "--out", tmp_path / "mine"]
    done = subprocess.run(
        [sys.executable, "-c", PUBLISHED_THERE.format(tmp_path / "published"), *line],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "4 runs: 1 entries" in done.stdout
    assert "This machine repeats the published runs: 4 of 4 are equal" in done.stdout
    for name in ("mine", "aid", "vanilla", "full_reset"):
        assert f"\n{name} " in done.stdout
    own = json.loads((tmp_path / "mine" / "report" / "arena.json").read_text())
    assert [one["entry"] for one in own["contests"]] == ["mine"]
    assert all(1e-4 <= setting["mine.strength"] <= 1e-2 for setting in own["contests"][0]["settings"])


PUBLISHED_THERE = (
    "import sys, pathlib; from supple_lab.arena import published; published.FOLDER = pathlib.Path('{}')\n"
    "from supple_lab.entry import main; main()"
)
