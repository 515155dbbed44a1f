"""Engines that need nothing installed: the same runs, the same numbers, failures named. See test_ray and test_slurm."""

import mmap
import os
import re
import signal
import sys
import threading
import time
from dataclasses import replace

import pytest
import torch

from small_runs import logs_of, small_spec
from supple.methods import UseAID
from supple_lab.models.mlp import MLP
from supple_lab.optimizer import SGD
from supple_lab.run.run import execute, own_threads
from supple_lab.store.store import Store
from supple_lab.sweep import local, sweep
from supple_lab.sweep.executor import SweepOptions
from supple_lab.sweep.local import Inline, Process, fail, own_bytes
from supple_lab.sweep.packed import Packed
from supple_lab.sweep.sweep import execute_all, failures, newest_serial, unfinished

ENGINES = [Inline, Packed, Process]
LONG = small_spec(num_stages=500, epochs=20)
EVERY_STEP = SweepOptions(checkpoint_seconds=0.0)


def impossible_spec(seed=0):
    """More images than there are: raises inside the run."""
    return small_spec(seed=seed, num_images=5000)


def pid_at_work(store, spec):
    """The process that executes the run, once it has got somewhere."""
    while store.folder(spec).status().get("progress", 0.0) == 0.0:
        time.sleep(0.01)
    return store.folder(spec).status()["pid"]


def stop_when_it_begins(store, spec):
    """Have the run hang: its process is there, and does nothing."""
    while "pid" not in store.folder(spec).status():
        time.sleep(0.01)
    os.kill(store.folder(spec).status()["pid"], signal.SIGSTOP)


def test_all_engines_give_the_same_numbers(tmp_path):
    specs = [small_spec(UseAID(), seed=seed) for seed in range(4)]
    results = []
    for engine in ENGINES:
        store = Store.create(tmp_path / engine.name)
        jobs = (
            1 if engine is Process else 2
        )  # each process of its own imports torch; forked ones are two in other tests
        assert execute_all(specs, engine(store, device="cpu", jobs=jobs)) == []
        results.append([logs_of(store, spec) for spec in specs])
    assert results[0] == results[1] == results[2]


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize("engine", ENGINES)
def test_failed_and_diverged_runs_do_not_hinder_the_others(tmp_path, engine):
    store = Store.create(tmp_path)
    diverging = small_spec(optimizer=SGD(learning_rate=1e30))
    specs = [impossible_spec(), diverging, small_spec()]
    assert execute_all(specs, engine(store, device="cpu", jobs=2)) == []
    assert [store.folder(spec).state() for spec in specs] == ["failed", "diverged", "done"]
    (failure,) = failures(store, specs)
    assert failure.spec == specs[0]
    assert "RandomLabel.num_images is 5000, but the dataset has 1600" in failure.reason
    assert failure.traceback == ""  # the user's to mend: a sentence says how


def test_done_runs_are_skipped_and_failed_ones_only_retried_when_asked(tmp_path):
    store = Store.create(tmp_path)
    specs = [impossible_spec(), small_spec(), small_spec(seed=1)]
    execute_all(specs[:2], Inline(store, device="cpu", jobs=1))
    assert unfinished(store, specs, retry_failed=False) == [specs[2]]
    assert unfinished(store, specs, retry_failed=True) == [specs[0], specs[2]]


@pytest.mark.usefixtures("forked_workers")
def test_killed_worker_is_replaced_and_its_run_resumed(tmp_path):
    spec = small_spec(num_stages=12, epochs=6)
    unbroken = Store.create(tmp_path / "unbroken")
    execute_all([spec], Inline(unbroken, device="cpu", jobs=1, options=EVERY_STEP))
    store = Store.create(tmp_path / "broken")
    with Process(store, device="cpu", jobs=1, options=EVERY_STEP) as engine:
        future = engine.submit(spec)
        while len(store.folder(spec).stage_log.read()) < 5:
            time.sleep(0.01)
        os.kill(store.folder(spec).status()["pid"], signal.SIGKILL)
        assert future.result() == "done"
    assert logs_of(store, spec) == logs_of(unbroken, spec)
    # Checkpoints are numbered, one a step: from zero again, there would have been more.
    assert newest_serial(store.folder(spec).path) == newest_serial(unbroken.folder(spec).path)


@pytest.mark.usefixtures("forked_workers")
def test_run_that_keeps_killing_its_worker_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "NUM_ATTEMPTS", 2)
    store = Store.create(tmp_path)
    killed = set()

    def assassin():
        while len(killed) < 2:
            status = store.folder(LONG).status()
            if status.get("progress", 0.0) > 0.0 and status["pid"] not in killed:
                killed.add(status["pid"])
                os.kill(status["pid"], signal.SIGKILL)
            time.sleep(0.01)

    threading.Thread(target=assassin, daemon=True).start()
    (failure,) = execute_all([LONG], Process(store, device="cpu", jobs=1))
    assert "signal 9" in failure.reason
    assert "2 times" in failure.reason
    assert store.folder(LONG).state() == "interrupted"


@pytest.mark.usefixtures("forked_workers")
def test_stopping_ends_the_workers(tmp_path):
    store = Store.create(tmp_path)
    with Process(store, device="cpu", jobs=1) as engine:
        future = engine.submit(LONG)
        pid = pid_at_work(store, LONG)
    assert "tried 1 times" in str(future.exception(timeout=10))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.slow
