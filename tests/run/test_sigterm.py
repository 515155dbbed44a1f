"""SIGTERM, as SLURM and Kubernetes send it: a checkpoint is written and said, and the same command continues."""

import os
import signal
import subprocess
import sys
import time

import pytest

from small_runs import small_spec
from supple_lab import errors
from supple_lab.errors import ENDING, Terminated
from supple_lab.run import step
from supple_lab.run.run import execute
from supple_lab.store.checkpoint import checkpoint_files
from supple_lab.store.store import Store
from supple_lab.sweep.local import Process
from supple_lab.sweep.packed import Packed

SPEC = small_spec(num_stages=200, epochs=20)
LINE = (
    "--scenario.num-stages 200 --scenario.epochs 20 --scenario.num-images 128 --scenario.batch-size 32 "
    "--model.width 16 --model.num-hidden 2 --optimizer.learning-rate 2e-3 --checkpoint-seconds 1000 --quiet --out"
)


@pytest.fixture(autouse=True)
def _as_it_was():
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGALRM)}
    yield
    signal.alarm(0)
    ENDING.clear()
    for number, handler in handlers.items():
        signal.signal(number, handler)


def terminate_at(number, monkeypatch):
    """Have this process send itself SIGTERM in the middle of a step; the steps that were taken."""
    original, steps = step.training_step, []

    def stepping(*arguments):
        steps.append(1)
        if len(steps) == number:
            os.kill(os.getpid(), signal.SIGTERM)
        return original(*arguments)

    monkeypatch.setattr(step, "training_step", stepping)
    return steps


def test_run_writes_a_checkpoint_and_goes_on_from_there(tmp_path, monkeypatch):
    spec = small_spec()
    assert execute(spec, Store.create(tmp_path / "alone")) == "done"
    errors.heed_sigterm_()
    steps, store = terminate_at(10, monkeypatch), Store.create(tmp_path / "ended")
    with pytest.raises(Terminated, match=f"terminated; run {spec.run_id} wrote a checkpoint"):
        execute(spec, store)
    assert len(checkpoint_files(store.folder(spec).path)) == 1
    assert store.folder(spec).state() == "interrupted"
    ENDING.clear()
    assert execute(spec, store) == "done"
    assert len(steps) == 24
    alone = Store.open(tmp_path / "alone")
    assert store.folder(spec).stage_log.path.read_bytes() == alone.folder(spec).stage_log.path.read_bytes()


def test_second_signal_does_not_wait_for_the_checkpoint(tmp_path, monkeypatch):
    errors.heed_sigterm_()

    def hanging(*_):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)

    monkeypatch.setattr(step, "training_step", hanging)
    with pytest.raises(Terminated):
        execute(small_spec(), Store.create(tmp_path))


def test_run_that_comes_to_no_checkpoint_in_time_ends_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(errors, "SECONDS_TO_CHECKPOINT", 1)
    errors.heed_sigterm_()
    monkeypatch.setattr(step, "training_step", lambda *_: os.kill(os.getpid(), signal.SIGTERM) or time.sleep(60))
    started = time.monotonic()
    with pytest.raises(Terminated, match="terminated"):
        execute(small_spec(), Store.create(tmp_path))
    assert time.monotonic() - started < 30


def test_packed_runs_write_checkpoints_before_the_process_ends(tmp_path):
    specs, store = [SPEC, small_spec(num_stages=200, epochs=20, seed=1)], Store.create(tmp_path)
    engine = Packed(store, device="cpu", jobs=2)
    futures = engine.submit_all(specs)
    while any(not store.folder(spec).stage_log.read() for spec in specs):
        time.sleep(0.01)
    ENDING.set()  # as the handler does, which then raises in the main thread
    engine.stop()
    assert [type(future.exception(timeout=0)) for future in futures] == [Terminated, Terminated]
    assert all(checkpoint_files(store.folder(spec).path) for spec in specs)


@pytest.mark.slow
def test_workers_write_checkpoints_before_a_terminated_driver_ends(tmp_path):
    store = Store.create(tmp_path)
    with Process(store, device="cpu", jobs=1) as engine:
        engine.submit(SPEC)
        while not store.folder(SPEC).status().get("progress"):
            time.sleep(0.01)
        ENDING.set()
    assert checkpoint_files(store.folder(SPEC).path)
    assert store.folder(SPEC).state() == "interrupted"


@pytest.mark.slow
def test_train_says_that_it_wrote_a_checkpoint_and_exits_as_by_ctrl_c(tmp_path):
    code = "from supple_lab.entry import main; main()"
    command = [sys.executable, "-c", code, "train", *LINE.split(), str(tmp_path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    folder = Store.create(tmp_path).folder(SPEC)
    while not folder.status().get("progress"):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    said = process.communicate()[1]
    assert f"supple: terminated; run {SPEC.run_id} wrote a checkpoint; the same command continues." in said
    assert process.returncode == 1
    assert checkpoint_files(folder.path)
