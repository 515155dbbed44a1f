"""Several drivers on one store, dead ones among them: every run is done once, and whole."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from small_runs import small_spec
from supple_lab.run.recorder import CheckpointInterval
from supple_lab.run.run import execute
from supple_lab.store import lock
from supple_lab.store.lock import RunLock
from supple_lab.store.store import Store
from supple_lab.sweep import sweep
from supple_lab.sweep.executor import SweepOptions
from supple_lab.sweep.local import Inline
from supple_lab.sweep.sweep import execute_all

DRIVER = """
import sys
from pathlib import Path
from supple_lab.run.recorder import CheckpointInterval
from supple_lab.spec import RunSpec
from supple_lab.store.store import Store
from supple_lab.sweep.local import Process
from supple_lab.sweep.sweep import execute_all
from supple_lab.sweep.executor import SweepOptions
store = Store.create(Path(sys.argv[1]))
specs = [RunSpec.from_json(text) for text in sys.argv[2:]]
engine = Process(store, device="cpu", jobs=1, options=SweepOptions(interval=CheckpointInterval(seconds=0.2)))
failed = execute_all(specs, engine)
sys.exit(str(failed) if failed else 0)
"""

RUN = """
import sys
from pathlib import Path
from supple_lab.run.recorder import CheckpointInterval
from supple_lab.run.run import execute
from supple_lab.spec import RunSpec
from supple_lab.store.store import Store
execute(RunSpec.from_json(sys.argv[2]), Store.create(Path(sys.argv[1])), interval=CheckpointInterval(seconds=0.5))
"""
WITHOUT_LOCK = """
from types import SimpleNamespace
from supple_lab.store.lock import RunLock
RunLock.acquire = lambda folder: SimpleNamespace(check=lambda: None, release=lambda: None)
"""


def start_driver(store, specs):
    return subprocess.Popen([sys.executable, "-c", DRIVER, str(store.root), *(spec.to_json() for spec in specs)])


def contents(store, specs):
    names = ("records.jsonl", "epochs.jsonl")
    return [[(store.folder(spec).path / name).read_bytes() for name in names] for spec in specs]


def unbroken(folder, specs):
    store = Store.create(folder)
    assert execute_all(specs, Inline(store, device="cpu", jobs=1)) == []
    return contents(store, specs)


def test_two_drivers_end_well_and_give_the_numbers_of_one(tmp_path):
    specs = [small_spec(seed=seed, num_stages=6, epochs=10) for seed in range(4)]
    store = Store.create(tmp_path / "shared")
    drivers = [start_driver(store, specs), start_driver(store, specs[::-1])]
    assert [driver.wait() for driver in drivers] == [0, 0]
    assert contents(store, specs) == unbroken(tmp_path / "alone", specs)
    assert not list(tmp_path.rglob("lock"))


@pytest.mark.slow
def test_second_driver_takes_over_from_a_killed_one(tmp_path):
    spec = small_spec(num_stages=15, epochs=20)
    store = Store.create(tmp_path / "shared")
    first = start_driver(store, [spec])
    while not list(store.folder(spec).path.glob("checkpoint-*.pt")):
        time.sleep(0.01)
    second = start_driver(store, [spec])
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert second.wait() == 0
    assert contents(store, [spec]) == unbroken(tmp_path / "alone", [spec])


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
    expected = unbroken(tmp_path / "alone", [spec])
    store = Store.create(tmp_path / "shared")
    old = start_holder(store, spec)
    os.kill(old.pid, signal.SIGSTOP)
    options = SweepOptions(interval=CheckpointInterval(seconds=0.5))
    assert execute_all([spec], Inline(store, device="cpu", jobs=1, options=options)) == []
    os.kill(old.pid, signal.SIGCONT)
    assert b"was taken over by another process" in old.communicate()[1]
    assert contents(store, [spec]) == expected
    assert store.folder(spec).state() == "done"


def start_holder(store, spec):
    holder = start_run(store, spec)
    while store.folder(spec).status().get("progress", 0.0) == 0.0:
        time.sleep(0.005)
    return holder


def start_run(store, spec, *, first=""):
    command = [sys.executable, "-c", first + RUN, str(store.root), spec.to_json()]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


@pytest.mark.slow
def test_two_processes_that_run_a_run_at_once_leave_one_whole_run(tmp_path):
    """No lock is kept at all: the worst that can happen."""
    spec = small_spec(num_stages=6, epochs=6)
    store = Store.create(tmp_path / "shared")
    for twin in [start_run(store, spec, first=WITHOUT_LOCK) for _ in range(2)]:
        twin.communicate()
    assert execute(spec, store) == "done"  # continues what the two left
    assert contents(store, [spec]) == unbroken(tmp_path / "alone", [spec])
