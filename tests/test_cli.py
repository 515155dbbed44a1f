"""The command line as a stranger meets it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from supple_lab import registry
from supple_lab.cli import supple
from supple_lab.paper.quickstart import Quickstart
from supple_lab.paper.study import StudyOptions

SMOKE = ["run", "quickstart", "--scale", "smoke", "--engine", "inline"]


def exit_code(*arguments: str) -> int:
    """The exit code, whether our own or the argument parser's."""
    try:
        return supple(list(arguments))
    except SystemExit as end:
        return int(end.code or 0)


@pytest.fixture(scope="module")
def smoke_folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("out with spaces")
    assert exit_code(*SMOKE, "--out", str(out)) == 0
    return out


def test_run_leaves_page_figures_tables_and_json(smoke_folder):
    names = {path.name for path in (smoke_folder / "report").iterdir()}
    assert {"index.html", "quickstart.html", "quickstart.json", "quickstart.png", "quickstart.pdf"} <= names
    assert "quickstart_first_and_last.md" in names


def test_study_json_keeps_its_promise(smoke_folder):
    content = json.loads((smoke_folder / "report" / "quickstart.json").read_text())
    promised = "study scale command commit versions machine runs series claims missing"
    assert set(promised.split()) <= set(content)
    done = {(run["method"], run["status"]) for run in content["runs"]}
    assert done == {("vanilla", "done"), ("dropout", "done"), ("aid", "done")}
    accuracies = [row for row in content["series"] if row["metric"] == "train_accuracy"]
    assert len(accuracies) == 3 * 2
    assert content["missing"] == []


def test_same_command_again_runs_nothing(smoke_folder):
    stamps = {path: path.stat().st_mtime_ns for path in smoke_folder.glob("runs/*/records.jsonl")}
    assert exit_code(*SMOKE, "--out", str(smoke_folder)) == 0
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps


def test_report_is_made_from_the_folder_alone(smoke_folder, capsys):
    page = smoke_folder / "report" / "index.html"
    page.unlink()
    assert exit_code("report", str(smoke_folder)) == 0
    assert page.exists()
    assert str(page) in capsys.readouterr().out


def test_runs_are_listed_with_their_state(smoke_folder, capsys):
    assert exit_code("list", "runs", "--out", str(smoke_folder)) == 0
    assert capsys.readouterr().out.count("done") == 3


def test_method_named_twice_is_run_and_counted_once():
    assert len(Quickstart().specs(StudyOptions(scale="smoke", methods=("aid", "aid")))) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "quickstart", "--engine", "prosess"], "no engine named 'prosess'. Did you mean 'process'?"),
        (["run", "quickstart", "--jobs", "0"], "--jobs must be at least 1; got 0."),
        (["list", "runs"], "needs the folder of the runs: --out DIR."),
        (["report", "quickstart", "--out", "nowhere"], "nowhere does not exist, so it holds no runs."),
        (["run", "--seeds", "3"], "supple: STUDY must be given. Name of the study;"),
        (["arena", "--problems", "--scale", "smoke"], "supple: --problems takes one value or more; got none."),
        (["data", "chek", "mnist"], "supple: check|get must be one of check, get; got 'chek'."),
        (["run", "quickstart", "--seed", "3"], "--seeds"),
        (["run", "--stud", "quickstart"], "supple: no option named '--stud'. Known: --help, --plugin, --scale,"),
        (
            ["run", "--methods", "aid", "relu", "quickstart"],
            "--methods takes all words after it, so quickstart is read as a method. Put the study first: supple run",
        ),
        (
            ["list", "--state=done", "--out", "out"],
            "--out is for the runs of a folder: supple list runs --out DIR; got all.",
        ),
        (["play", "--rules.game", "Pong"], "supple: no option named '--rules.game'. Known: "),
        (["train", "--method", "a\nb"], "supple: no method named 'a\\nb'."),
    ],
)
def test_bad_usage_is_answered_with_exit_code_2_and_a_sentence(arguments, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert exit_code(*arguments) == 2
    assert sentence in (said := capsys.readouterr().err)
    assert said.count("\n") == 1  # and nothing besides
    assert not list(tmp_path.iterdir())  # nothing was written


def test_without_a_command_the_commands_are_shown(capsys):
    assert exit_code() == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {command} " in shown for command in ("run", "train", "play", "report", "list", "bench", "data"))


@pytest.mark.parametrize("command", ["run", "train", "play", "report", "arena", "list", "bench", "data"])
def test_help_of_a_command_names_its_options_and_what_must_be_given(command, capsys):
    assert exit_code(command, "-h") == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: supple {command} ")
    kinds = registry.entries("command")[command].fields
    assert all(f"\n  --{kind.replace('_', '-')} " in shown for kind in kinds if kind != "rules")
    assert ("[KIND]" in shown) == (command == "list")  # the one word that may be left out


@pytest.mark.parametrize(
    ("line", "again"), [(["bench", "kernels"], "starts over"), (["train", "--device", "cpu"], "continues")]
)
def test_ctrl_c_is_answered_with_what_the_same_command_does(line, again, capsys, monkeypatch):
    def interrupted(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("supple_lab.cli.command_of", interrupted)
    monkeypatch.setattr("supple_lab.cli.COMPUTING_THREAD", "none")  # another test's may go on, and would end us
    assert exit_code(*line) == 1
    assert capsys.readouterr().err == f"supple: interrupted; the same command {again}.\n"


@pytest.mark.slow
def test_killed_study_continues_and_ends_with_the_same_numbers(tmp_path, smoke_folder):
    out = tmp_path / "killed"
    supple_script = str(Path(sys.executable).parent / "supple")
    command = [supple_script, "run", "quickstart", "--scale", "smoke", "--engine", "process", "--out", str(out)]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    while not list(out.glob("runs/*/status.json")):
        time.sleep(0.01)
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "page: " in again.stdout
    for path in smoke_folder.glob("runs/*/records.jsonl"):
        assert (out / "runs" / path.parent.name / "records.jsonl").read_bytes() == path.read_bytes()
