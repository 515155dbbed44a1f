"""Every engine: the same runs, the same numbers, failures named."""

import os
import signal
import threading
import time

import pytest

from small_runs import small_spec
from supple.methods.activations import UseAID
from supple_lab.runs.optimizer import SGD
from supple_lab.runs.store import Store
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.sweep.inline import Inline
from supple_lab.sweep.process import Process
from supple_lab.sweep.sweep import execute_all, failures, unfinished

ENGINES = [Inline, Process]


def records(store, specs):
    return [(store.folder(spec).path / "records.jsonl").read_bytes() for spec in specs]


def impossible_spec(seed=0):
    """More images than there are: raises inside the run."""
    return small_spec(seed=seed, num_images=5000)


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


def test_done_runs_are_skipped_and_failed_ones_only_retried_when_asked(tmp_path):
    store = Store.create(tmp_path)
    specs = [impossible_spec(), small_spec(), small_spec(seed=1)]
    execute_all(specs[:2], Inline(store, device="cpu", jobs=1))
    assert unfinished(store, specs, retry_failed=False) == [specs[2]]
    assert unfinished(store, specs, retry_failed=True) == [specs[0], specs[2]]


def test_killed_worker_is_replaced_and_its_run_resumed(tmp_path):
    spec = small_spec(num_stages=30, epochs=20)
    unbroken = Store.create(tmp_path / "unbroken")
    execute_all([spec], Inline(unbroken, device="cpu", jobs=1))
    store = Store.create(tmp_path / "broken")
    with Process(store, device="cpu", jobs=1) as engine:
        future = engine.submit(spec)
        while store.folder(spec).status().get("progress", 0.0) == 0.0:
            time.sleep(0.01)
        os.kill(store.folder(spec).status()["pid"], signal.SIGKILL)
        assert future.result() == "done"
    assert records(store, [spec]) == records(unbroken, [spec])


def test_run_that_keeps_killing_its_worker_is_given_up(tmp_path):
    spec = small_spec(num_stages=500, epochs=20)
    store = Store.create(tmp_path)
    killed = set()

    def assassin():
        while len(killed) < 3:
            status = store.folder(spec).status()
            if status.get("progress", 0.0) > 0.0 and status["pid"] not in killed:
                killed.add(status["pid"])
                os.kill(status["pid"], signal.SIGKILL)
            time.sleep(0.01)

    threading.Thread(target=assassin, daemon=True).start()
    (failure,) = execute_all([spec], Process(store, device="cpu", jobs=1))
    assert "signal 9" in failure.reason
    assert "3 times" in failure.reason
    assert store.folder(spec).state() == "interrupted"


def test_stopping_ends_the_workers(tmp_path):
    spec = small_spec(num_stages=500, epochs=20)
    store = Store.create(tmp_path)
    with Process(store, device="cpu", jobs=1) as engine:
        future = engine.submit(spec)
        while "pid" not in store.folder(spec).status():
            time.sleep(0.01)
        pid = store.folder(spec).status()["pid"]
    assert "tried 1 times" in str(future.exception(timeout=10))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("engine", ENGINES)
def test_run_held_by_another_process_is_busy_and_not_failed(tmp_path, engine):
    store = Store.create(tmp_path)
    folder = store.folder(small_spec())
    folder.create(small_spec())
    with folder.lock():
        (failure,) = execute_all([small_spec()], engine(store, device="cpu", jobs=1))
    assert failure.busy
    assert "worked on by another process" in failure.reason


def test_scenario_errors_name_the_field():
    with pytest.raises(ValueError, match="RandomLabel.epochs must be at least 1; got 0"):
        RandomLabel(epochs=0)
