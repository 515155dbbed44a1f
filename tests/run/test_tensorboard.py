"""What TensorBoard is told of a run: every record once, however often it was interrupted, and no number changes."""

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from small_runs import interrupted, logs_of, small_spec
from supple_lab.cli import supple
from supple_lab.run import recorder
from supple_lab.run.recorder import Tracker
from supple_lab.run.run import execute
from supple_lab.store.store import Store
from supple_lab.sweep.executor import SweepOptions
from supple_lab.sweep.local import Inline, Process

SPEC = small_spec()  # 3 stages of 2 epochs, 4 steps each
TRACKED = SweepOptions(track=("tensorboard",))


def curves(folder):
    """Every curve that TensorBoard shows of the run, as (step, value)."""
    events = EventAccumulator(str(folder.path / "tensorboard"), size_guidance={"scalars": 0}).Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def assert_shows_every_record_once(folder):
    """Tags are the records' values but for their places, points are the records in order, in single precision."""
    logs = {"stage": folder.stage_log.read(), "epoch": folder.epoch_log.read()}
    expected = {
        f"{kind}/{name}": [(place, pytest.approx(record[name], rel=2**-23)) for place, record in enumerate(log)]
        for kind, log in logs.items()
        for name in log[0]
        if name not in ("stage", "epoch")
    }
    assert curves(folder) == expected


def test_event_files_hold_every_record_and_the_records_are_those_of_an_untracked_run(tmp_path):
    tracked, alone = Store.create(tmp_path / "tracked"), Store.create(tmp_path / "alone")
    assert execute(SPEC, tracked, track=("tensorboard",)) == execute(SPEC, alone) == "done"
    assert_shows_every_record_once(tracked.folder(SPEC))
    assert logs_of(tracked, SPEC) == logs_of(alone, SPEC)
    assert not (alone.folder(SPEC).path / "tensorboard").exists()
    assert "notes" not in tracked.folder(SPEC).status()


def test_resumed_run_shows_each_step_once(tmp_path):
    for at_step in (13, 6):  # the first in the second epoch of stage 1
        store = interrupted(tmp_path, SPEC, at_step=at_step, track=("tensorboard",))
    assert execute(SPEC, store, track=("tensorboard",)) == "done"
    assert_shows_every_record_once(store.folder(SPEC))


def test_board_that_is_open_while_the_run_is_resumed_forgets_what_is_computed_again(tmp_path):
    never = 1e9  # no checkpoint: all is done again
    store = interrupted(tmp_path, SPEC, at_step=13, checkpoint_seconds=never, track=("tensorboard",))
    board = EventAccumulator(str(store.folder(SPEC).path / "tensorboard")).Reload()
    assert [event.step for event in board.Scalars("epoch/online_loss")] == [0, 1, 2]
    assert execute(SPEC, store, track=("tensorboard",)) == "done"
    assert [event.step for event in board.Reload().Scalars("epoch/online_loss")] == [0, 1, 2, 3, 4, 5]


def test_tracker_that_is_asked_for_half_way_is_told_the_beginning(tmp_path):
    store = interrupted(tmp_path, SPEC, at_step=13)
    assert execute(SPEC, store, track=("tensorboard",)) == "done"
    assert_shows_every_record_once(store.folder(SPEC))


@pytest.mark.parametrize("engine", [Inline, pytest.param(Process, marks=pytest.mark.slow)])
def test_engine_carries_the_trackers_to_its_runs(tmp_path, engine):
    with engine(Store.create(tmp_path), device="cpu", jobs=1, options=TRACKED) as executor:
        assert executor.submit(SPEC).result() == "done"
        assert_shows_every_record_once(executor.store.folder(SPEC))


def test_tracker_that_cannot_begin_leaves_a_note_and_the_run_goes_on(tmp_path, capsys):
    command = ["train", "--scenario.num-stages", "1", "--scenario.epochs", "1", "--model.width", "16"]
    command += ["--quiet", "--out"]
    assert supple([*command, str(tmp_path / "alone")]) == 0
    (run,) = (tmp_path / "alone" / "runs").iterdir()
    blocked = tmp_path / "blocked" / "runs" / run.name
    blocked.mkdir(parents=True)
    (blocked / "tensorboard").write_text("a file where the folder should be")
    capsys.readouterr()
    assert supple([*command, str(tmp_path / "blocked"), "--track", "tensorboard"]) == 0
    assert "note: in 1 run: tensorboard failed and was called no more: FileExistsError" in capsys.readouterr().err
    assert (blocked / "records.jsonl").read_bytes() == (run / "records.jsonl").read_bytes()


class Forgetful(Tracker):
    """Fails at the second record, as a service does that goes away."""

    name = "forgetful"
    num_calls = 0

    def __init__(self, folder, spec):
        pass

    def record(self, kind, values):
        Forgetful.num_calls += 1
        if Forgetful.num_calls > 1:
            raise ConnectionError("gone")

    def close(self):
        raise AssertionError("told after it had failed")


def test_tracker_that_fails_half_way_is_told_no_more_and_others_are(tmp_path):
    store = Store.create(tmp_path)
    assert execute(SPEC, store, track=("forgetful", "tensorboard")) == "done"
    assert store.folder(SPEC).status()["notes"] == ["forgetful failed and was called no more: ConnectionError: gone"]
    assert Forgetful.num_calls == 2
    assert_shows_every_record_once(store.folder(SPEC))


@pytest.mark.parametrize(
    "command", [["run", "quickstart", "--scale", "smoke"], ["train", "--scenario", "random_label"]]
)
def test_tracker_that_is_not_there_is_refused_before_anything_is_written(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert supple([*command, "--track", "tensorbord"]) == 2
    assert "no tracker named 'tensorbord'. Did you mean 'tensorboard'?" in capsys.readouterr().err
    monkeypatch.setattr(recorder, "find_spec", lambda name: None)
    assert supple([*command, "--track", "tensorboard"]) == 2
    assert "pip install -e '.[tensorboard]' in a checkout" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
