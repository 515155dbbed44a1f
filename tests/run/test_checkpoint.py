"""Checkpoints: whole or known not to be, read without executing code, as often as they may take time."""

import errno
import os
import pickle

import pytest
import torch

from small_games import chain_spec
from supple_lab.files import StorageError, WrongContent
from supple_lab.run import recorder
from supple_lab.run.recorder import MAX_SHARE_OF_TIME, Journal
from supple_lab.store.checkpoint import checkpoint_files, read_checkpoint, write_checkpoint
from supple_lab.store.run_folder import RunFolder
from supple_lab.store.store import Store

CPU = torch.device("cpu")


def content(value: float) -> dict:
    return {"weights": torch.full((5,), value), "cursor": {"stage": 1}}


def test_a_process_that_takes_the_run_while_another_creates_it_is_no_error_of_the_disk(tmp_path, monkeypatch):
    store, spec, fsync, calls = Store.create(tmp_path), chain_spec(), os.fsync, []

    def overtaken(number):
        fsync(number)
        if not calls:
            calls.append(number)
            with store.folder(spec).held(spec):  # which removes the parts of others
                pass

    monkeypatch.setattr(os, "fsync", overtaken)
    store.folder(spec).create(spec)
    assert calls
    assert (store.folder(spec).path / "spec.json").exists()


def test_last_two_are_kept(tmp_path):
    for value in range(5):
        write_checkpoint(tmp_path, content(float(value)))
    kept = [read_checkpoint(path, CPU)["weights"][0].item() for path in checkpoint_files(tmp_path)]
    assert kept == [3.0, 4.0]


@pytest.mark.parametrize(
    "damage", [lambda d: d[:-1], lambda d: d[:10], lambda d: b"", lambda d: d[:-9] + bytes([d[-9] ^ 1]) + d[-8:]]
)
def test_damaged_file_is_recognised(tmp_path, damage):
    write_checkpoint(tmp_path, content(1.0))
    (path,) = checkpoint_files(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(WrongContent):
        read_checkpoint(path, CPU)


def test_file_that_the_disk_does_not_give_now_is_not_taken_for_damaged(tmp_path, monkeypatch):
    def stale(*_):
        raise OSError(errno.ESTALE, "Stale file handle")

    write_checkpoint(tmp_path, content(1.0))
    monkeypatch.setattr(os, "open", stale)
    with pytest.raises(StorageError, match="left as it is; the same command tries again"):
        RunFolder(tmp_path).latest_checkpoint(CPU)
    monkeypatch.undo()
    assert len(checkpoint_files(tmp_path)) == 1


def test_file_that_the_device_has_no_memory_for_now_is_not_taken_for_damaged(tmp_path, monkeypatch):
    def without_memory(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    write_checkpoint(tmp_path, content(1.0))
    monkeypatch.setattr(torch, "load", without_memory)
    with pytest.raises(torch.OutOfMemoryError):
        RunFolder(tmp_path).latest_checkpoint(CPU)
    assert len(checkpoint_files(tmp_path)) == 1


class Bomb:
    def __reduce__(self):
        return (print, ("executed",))


def test_reading_executes_no_code(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch, "save", lambda value, buffer: buffer.write(pickle.dumps(Bomb())))
    write_checkpoint(tmp_path, {})
    with pytest.raises(WrongContent):
        read_checkpoint(checkpoint_files(tmp_path)[0], CPU)
    assert "executed" not in capsys.readouterr().out


class Clock:
    """Time that passes only when it is told to."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


def test_what_a_snapshot_takes_counts_as_the_time_of_its_checkpoint(tmp_path, monkeypatch):
    clock, taken = Clock(), []
    monkeypatch.setattr(recorder, "time", clock)
    folder = Store.create(tmp_path).folder(chain_spec())
    folder.create(chain_spec())
    with folder.held(chain_spec()):
        journal = Journal(folder, torch.device("cpu"), 10.0)

        def slow_snapshot() -> dict[str, int]:
            clock.now += 1.0
            taken.append(clock.now)
            return {}

        for _ in range(100):
            clock.now += 1.0
            journal.checkpoint_if_due(slow_snapshot)
    assert taken[0] == 1011.0  # after ten seconds, and one of its own
    pause = taken[1] - taken[0]
    assert pause >= 1.0 / MAX_SHARE_OF_TIME
