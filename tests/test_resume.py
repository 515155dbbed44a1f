"""A run that is killed and continued equals a run that was not, bit for bit."""

import os
import resource
import signal
import subprocess
import sys
import time

import pytest

from small_runs import small_spec
from supple.methods.base import Method
from supple_lab import lookup
from supple_lab.atomic_write import StorageError
from supple_lab.runs.checkpoint import checkpoint_files
from supple_lab.runs.run import execute
from supple_lab.runs.store import Store

CHECKPOINT_AT_EVERY_EPOCH = 0.0
METHODS = lookup.known(Method)
CHILD = """
import sys
from pathlib import Path
from supple_lab.runs.run import execute
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.store import Store
execute(RunSpec.from_json(sys.argv[2]), Store.create(Path(sys.argv[1])), checkpoint_seconds=0.0)
"""


def unbroken_records(folder, spec):
    store = Store.create(folder)
    assert execute(spec, store) == "done"
    return (store.folder(spec).path / "records.jsonl").read_bytes()


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


@pytest.mark.parametrize("name", ["aid", "cbp"])
def test_killed_and_resumed_run_equals_unbroken_run(tmp_path, name):
    spec = small_spec(METHODS[name](), num_stages=6, epochs=10)
    expected = unbroken_records(tmp_path / "unbroken", spec)
    store = Store.create(tmp_path / "broken")
    kill_in_the_middle(store, spec, after_checkpoint=23)
    assert store.folder(spec).state() == "interrupted"
    assert len(store.folder(spec).records()) < 6
    assert execute(spec, store, checkpoint_seconds=CHECKPOINT_AT_EVERY_EPOCH) == "done"
    assert (store.folder(spec).path / "records.jsonl").read_bytes() == expected


def interrupted_store(root, spec, *, at_epoch, monkeypatch):
    """A store whose run stopped after that many epochs."""
    from supple_lab.runs import supervised

    original, epochs_left = supervised.train_epoch, iter(range(at_epoch))

    def epoch(*arguments, **options):
        if next(epochs_left, None) is None:
            raise KeyboardInterrupt
        return original(*arguments, **options)

    monkeypatch.setattr(supervised, "train_epoch", epoch)
    store = Store.create(root)
    with pytest.raises(KeyboardInterrupt):
        execute(spec, store, checkpoint_seconds=CHECKPOINT_AT_EVERY_EPOCH)
    monkeypatch.setattr(supervised, "train_epoch", original)
    return store


@pytest.mark.parametrize("name", METHODS)
def test_every_method_resumes_in_the_middle_of_a_stage(tmp_path, monkeypatch, name):
    spec = small_spec(METHODS[name](), num_stages=4, epochs=6)
    expected = unbroken_records(tmp_path / "unbroken", spec)
    store = interrupted_store(tmp_path / "broken", spec, at_epoch=15, monkeypatch=monkeypatch)
    assert execute(spec, store) == "done"
    assert (store.folder(spec).path / "records.jsonl").read_bytes() == expected


@pytest.mark.parametrize("at_epoch", [1, 2, 3, 5])
def test_run_resumes_from_every_kind_of_boundary(tmp_path, monkeypatch, at_epoch):
    spec = small_spec()
    expected = unbroken_records(tmp_path / "unbroken", spec)
    store = interrupted_store(tmp_path / "broken", spec, at_epoch=at_epoch, monkeypatch=monkeypatch)
    assert execute(spec, store) == "done"
    assert (store.folder(spec).path / "records.jsonl").read_bytes() == expected


def test_resumed_run_does_not_start_from_zero(tmp_path, monkeypatch):
    spec = small_spec()
    store = interrupted_store(tmp_path, spec, at_epoch=5, monkeypatch=monkeypatch)
    from supple_lab.runs import supervised

    original, epochs = supervised.train_epoch, []
    monkeypatch.setattr(supervised, "train_epoch", lambda *a, **k: epochs.append(1) or original(*a, **k))
    execute(spec, store)
    assert len(epochs) == 1


@pytest.mark.parametrize("num_damaged", [1, 2])
def test_truncated_checkpoint_is_set_aside_and_the_result_is_the_same(tmp_path, monkeypatch, num_damaged):
    spec = small_spec()
    expected = unbroken_records(tmp_path / "unbroken", spec)
    store = interrupted_store(tmp_path / "broken", spec, at_epoch=4, monkeypatch=monkeypatch)
    folder = store.folder(spec).path
    for path in checkpoint_files(folder)[-num_damaged:]:
        os.truncate(path, path.stat().st_size // 2)
    assert execute(spec, store) == "done"
    assert (folder / "records.jsonl").read_bytes() == expected
    assert len(list(folder.glob("*.damaged"))) == num_damaged


def test_full_disk_stops_the_run_with_a_sentence_and_loses_nothing(tmp_path, monkeypatch):
    spec = small_spec()
    expected = unbroken_records(tmp_path / "unbroken", spec)
    store = interrupted_store(tmp_path / "broken", spec, at_epoch=3, monkeypatch=monkeypatch)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))  # every checkpoint is larger than this
    try:
        with pytest.raises(StorageError, match="no space left .*same command continues"):
            execute(spec, store, checkpoint_seconds=CHECKPOINT_AT_EVERY_EPOCH)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(store.folder(spec).path.glob(".*.part"))
    assert execute(spec, store) == "done"
    assert (store.folder(spec).path / "records.jsonl").read_bytes() == expected


def test_checkpoint_that_stands_on_lost_records_is_passed_over(tmp_path, monkeypatch):
    spec = small_spec()
    expected = unbroken_records(tmp_path / "unbroken", spec)
    store = interrupted_store(tmp_path / "broken", spec, at_epoch=5, monkeypatch=monkeypatch)
    folder = store.folder(spec)
    (folder.path / "records.jsonl").write_bytes(expected.split(b"\n")[0] + b"\n")  # one of two
    assert execute(spec, store) == "done"
    assert (folder.path / "records.jsonl").read_bytes() == expected
