"""Runs that something outside them ends: they are no failures, and go on in the same process or in a new one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from small_runs import logs_of, small_spec
from supple_lab.errors import Interrupted
from supple_lab.run import run, step
from supple_lab.run.run import execute
from supple_lab.store.store import Store
from supple_lab.sweep import sweep
from supple_lab.sweep.executor import Job, RunError, SweepOptions
from supple_lab.sweep.local import Inline, WatchedWorker, execute_persistently
from supple_lab.sweep.packed import Packed
from supple_lab.sweep.sweep import execute_all, newest_serial

EVERY_STEP = SweepOptions(checkpoint_seconds=0.0)
ILLEGAL_ACCESS = "CUDA error: an illegal memory access was encountered"
# After two stages of eight steps, every further step in the first process raises, as in a broken CUDA context.
BREAKS = f"""
import os, torch
from supple.methods import L2
from supple_lab.run import run
from supple_lab.run import step
original, steps, kind = step.training_step, [], getattr(torch, "AcceleratorError", RuntimeError)
def training_step(*arguments):
    steps.append(1)
    if len(steps) > 16:
        open(MARK, "w").close()
        raise kind("{ILLEGAL_ACCESS}\\nCUDA kernel errors might be reported later.")
    return original(*arguments)
if not os.path.exists(MARK):
    step.training_step = training_step
    run.gave_up_this_process = lambda device: len(steps) > 16
class Brought(L2):  # a plugin that brings nothing is refused
    name = "brought"
"""


def unbroken(folder, spec):
    store = Store.create(folder)
    assert execute(spec, store, checkpoint_seconds=EVERY_STEP.checkpoint_seconds) == "done"
    return store


def raising(monkeypatch, error, *, at_step, once=False):
    """Have the steps of this process raise, from that one on or only then."""
    original, steps = step.training_step, []

    def training_step(*arguments):
        steps.append(1)
        if len(steps) == at_step or (len(steps) > at_step and not once):
            raise error
        return original(*arguments)

    monkeypatch.setattr(step, "training_step", training_step)


@pytest.fixture
def workers(tmp_path):
    """Starts workers that import a file of ours; those that were started."""
    started = []

    def start(store, code):
        plugin = tmp_path / "breaks.py"
        plugin.write_text(code)
        if not started or not started[-1].is_alive():
            environment = {"SUPPLE_PLUGIN": str(plugin)}
            job = Job.of(Inline(store, device="cpu", jobs=1, options=EVERY_STEP))
            started.append(WatchedWorker(job, environment=environment))
        return started[-1]

    start.started = started
    yield start
    for worker in started:
        worker.close()


@pytest.mark.slow
def test_run_that_breaks_its_process_has_not_failed_and_goes_on_in_another(tmp_path, workers, monkeypatch):
    monkeypatch.setattr(sweep, "NUM_ATTEMPTS", 1)
    spec, alone = small_spec(), unbroken(tmp_path / "alone", small_spec())
    store, code = Store.create(tmp_path / "broken"), f"MARK = {str(tmp_path / 'mark')!r}{BREAKS}"
    with pytest.raises(RunError, match="exit code 1.* an illegal memory access was encountered. The run was tried 1"):
        execute_persistently(spec, store, worker=lambda: workers(store, code))
    assert store.folder(spec).state() == "interrupted"
    assert execute_persistently(spec, store, worker=lambda: workers(store, code)) == "done"
    assert [worker.is_alive() for worker in workers.started] == [False, True]
    assert logs_of(store, spec) == logs_of(alone, spec)
    # One a step: from zero again, there would have been more.
    assert newest_serial(store.folder(spec).path) == newest_serial(alone.folder(spec).path)


def test_threads_of_a_broken_process_take_no_further_runs_and_those_stay_resumable(tmp_path, monkeypatch):
    raising(monkeypatch, RuntimeError(ILLEGAL_ACCESS), at_step=5)
    monkeypatch.setattr(run, "gave_up_this_process", lambda device: True)
    specs = [small_spec(seed=seed) for seed in range(3)]
    store = Store.create(tmp_path)
    told = execute_all(specs, Packed(store, device="cpu", jobs=1))
    assert sorted(failure.spec.seed for failure in told) == [0, 1, 2]
    assert all("illegal memory access" in failure.reason for failure in told)
    assert all("in a new process, continues them" in failure.reason for failure in told)
    assert [store.folder(spec).state() for spec in specs] == ["interrupted", "waiting", "waiting"]


def test_error_that_leaves_the_device_as_it_was_fails_the_run_and_lets_the_others_go_on(tmp_path, monkeypatch):
    error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
    raising(monkeypatch, error, at_step=5, once=True)
    specs = [small_spec(seed=seed, num_stages=1) for seed in range(2)]
    store = Store.create(tmp_path)
    assert execute_all(specs, Packed(store, device="cpu", jobs=1)) == []
    assert [store.folder(spec).state() for spec in specs] == ["failed", "done"]
    assert store.folder(specs[0]).status()["reason"] == f"{type(error).__name__}: {error}"


# An index beyond the end: a device-side assertion, after which CUDA refuses all that the process asks. Or not so.
FAULT = """
import sys
from pathlib import Path
import torch
from small_runs import logs_of, small_spec
from supple.methods import Vanilla
from supple_lab.errors import BrokenProcess
from supple_lab.run.run import execute
from supple_lab.store.store import Store

class Fails(Vanilla):
    def after_step(self, learner, state):
        if sys.argv[2] == "harmless":
            torch.empty(2**60, device="cuda")
        torch.zeros(2, device="cuda")[torch.tensor([5], device="cuda")]

try:
    print(execute(small_spec(Fails()), Store.create(Path(sys.argv[1])), device="cuda"))
except BrokenProcess:
    print("broken")
"""


@pytest.mark.gpu
@pytest.mark.parametrize(("fault", "said"), [("assertion", "broken"), ("harmless", "failed")])
def test_a_gpu_that_gave_up_the_process_is_told_from_one_that_did_not(tmp_path, fault, said):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    command = [sys.executable, "-c", FAULT, str(tmp_path), fault]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert told.stdout.strip().splitlines()[-1:] == [said], told.stderr


@pytest.mark.parametrize("engine", [Inline, Packed])
def test_interrupted_run_is_tried_again_in_the_same_process(tmp_path, monkeypatch, engine):
    alone = unbroken(tmp_path / "alone", small_spec())
    raising(monkeypatch, Interrupted("its game was killed."), at_step=17, once=True)
    store = Store.create(tmp_path / "broken")
    assert execute_all([small_spec()], engine(store, device="cpu", jobs=1, options=EVERY_STEP)) == []
    assert logs_of(store, small_spec()) == logs_of(alone, small_spec())


def test_run_that_is_interrupted_at_every_attempt_is_given_up_and_has_not_failed(tmp_path, monkeypatch):
    raising(monkeypatch, Interrupted("its game was killed."), at_step=1)
    store = Store.create(tmp_path)
    (told,) = execute_all([small_spec()], Inline(store, device="cpu", jobs=1))
    assert told.reason == "its game was killed. The run was tried 5 times; it stays resumable."
    assert store.folder(small_spec()).state() == "interrupted"
