"""Several drivers on one store, dead ones among them: every run is done once, and whole."""

import os
import signal
import threading
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest

from forked import ended, forked
from small_runs import logs_of, small_spec, unbroken_logs
from supple_lab.files import StorageError
from supple_lab.run.run import execute
from supple_lab.store import lock
from supple_lab.store.checkpoint import write_checkpoint
from supple_lab.store.lock import RunIsBusy, RunLock
from supple_lab.store.store import Store
from supple_lab.sweep import sweep
from supple_lab.sweep.executor import SweepOptions
from supple_lab.sweep.local import Inline, Process
from supple_lab.sweep.sweep import execute_all

OPTIONS = SweepOptions(checkpoint_seconds=0.2)


def start_driver(store, specs):
    def drive():
        assert execute_all(specs, Process(store, device="cpu", jobs=1, options=OPTIONS)) == []

    return forked(drive, store.root / "said.txt")


def test_two_drivers_end_well_and_give_the_numbers_of_one(tmp_path):
    specs = [small_spec(seed=seed, num_stages=6, epochs=10) for seed in range(4)]
    store = Store.create(tmp_path / "shared")
    drivers = [start_driver(store, specs), start_driver(store, specs[::-1])]
    assert [ended(driver) for driver in drivers] == [0, 0]
    assert all(logs_of(store, spec) == unbroken_logs(tmp_path / "alone", spec) for spec in specs)
    assert not list(tmp_path.rglob("lock"))


def test_second_driver_takes_over_from_a_killed_one(tmp_path):
    spec = small_spec(num_stages=15, epochs=20)
    store = Store.create(tmp_path / "shared")
    first = start_driver(store, [spec])
    while not list(store.folder(spec).path.glob("checkpoint-*.pt")):
        time.sleep(0.01)
    second = start_driver(store, [spec])
    os.kill(first, signal.SIGKILL)
    assert ended(first) == -signal.SIGKILL
    assert ended(second) == 0
    assert logs_of(store, spec) == unbroken_logs(tmp_path / "alone", spec)


def test_run_held_elsewhere_is_waited_for_and_not_executed_again(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "SECONDS_BETWEEN_LOOKS", 0.01)
    spec = small_spec()
    store = Store.create(tmp_path)
    store.folder(spec).create(spec)
    held = RunLock.acquire(store.folder(spec).path)
    failed: list = []
    driver = threading.Thread(target=lambda: failed.extend(execute_all([spec], Inline(store, device="cpu", jobs=1))))
    driver.start()
    driver.join(0.3)
    assert driver.is_alive()
    assert store.folder(spec).state() == "waiting"
    held.release()
    driver.join()
    assert failed == []
    assert store.folder(spec).state() == "done"


def test_run_whose_lock_the_disk_refuses_to_break_is_told_and_hinders_no_other(tmp_path, monkeypatch):
    def refuse(watch):
        raise StorageError("the disk refused.")

    monkeypatch.setattr(lock.LockWatch, "broke", refuse)
    store, busy, free = Store.create(tmp_path), small_spec(), small_spec(seed=1)
    store.folder(busy).create(busy)
    held = RunLock.acquire(store.folder(busy).path)
    (failure,) = execute_all([busy, free], Inline(store, device="cpu", jobs=1))
    held.release()
    assert (failure.spec, failure.reason) == (busy, "the disk refused.")
    assert store.folder(free).state() == "done"


def test_failed_run_that_another_held_for_a_moment_is_retried_when_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "SECONDS_BETWEEN_LOOKS", 0.01)
    spec = small_spec()
    store = Store.create(tmp_path)
    store.folder(spec).create(spec)
    store.folder(spec).write_status("failed", reason="planted")
    held = RunLock.acquire(store.folder(spec).path)
    threading.Timer(0.3, held.release).start()
    assert execute_all([spec], Inline(store, device="cpu", jobs=1, options=SweepOptions(retry_failed=True))) == []
    assert store.folder(spec).state() == "done"


