import errno
import os
import pickle

import pytest
import torch

from supple_lab.files import StorageError, WrongContent
from supple_lab.store.checkpoint import checkpoint_files, read_checkpoint, write_checkpoint
from supple_lab.store.run_folder import RunFolder

CPU = torch.device("cpu")


def content(value: float) -> dict:
    return {"weights": torch.full((5,), value), "cursor": {"stage": 1}}


def test_content_comes_back_as_it_was(tmp_path):
    write_checkpoint(tmp_path, content(0.1))
    (path,) = checkpoint_files(tmp_path)
    read = read_checkpoint(path, CPU)
    assert torch.equal(read["weights"], content(0.1)["weights"])
    assert read["cursor"] == {"stage": 1}


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
