"""supple arena, end to end at smoke scale: tuned, scored, resumed, cut off, with a stranger's file, beside others."""

import itertools
import json
import shutil
import subprocess
import sys

import pytest

from supple_lab import cli
from supple_lab.arena.contest import ArenaRun, ContestResult
from supple_lab.arena.entries import Entry
from supple_lab.arena.published import from_json, made_here, merged, to_json
from supple_lab.commands.arena import Arena
from supple_lab.errors import UserError
from supple_lab.registry import UnknownName
from supple_lab.run.run import execute
from supple_lab.store.lock import RunIsBusy

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
    assert "16 runs: 4 entries, 1 problem, 2 draws and 2 seeds each" in printed
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


def test_runs_that_another_process_is_at_work_on_are_waited_for(tmp_path, monkeypatch):
    """The same command twice at once: each takes what the other has not, and both end with all of it."""
    lines = [[*SMOKE, "--methods", "l2", "--quiet", "--out", str(tmp_path / name)] for name in ("alone", "shared")]
    assert cli.supple(lines[0]) == 0
    calls = itertools.count()

    def held_elsewhere(*args, **named):
        state = execute(*args, **named)
        if next(calls) % 3 == 0:
            raise RunIsBusy("another process was faster")
        return state

    monkeypatch.setattr("supple_lab.sweep.executor.execute", held_elsewhere)
    assert cli.supple(lines[1]) == 0
    alone, shared = ([scores_in(one) for one in results_in(tmp_path / name)] for name in ("alone", "shared"))
    assert shared == alone


def test_a_method_that_was_mended_is_said_to_need_another_try(tmp_path, capsys, monkeypatch):
    line = [*SMOKE, "--methods", "l2", "--quiet", "--out", str(tmp_path)]
    with monkeypatch.context() as patch:
        patch.setattr("supple.methods.l2.L2.after_backward", None)
        assert cli.supple(line) == 1
    assert "\nfailed: l2" in capsys.readouterr().err
    assert cli.supple(line) == 1
    said = capsys.readouterr().err
    assert "failed before, not tried again: l2" in said
    assert "2 runs were not tried again after failing before; --retry-failed tries them." in said
    assert cli.supple([*line, "--retry-failed"]) == 0


def test_an_entry_that_diverges_in_every_draw_is_said_to_have_no_place(tmp_path, capsys, monkeypatch):
    def blow_up(self, learner, state):
        for parameter in learner.own_parameters().values():
            parameter.detach().fill_(float("nan"))

    monkeypatch.setattr("supple.methods.l2.L2.after_backward", blow_up)
    assert cli.supple([*SMOKE, "--methods", "l2", "--quiet", "--out", str(tmp_path)]) == 0
    said = "l2 has no place on random_labels: each of its draws diverged or failed."
    assert said in (shown := capsys.readouterr()).out + shown.err
    assert said in (tmp_path / "report" / "arena.html").read_text()
    assert [one.entry for one in results_in(tmp_path)] == ["full_reset", "vanilla"]


def test_time_that_is_up_leaves_whole_contests_and_the_same_command_goes_on(tmp_path, capsys, monkeypatch):
    line = [*SMOKE, "--methods", "redo", "--out", str(tmp_path)]
    runs, clock = itertools.count(1), itertools.count()

    def counted(*args, **named):
        next(runs)
        return execute(*args, **named)

    monkeypatch.setattr("supple_lab.sweep.executor.execute", counted)
    with monkeypatch.context() as patch:
        patch.setattr("supple_lab.arena.contest.time.monotonic", lambda: 10.0 * next(clock))
        assert cli.supple([*line, "--minutes", "0.5"]) == 0  # three looks at the clock
    assert "Time is up: " in capsys.readouterr().out
    assert next(runs) < 12
    assert cli.supple(line) == 0
    assert len(results_in(tmp_path)) == 3
    assert next(runs) == 12 + 2  # each run once, and two looks at the counter


def scores_in(result):
    return result.entry, result.chosen, [(run.id, run.score) for run in (*result.draws, *result.seeds)]


def results_in(out):
    return from_json((out / "report" / "arena.json").read_text()).results


def test_a_strangers_file_is_run_alone_and_placed_among_the_published(tmp_path):
    assert cli.supple([*SMOKE, "--methods", "aid", "--out", str(tmp_path / "theirs"), "--quiet"]) == 0
    done = run_mine(tmp_path, *SMOKE)
    assert "4 runs: 1 entry, 1 problem, " in done.stdout
    assert "This machine repeats the published runs: 4 of 4 are equal" in done.stdout
    assert "besides" not in done.stdout
    for name in ("mine", "aid", "vanilla", "full_reset"):
        assert f"\n{name} " in done.stdout
    own = json.loads((tmp_path / "mine" / "report" / "arena.json").read_text())
    (contest,) = own["parts"][0]["contests"]
    assert contest["entry"] == "mine"
    assert all(1e-4 <= setting["mine.strength"] <= 1e-2 for setting in contest["settings"])


@pytest.mark.slow
def test_on_a_problem_that_is_not_published_the_reference_is_run_besides(tmp_path):
    assert cli.supple([*SMOKE, "--methods", "aid", "--out", str(tmp_path / "theirs"), "--quiet"]) == 0
    done = run_mine(tmp_path, *SMOKE, "label_noise")
    said = "Not published: label_noise; full_reset and vanilla are run there besides"
    assert done.stdout.index(said) < done.stdout.index("16 runs: 3 entries, 2 problems")
    own = [(one.problem, one.entry) for one in results_in(tmp_path / "mine")]
    besides = [("label_noise", name) for name in ("full_reset", "vanilla")]
    assert own == [*besides, ("random_labels", "mine"), ("label_noise", "mine")]
    page = (tmp_path / "mine" / "report" / "arena.html").read_text()
    for shown in (done.stdout, page):
        assert "Mean ranks are without label_noise" in shown
        assert "not on all problems" not in shown  # aid is on all that count