def test_run_of_a_silent_machine_is_taken_over_and_the_old_holder_stops_writing(tmp_path, monkeypatch):
    """The old holder hangs for longer than its lock lives, in the middle of a run, and then wakes up."""
    monkeypatch.setattr(sweep, "SECONDS_BETWEEN_LOOKS", 0.01)
    monkeypatch.setattr(lock, "SECONDS_BETWEEN_BEATS", 1e9)
    monkeypatch.setattr(lock, "SECONDS_TO_DEATH", 0.2)
    spec = small_spec(num_stages=12, epochs=20)
    expected = unbroken_logs(tmp_path / "alone", spec)
    store = Store.create(tmp_path / "shared")
    old = start_holder(store, spec)
    os.kill(old, signal.SIGSTOP)
    options = SweepOptions(checkpoint_seconds=0.5)
    assert execute_all([spec], Inline(store, device="cpu", jobs=1, options=options)) == []
    os.kill(old, signal.SIGCONT)
    assert ended(old) == 3
    assert "was taken over by another process" in (store.root / "said.txt").read_text()
    assert logs_of(store, spec) == expected
    assert store.folder(spec).state() == "done"


WRITES = {
    "records": lambda folder: folder.stage_log.append({"stage": 1}),
    "kept records": lambda folder: folder.stage_log.keep(0),
    "status": lambda folder: folder.write_status("running", progress=0.1),
    "checkpoint": lambda folder: write_checkpoint(folder.path, {"whose": "old"}, check=folder.check_lock),
}


@pytest.mark.parametrize("hangs", ["before", "after"])
@pytest.mark.parametrize("write", WRITES)
def test_holder_that_hangs_within_a_write_changes_nothing_once_it_was_taken_over(tmp_path, monkeypatch, write, hangs):
    """The worst moments to be taken over in: right before and right after the last look at the lock."""
    spec = small_spec()
    store = Store.create(tmp_path)
    old, new = store.folder(spec), store.folder(spec)
    look = RunLock.check

    def look_and_hang(held):
        monkeypatch.undo()
        if hangs == "after":
            look(held)
        (old.path / lock.NAME).unlink()
        with new.held(spec):
            new.stage_log.keep(0)
            for stage in range(3):
                new.stage_log.append({"stage": stage})
            write_checkpoint(new.path, {"whose": "new"}, check=new.check_lock)
            new.write_status("running", progress=0.9)
        files.update((path, path.read_bytes()) for path in old.path.iterdir())
        if hangs == "before":
            look(held)

    files = {}
    with old.held(spec):
        old.stage_log.keep(0)
        old.stage_log.append({"stage": 0})
        monkeypatch.setattr(RunLock, "check", look_and_hang)
        with suppress(RunIsBusy):
            WRITES[write](old)
        with pytest.raises(RunIsBusy, match="was taken over"):
            WRITES[write](old)
    assert files == {path: path.read_bytes() for path in old.path.iterdir()}


def start_holder(store, spec):
    holder = start_run(store, spec)
    while store.folder(spec).status().get("progress", 0.0) == 0.0:
        time.sleep(0.005)
    return holder


def start_run(store, spec, *, is_locked=True):
    def work():
        if not is_locked:
            RunLock.acquire = lambda folder: SimpleNamespace(check=lambda: None, release=lambda: None)
        execute(spec, store, checkpoint_seconds=0.5)

    return forked(work, store.root / "said.txt")


def test_two_processes_that_run_a_run_at_once_leave_one_whole_run(tmp_path):
    """No lock is kept at all: the worst that can happen."""
    spec = small_spec(num_stages=6, epochs=6)
    store = Store.create(tmp_path / "shared")
    for twin in [start_run(store, spec, is_locked=False) for _ in range(2)]:
        ended(twin)
    assert execute(spec, store) == "done"  # continues what the two left
    assert logs_of(store, spec) == unbroken_logs(tmp_path / "alone", spec)
