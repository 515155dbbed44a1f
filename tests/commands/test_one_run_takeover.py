"""supple train and play go on after a reboot or a move: a holder elsewhere that stays silent loses the run."""

import contextlib
import threading

import pytest

from supple_lab.cli import supple
from supple_lab.store import lock
from supple_lab.store.lock import LeaseWatch, RunIsBusy, acquire, await_silent_holder, lease_path, newest
from supple_lab.store.store import Store

ELSEWHERE = b'{"host": "far", "machine": "another boot", "pid": 1}\n7\n'
SMALL = "--scenario.num-stages 2 --scenario.epochs 1 --scenario.num-images 64 --model.width 16 --model.num-hidden 1"
COMMANDS = {
    "train": SMALL,
    "play": "--game chain --model mlp --model.width 8 --num-iterations 1 --steps-per-iteration 100 "
    "--num-random-steps 20 --evaluation-steps 20 --capacity 200",
}


@pytest.fixture(autouse=True)
def short_patience(monkeypatch):
    monkeypatch.setattr(lock, "SECONDS_TO_DEATH", 0.2)
    monkeypatch.setattr(lock, "SECONDS_BETWEEN_LOOKS", 0.01)


def begun(out, command):
    """The folder of that command's run, and the command's words; what the run did is forgotten but its lease."""
    words = [command, *COMMANDS[command].split(), "--quiet", "--out", str(out)]
    assert supple(words) == 0
    (folder,) = Store.open(out).folders()
    folder.write_status("running", progress=0.5)
    return folder, words


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("content", [ELSEWHERE, b"\x00\xff", b"[" * 100_000], ids=["elsewhere", "garbage", "nested"])
def test_run_of_a_silent_holder_elsewhere_is_taken_over_and_finished(tmp_path, capsys, command, content):
    folder, words = begun(tmp_path, command)
    whole = (folder.path / "records.jsonl").read_bytes()
    lease_path(folder.path, newest(folder.path).number + 1).write_bytes(content)
    assert supple(words) == 0
    who = "(far, process 1)" if content == ELSEWHERE else "(?, process ?)"
    assert f"restarted {who}; it is taken over in 0 s unless that process shows life" in capsys.readouterr().err
    assert folder.state() == "done"
    assert (folder.path / "records.jsonl").read_bytes() == whole


def test_run_of_a_beating_holder_elsewhere_is_left_to_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(lock, "SECONDS_TO_DEATH", 60.0)
    folder, words = begun(tmp_path, "train")
    path = lease_path(folder.path, newest(folder.path).number + 1)
    path.write_bytes(ELSEWHERE)
    original = LeaseWatch.broke

    def beats(watch):
        path.write_bytes(ELSEWHERE + b"8\n")
        return original(watch)

    monkeypatch.setattr(LeaseWatch, "broke", beats)
    assert supple(words) == 1
    assert "is being worked on by another process (far, process 1)" in capsys.readouterr().err
    assert newest(folder.path).content == ELSEWHERE + b"8\n"
    assert folder.status()["state"] == "running"


def test_holder_on_this_machine_is_not_waited_for(tmp_path):
    held = acquire(tmp_path)
    told = []
    await_silent_holder(tmp_path, tell=told.append)
    assert told == []
    with pytest.raises(RunIsBusy):
        acquire(tmp_path)
    held.check()
    held.release()


def test_of_two_that_wait_for_the_same_dead_holder_one_gets_the_run(tmp_path):
    lease_path(tmp_path, 1).write_bytes(ELSEWHERE)
    held = []

    def claim():
        await_silent_holder(tmp_path, tell=lambda _: None)
        with contextlib.suppress(RunIsBusy):
            held.append(acquire(tmp_path))

    claimants = [threading.Thread(target=claim) for _ in range(2)]
    for claimant in claimants:
        claimant.start()
    for claimant in claimants:
        claimant.join()
    assert len(held) == 1
    held[0].check()
    held[0].release()
