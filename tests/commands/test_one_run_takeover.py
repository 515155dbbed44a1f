"""supple train and play on a disk without flock: a holder that stays silent loses the run, one that beats keeps it."""

import errno
import fcntl

import pytest

from supple_lab.cli import supple
from supple_lab.store import lock
from supple_lab.store.lock import LockWatch
from supple_lab.store.run_folder import RunFolder
from supple_lab.store.store import Store

ELSEWHERE = b'{"host": "far", "pid": 1}\n7\n'
SMALL = "--scenario.num-stages 2 --scenario.epochs 1 --scenario.num-images 64 --model.width 16 --model.num-hidden 1"
COMMANDS = {
    "train": SMALL,
    "play": "--game chain --model mlp --model.width 8 --num-iterations 1 --steps-per-iteration 100 "
    "--num-random-steps 20 --evaluation-steps 20 --capacity 200",
}


@pytest.fixture(autouse=True)
def _disk_without_flock(monkeypatch):
    def refuse(*_):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(lock, "SECONDS_TO_DEATH", 0.2)
    monkeypatch.setattr(lock, "SECONDS_BETWEEN_LOOKS", 0.01)


def begun(out, command):
    """The folder of that command's run, and the command's words; what the run did is forgotten."""
    words = [command, *COMMANDS[command].split(), "--quiet", "--out", str(out)]
    assert supple(words) == 0
    (run,) = Store.open(out).runs()
    folder = RunFolder(out / "runs" / run.id)
    folder.write_status("running", progress=0.5)
    return folder, words


@pytest.mark.parametrize(
    ("command", "content"),
    [("train", ELSEWHERE), ("play", ELSEWHERE), ("train", b"\x00\xff"), ("train", b"[" * 100_000)],
)
def test_run_of_a_silent_holder_is_taken_over_and_finished(tmp_path, capsys, command, content):
    folder, words = begun(tmp_path, command)
    whole = (folder.path / "records.jsonl").read_bytes()
    (folder.path / "lock").write_bytes(content)
    assert supple(words) == 0
    who = "(far, process 1)" if content == ELSEWHERE else "(?, process ?)"
    assert f"dead or alive {who}; it is taken over in 0 s unless that process shows life" in capsys.readouterr().err
    assert folder.state() == "done"
    assert (folder.path / "records.jsonl").read_bytes() == whole


def test_run_of_a_beating_holder_is_left_to_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(lock, "SECONDS_TO_DEATH", 60.0)
    folder, words = begun(tmp_path, "train")
    path = folder.path / "lock"
    path.write_bytes(ELSEWHERE)
    original = LockWatch.broke

    def beats(watch):
        path.write_bytes(ELSEWHERE + b"8\n")
        return original(watch)

    monkeypatch.setattr(LockWatch, "broke", beats)
    assert supple(words) == 1
    assert "is being worked on by another process (far, process 1)" in capsys.readouterr().err
    assert path.read_bytes() == ELSEWHERE + b"8\n"
    assert folder.status()["state"] == "running"
