"""What a sweep says while it goes."""

import pytest
from rich.console import Console

from small_runs import small_spec
from supple.methods import UseAID
from supple_lab.run.run import execute
from supple_lab.store.lock import RunLock
from supple_lab.store.store import Store
from supple_lab.sweep import view
from supple_lab.sweep.view import LiveTable, PlainLines, look_at

SPECS = [small_spec(UseAID()), small_spec(seed=3), small_spec(num_images=5000)]


@pytest.fixture
def store(tmp_path):
    store = Store.create(tmp_path)
    for spec in SPECS:
        store.folder(spec).create(spec)
    return store


def test_runs_that_end_are_told_once_in_plain_lines(store, capsys):
    lines = PlainLines(store, SPECS)
    for spec in (SPECS[0], SPECS[2]):
        execute(spec, store)
        lines.show(lines.look())
        lines.show(lines.look())
    told = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in told] == ["aid", "vanilla"]
    online = store.folder(SPECS[0]).epoch_log.read()[-1]["online_accuracy"]
    assert told[0] == f"aid, seed 0: done, online accuracy {online:.3f} in its last epoch"
    assert told[1] == "vanilla, seed 0: failed"


def test_plain_summary_has_counts_and_time_left(store, capsys, monkeypatch):
    monkeypatch.setattr(view, "SECONDS_BETWEEN_LINES", 0.0)
    lines = PlainLines(store, SPECS)
    execute(SPECS[0], store)
    lines.show(lines.look())
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("3 runs: 2 waiting, 1 done; 33%, about ")


def test_plain_summary_has_stage_and_accuracy_of_the_runs_at_work(store, capsys, monkeypatch):
    monkeypatch.setattr(view, "SECONDS_BETWEEN_LINES", 0.0)
    lines, held = PlainLines(store, SPECS), []
    store.folder(SPECS[2]).write_status("running", progress=0.2, stage=19, accuracy=0.9)  # nobody holds it: interrupted
    for spec, stage, accuracy, told in (
        (SPECS[0], 9, 0.5, "; stage 10; online accuracy 0.500\n"),
        (SPECS[1], 1, 0.25, "; stage 2 to 10; online accuracy 0.250 to 0.500\n"),
    ):
        held.append(RunLock.acquire(store.folder(spec).path))
        store.folder(spec).write_status("running", progress=0.2, stage=stage, accuracy=accuracy)
        lines.show(lines.look())
        assert capsys.readouterr().out.endswith(told)
    for lock in held:
        lock.release()


def test_failed_run_that_is_retried_counts_as_work_to_do(store, capsys):
    execute(SPECS[2], store)
    lines = PlainLines(store, [SPECS[2]])
    lines.show(lines.look())
    assert capsys.readouterr().out == ""  # it failed before this sweep
    execute(SPECS[2], store)
    lines.show(lines.look())
    assert capsys.readouterr().out == "vanilla, seed 0: failed\n"


def test_table_shows_the_runs_at_work_first_and_counts_the_rest(store, monkeypatch):
    monkeypatch.setattr(view, "MAX_ROWS", 2)
    held = RunLock.acquire(store.folder(SPECS[1]).path)
    store.folder(SPECS[1]).write_status("running", progress=0.2, stage=3, seconds=300.0, accuracy=0.5)
    table = LiveTable(store, SPECS)
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table.table(table.look()))
    lines = console.export_text().splitlines()
    held.release()
    assert lines[0].rstrip().endswith("  online accuracy")
    assert lines[1].split()[:5] == ["vanilla,", "seed", "3", "running", "4"]
    assert "20%" in lines[1]
    assert "20 min" in lines[1]
    assert "and 1 more" in lines[3]
    assert "3 runs: 1 running, 2 waiting; 7%" in lines[4]


def test_run_whose_process_died_is_interrupted_and_not_running(store):
    store.folder(SPECS[1]).write_status("running", progress=0.2)
    assert look_at(store, SPECS[1]).state == "interrupted"