@pytest.mark.usefixtures("forked_workers")
def test_hanging_run_has_failed_by_its_time_limit_and_a_retry_continues_it(tmp_path):
    spec = small_spec(num_stages=30, epochs=10)
    store = Store.create(tmp_path)
    threading.Thread(target=stop_when_it_begins, args=(store, spec), daemon=True).start()
    options = SweepOptions(time_limit=3.0, checkpoint_seconds=0.5)
    assert execute_all([spec], Process(store, device="cpu", jobs=1, options=options)) == []
    (failure,) = failures(store, [spec])
    assert failure.reason.startswith("time limit: the run took more than 0.05 minutes")
    assert unfinished(store, [spec], retry_failed=True) == [spec]
    assert execute(spec, store) == "done"


@pytest.mark.slow
def test_run_over_its_memory_limit_has_failed_and_the_next_is_done(tmp_path):
    store = Store.create(tmp_path)
    # Weights, their first values, gradients and two moments of 6,500^2 floats: 0.8 GiB. A small run takes 0.5 in all.
    specs = [replace(small_spec(), model=MLP(width=6500, num_hidden=2)), small_spec()]
    assert execute_all(specs, Process(store, device="cpu", jobs=1, options=SweepOptions(memory_limit=2**30))) == []
    assert [store.folder(spec).state() for spec in specs] == ["failed", "done"]
    (failure,) = failures(store, specs)
    assert re.match(r"memory limit: the run's process took \d+.\d\d GiB, more than 1 GiB", failure.reason)


def test_mapped_files_are_no_memory_of_the_process_and_its_own_pages_are(tmp_path):
    size = 2**26
    path = tmp_path / "frames"
    path.touch()
    os.truncate(path, size)
    before = own_bytes(os.getpid())
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        assert sum(mapped[:: mmap.PAGESIZE]) == 0  # every page is resident now
        assert own_bytes(os.getpid()) - before < size / 2
    # Fresh pages, whatever the heap has kept of memory that was freed.
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as own:
        own[:: mmap.PAGESIZE] = b"1" * (size // mmap.PAGESIZE)
        assert own_bytes(os.getpid()) - before > size / 2


def test_run_that_was_done_when_its_limit_was_reached_stays_done(tmp_path):
    store = Store.create(tmp_path)
    assert execute(small_spec(), store) == "done"
    assert fail(store, small_spec(), "time limit") == "done"
    assert store.folder(small_spec()).state() == "done"


@pytest.mark.usefixtures("forked_workers")
def test_dead_workers_leave_no_descriptors_open(tmp_path):
    def num_open():
        return len(os.listdir("/proc/self/fd"))

    before, counts = num_open(), []
    with Process(Store.create(tmp_path), device="cpu", jobs=1) as engine:
        for _ in range(3):
            engine._worker().kill()
            counts.append(num_open())
    assert counts[0] == counts[1] == counts[2]
    assert num_open() == before


def test_packed_runs_are_as_many_as_one_gpu_is_to_have_and_it_is_said_that_others_idle(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert Packed.default_jobs(100, device="cuda", options=SweepOptions(per_gpu=3)) == 3
    assert Process.default_jobs(100, device="cuda", options=SweepOptions(per_gpu=3)) == 12
    Packed(Store.create(tmp_path), device="cuda", jobs=0)
    assert "one GPU, and this machine has 4" in capsys.readouterr().err


def test_worker_that_hangs_before_its_first_run_is_ended_and_said_so(tmp_path, monkeypatch):
    hanging = tmp_path / "hanging"
    hanging.write_text("#!/bin/sh\necho waiting for the disk >&2\nexec sleep 1000\n")
    hanging.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(hanging))
    monkeypatch.setattr(local, "SECONDS_TO_START", 0.6)
    store = Store.create(tmp_path / "out")
    (failure,) = execute_all([small_spec()], Process(store, device="cpu", jobs=1))
    assert failure.reason.startswith("the worker process was not ready after 0.01 minutes, and was ended. waiting for")
    assert store.folder(small_spec()).state() == "waiting"


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize("engine", ENGINES)
def test_run_that_failed_since_the_start_is_not_executed_again_unless_retries_were_asked_for(tmp_path, engine):
    """As a second driver does, which made its list of runs before the first came to this one."""
    store = Store.create(tmp_path)
    store.folder(small_spec()).create(small_spec())
    store.folder(small_spec()).write_status("failed", reason="planted")
    assert execute_all([small_spec()], engine(store, device="cpu", jobs=1)) == []
    assert [failure.reason for failure in failures(store, [small_spec()])] == ["planted"]
    retrying = engine(store, device="cpu", jobs=1, options=SweepOptions(retry_failed=True))
    assert execute_all([small_spec()], retrying) == []
    assert store.folder(small_spec()).state() == "done"


def test_run_that_ends_does_not_change_the_threads_of_another_in_its_process():
    began, ended, counts = threading.Event(), threading.Event(), []

    def first():
        with own_threads():
            began.set()
            ended.wait()
            counts.append(torch.get_num_threads())

    def second():
        began.wait()
        torch.set_num_threads(2)
        with own_threads():
            pass
        counts.append(torch.get_num_threads())
        ended.set()

    threads = [threading.Thread(target=work) for work in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [2, 1]