def test_what_is_missing_is_what_no_published_run_has(tmp_path, monkeypatch):
    theirs = tmp_path / "theirs"
    assert cli.supple([*SMOKE, "--methods", "aid", "--out", str(theirs), "--quiet"]) == 0
    board = from_json((theirs / "report" / "arena.json").read_text())
    monkeypatch.setattr("supple_lab.commands.arena.published", lambda scale: board)
    monkeypatch.setattr("supple_lab.commands.arena.every_entry", lambda: [Entry("vanilla"), Entry("aid"), Entry("l2")])
    assert cli.supple([*SMOKE, "--methods", "missing", "--out", str(tmp_path / "new"), "--quiet"]) == 0
    new = from_json((tmp_path / "new" / "report" / "arena.json").read_text())
    assert [one.entry for one in new.results] == ["l2"]
    both = merged(board, new)
    assert [one.entry for one in both.results] == ["full_reset", "vanilla", "aid", "l2"]
    assert merged(both, new).results == both.results


def test_runs_of_problems_that_are_not_asked_for_are_not_repeated(tmp_path, capsys, monkeypatch):
    assert cli.supple([*SMOKE, "--methods", "vanilla", "--out", str(tmp_path / "theirs"), "--quiet"]) == 0
    board = from_json((tmp_path / "theirs/report/arena.json").read_text())
    monkeypatch.setattr("supple_lab.commands.arena.published", lambda scale: board)
    for problems, number in ((("label_noise",), 12), (("label_noise", "random_labels"), 20)):  # 4 repeated, l2 4
        out = tmp_path / problems[-1]
        assert cli.supple([*SMOKE[:-1], *problems, "--methods", "l2", "--out", str(out), "--quiet"]) == 0
        assert len(list((out / "runs").iterdir())) == number
        assert ("This machine repeats the published runs: 4 of 4" in capsys.readouterr().out) == (number == 20)


@pytest.mark.slow
def test_an_entry_on_one_problem_of_several_has_no_mean_rank(tmp_path):
    both = [*SMOKE, "label_noise"]
    assert cli.supple([*both, "--methods", "aid", "--out", str(tmp_path / "theirs"), "--quiet"]) == 0
    done = run_mine(tmp_path, *SMOKE)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("mine "))
    assert line.split()[1] == "–"
    page = (tmp_path / "mine" / "report" / "arena.html").read_text()
    assert "– not on all problems" in done.stdout
    assert "mean rank: not on all problems" in page


def run_mine(folder, *line):
    """A plugin's method, in a process in which the runs in theirs are the published ones."""
    (folder / "published").mkdir()
    shutil.copy(folder / "theirs" / "report" / "arena.json", folder / "published" / "smoke.json")
    (folder / "mine.py").write_text(MINE)
    code = PUBLISHED_THERE.format(folder / "published")
    line = [sys.executable, "-c", code, *line, "--plugin", folder / "mine.py", "--out", folder / "mine"]
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return done


PUBLISHED_THERE = (
    "import sys, pathlib; from supple_lab.arena import published; published.FOLDER = pathlib.Path('{}')\n"
    "from supple_lab.entry import main; main()"
)


def test_smoke_scale_and_a_reference_that_learned_nothing_are_said(tmp_path, capsys):
    run = ArenaRun(id="0" * 16, state="done", score=(0.1, 0.1), train=0.1, seconds=1.0)
    entered = ((problem, entry) for problem in ("random_labels", "label_noise") for entry in ("full_reset", "vanilla"))
    made = [
        ContestResult(problem=problem, entry=entry, settings=({},), chosen=0, draws=(run,), seeds=(learned,) * 2)
        for problem, entry in entered
        for learned in [run._replace(score=(0.1, 0.9 if problem == "random_labels" else 0.1))]
    ]
    said = "Mean ranks are without label_noise: full_reset learned nothing, so cells are blank."
    for results, ranked in ((made, True), (made[2:], False)):
        Arena(scale="smoke", out=tmp_path).show(made_here("smoke", results, machine="a machine"), results, run_here=())
        told, page = capsys.readouterr().out, (tmp_path / "report" / "arena.html").read_text()
        assert "1 a fresh network tuned alike. Smoke scale: the numbers mean nothing.\n" in told
        assert said in told
        assert said in page
        assert ("vanilla     1.5" in told) == ranked
        assert "not on all problems" not in told + page


@pytest.mark.parametrize(
    ("options", "told"),
    [({"minutes": minutes}, "--minutes must be above 0") for minutes in (0.0, -1.0, float("nan"))]
    + [({"jobs": 0}, "--jobs must be at least 1"), ({"engine": "slurm"}, "the engine slurm needs")],
)
def test_a_limit_or_an_engine_that_is_none_is_refused_before_anything_is_written(options, told, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")  # no sbatch
    with pytest.raises(UserError, match=told):
        Arena(methods=("aid",), scale="smoke", device="cpu", out=tmp_path / "out", **options).run()
    assert not (tmp_path / "out").exists()


def test_a_problem_that_is_none_is_refused_when_standings_are_shown_too(tmp_path):
    with pytest.raises(UnknownName, match="no problem of the arena named 'random_label'. Did you mean 'random_labels'"):
        Arena(problems=("random_label",), out=tmp_path).run()
