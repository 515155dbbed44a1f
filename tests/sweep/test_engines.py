"""Engines that need nothing installed: the same runs, the same numbers, failures named. See test_ray and test_slurm."""

import os
import re
import signal
import threading
import time

import pytest

from small_runs import small_spec
from supple.methods.activations import UseAID
from supple_lab.runs.journal import Pace
from supple_lab.runs.optimizer import SGD
from supple_lab.runs.run import execute
from supple_lab.runs.store import Store
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.sweep import watched_worker
from supple_lab.sweep.inline import Inline
from supple_lab.sweep.packed import Packed
from supple_lab.sweep.process import Process, visible_gpus
from supple_lab.sweep.sweep import execute_all, failures, unfinished
from supple_lab.sweep.terms import Terms

ENGINES = [Inline, Packed, Process]
LONG = small_spec(num_stages=500, epochs=20)
EVERY_STAGE = Terms(pace=Pace(seconds=1e9, stages=1))


def records(store, specs):
    return [(store.folder(spec).path / "records.jsonl").read_bytes() for spec in specs]


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
        assert execute_all(specs, engine(store, device="cpu", jobs=2)) == []
        results.append(records(store, specs))
    assert results[0] == results[1]


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


def test_killed_worker_is_replaced_and_its_run_resumed(tmp_path):
    spec = small_spec(num_stages=12, epochs=20)
    unbroken = Store.create(tmp_path / "unbroken")
    execute_all([spec], Inline(unbroken, device="cpu", jobs=1))
    store = Store.create(tmp_path / "broken")
    with Process(store, device="cpu", jobs=1, terms=EVERY_STAGE) as engine:
        future = engine.submit(spec)
        while len(store.folder(spec).records()) < 5:
            time.sleep(0.01)
        os.kill(store.folder(spec).status()["pid"], signal.SIGKILL)
        assert future.result() == "done"
    assert records(store, [spec]) == records(unbroken, [spec])


def test_run_that_keeps_killing_its_worker_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(watched_worker, "NUM_ATTEMPTS", 2)
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


def test_stopping_ends_the_workers(tmp_path):
    store = Store.create(tmp_path)
    with Process(store, device="cpu", jobs=1) as engine:
        future = engine.submit(LONG)
        pid = pid_at_work(store, LONG)
    assert "tried 1 times" in str(future.exception(timeout=10))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_cancelled_runs_are_given_up_and_the_next_is_executed(tmp_path):
    store = Store.create(tmp_path)
    with Process(store, device="cpu", jobs=1) as engine:
        first, second, third = engine.submit_all([LONG, impossible_spec(), small_spec()])
        pid_at_work(store, LONG)
        assert engine.cancel(second)
        assert engine.cancel(first)
        assert third.result() == "done"
        assert "stays resumable" in str(first.exception())
        assert second.cancelled()
    assert store.folder(LONG).state() == "interrupted"
    assert store.folder(impossible_spec()).state() == "waiting"


def test_hanging_run_has_failed_by_its_time_limit_and_a_retry_continues_it(tmp_path):
    spec = small_spec(num_stages=30, epochs=10)
    store = Store.create(tmp_path)
    threading.Thread(target=stop_when_it_begins, args=(store, spec), daemon=True).start()
    terms = Terms(time_limit=6.0, pace=Pace(seconds=0.5))
    assert execute_all([spec], Process(store, device="cpu", jobs=1, terms=terms)) == []
    (failure,) = failures(store, [spec])
    assert failure.reason.startswith("time limit: the run took more than 0.1 minutes")
    assert unfinished(store, [spec], retry_failed=True) == [spec]
    assert execute(spec, store) == "done"


def test_run_over_its_memory_limit_has_failed(tmp_path):
    store = Store.create(tmp_path)
    terms = Terms(memory_limit=2**26)  # 64 MiB: torch alone takes more
    assert execute_all([small_spec()], Process(store, device="cpu", jobs=1, terms=terms)) == []
    (failure,) = failures(store, [small_spec()])
    assert re.match(r"memory limit: the run's process took \d.\d\d GiB, more than 0.0625 GiB", failure.reason)


def test_gpus_are_those_this_process_may_use(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    assert visible_gpus() == ["3", "1"]


def test_scenario_errors_name_the_field():
    with pytest.raises(ValueError, match="RandomLabel.epochs must be at least 1; got 0"):
        RandomLabel(epochs=0)
