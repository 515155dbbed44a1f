"""A run that is killed and continued equals a run that was not, bit for bit."""

import resource
import signal
import subprocess
import sys
import time

import pytest

from slowly import slow
from small_runs import (
    AT_EVERY_STEP,
    PERIODIC,
    SMALL_SCENARIOS,
    interrupted,
    logs_of,
    small_scenario_spec,
    small_spec,
    small_text_spec,
    unbroken_logs,
)
from supple.methods import Method
from supple_lab import registry
from supple_lab.files import StorageError
from supple_lab.run.run import execute
from supple_lab.scenarios.continual import ContinualFull
from supple_lab.spec import in_stages
from supple_lab.store import run_folder
from supple_lab.store.checkpoint import checkpoint_files
from supple_lab.store.store import Store

METHODS = registry.known(Method)
CHILD = """
import sys
from pathlib import Path
from supple_lab.run.run import execute
from supple_lab.spec import RunSpec
from supple_lab.store.store import Store
execute(RunSpec.from_json(sys.argv[2]), Store.create(Path(sys.argv[1])), checkpoint_seconds=0.0)
"""


def kill_in_the_middle(store, spec, *, after_checkpoint):
    """Start the run in a process of its own and kill -9 it once it has written that many checkpoints."""
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(store.root), spec.to_json()])
    folder = store.folder(spec).path
    while child.poll() is None:
        if any(path.name >= f"checkpoint-{after_checkpoint:06d}" for path in checkpoint_files(folder)):
            child.send_signal(signal.SIGKILL)
            child.wait()
        time.sleep(0.002)
    assert child.returncode == -signal.SIGKILL


@pytest.mark.parametrize("name", [pytest.param("aid", marks=pytest.mark.slow), "cbp"])
def test_killed_and_resumed_run_equals_unbroken_run(tmp_path, name):
    spec = small_spec(in_stages(METHODS[name]), num_stages=6, epochs=10)
    expected = unbroken_logs(tmp_path / "unbroken", spec)
    store = Store.create(tmp_path / "broken")
    kill_in_the_middle(store, spec, after_checkpoint=23)
    assert store.folder(spec).state() == "interrupted"
    assert len(store.folder(spec).stage_log.read()) < 6
    assert execute(spec, store, checkpoint_seconds=AT_EVERY_STEP) == "done"
    assert logs_of(store, spec) == expected


def assert_resumes(tmp_path, spec, *, at_step):
    """Interrupted there and continued, the run writes the very same records."""
    store = interrupted(tmp_path / "broken", spec, at_step=at_step)
    assert execute(spec, store) == "done"
    assert logs_of(store, spec) == unbroken_logs(tmp_path / "unbroken", spec)
    assert not store.folder(spec).set_aside()  # the checkpoint was gone on from


def is_quick(method) -> bool:
    """Whether it acts in a training; of those that are but an activation, one speaks for all."""
    return bool(type(method).acts_in()) or method.name == "aid"


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(
            method,
            marks=() if is_quick(method) else pytest.mark.slow,
            id=f"{method.name}{'_every' * (method in PERIODIC)}",
        )
        for method in [*(in_stages(cls) for cls in METHODS.values()), *PERIODIC]
    ],
)
def test_every_method_resumes_in_the_middle_of_an_epoch(tmp_path, method):
    spec = small_spec(method, num_stages=4, epochs=4)
    assert_resumes(tmp_path, spec, at_step=41)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("cbp", "redo", "s_ewc", "trac") else pytest.mark.slow)
        for name, cls in METHODS.items()
        if cls.acts_in()
    ],
)
def test_every_method_resumes_where_each_stage_has_a_new_optimizer(tmp_path, name):
    spec = small_scenario_spec(ContinualFull(num_stages=4, epochs=2, batch_size=64), in_stages(METHODS[name]))
    assert_resumes(tmp_path, spec, at_step=21)


@pytest.mark.parametrize("scenario", SMALL_SCENARIOS, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("share", [0.6, *map(slow, (0.0, 0.3, 0.99))])
def test_every_scenario_resumes_anywhere(tmp_path, scenario, share):
    spec = small_scenario_spec(scenario, METHODS["cbp"]())
    facts = spec.problem.dataset.facts
    num_steps = sum(scenario.size(index, facts).num_steps for index in range(scenario.num_stages))
    assert_resumes(tmp_path, spec, at_step=max(1, int(share * num_steps)))


@pytest.mark.parametrize(("name", "change"), [("aid", "vocabulary"), ("cbp", "package")])
def test_language_model_resumes_in_the_middle_of_an_epoch(tmp_path, name, change):
    assert_resumes(tmp_path, small_text_spec(in_stages(METHODS[name]), change=change), at_step=7)  # of 12


@pytest.mark.parametrize("at_step", [4, 8, 12, 20])
def test_run_resumes_from_every_kind_of_boundary(tmp_path, at_step):
    assert_resumes(tmp_path, small_spec(), at_step=at_step)


def test_run_begun_on_another_kind_of_device_is_not_continued(tmp_path, monkeypatch):
    spec = small_spec()
    store = interrupted(tmp_path, spec, at_step=9)
    original = run_folder.read_checkpoint
    monkeypatch.setattr(run_folder, "read_checkpoint", lambda *a: original(*a) | {"device": "cuda"})
    with pytest.raises(StorageError, match="begun on cuda .* --device cuda"):
        execute(spec, store)


def test_full_disk_stops_the_run_with_a_sentence_and_loses_nothing(tmp_path):
    spec = small_spec()
    expected = unbroken_logs(tmp_path / "unbroken", spec)
    store = interrupted(tmp_path / "broken", spec, at_step=12)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))  # every checkpoint is larger than this
    try:
        with pytest.raises(StorageError, match="no space left .*same command again"):
            execute(spec, store, checkpoint_seconds=AT_EVERY_STEP)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(store.folder(spec).path.glob(".*.part"))
    assert execute(spec, store) == "done"
    assert logs_of(store, spec) == expected


def altered(log):
    place = log.index(b'"train_accuracy": 0.') + len(b'"train_accuracy": 0.')
    digit = b"7" if log[place : place + 1] != b"7" else b"8"
    return log[:place] + digit + log[place + 1 :]


def one_of_two(log):
    return log.split(b"\n")[0] + b"\n"


@pytest.mark.parametrize("change", [altered, one_of_two])
def test_checkpoint_that_stands_on_other_records_is_passed_over(tmp_path, change):
    spec = small_spec()
    store = interrupted(tmp_path / "broken", spec, at_step=20)
    log = store.folder(spec).stage_log.path
    log.write_bytes(change(log.read_bytes()))
    assert execute(spec, store) == "done"
    assert logs_of(store, spec) == unbroken_logs(tmp_path / "unbroken", spec)
