"""Who is at work on a run: one process at a time, whatever the clocks say, and none for ever."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from supple_lab.files import StorageError
from supple_lab.store import lock
from supple_lab.store.lock import LockWatch, RunIsBusy, RunLock, await_silent_holder, is_held

HOLDER = """
import sys, time
from pathlib import Path
from supple_lab.store.lock import RunLock
RunLock.acquire(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(1e6)
"""
FAR = b'{"host": "far", "pid": 1, "token": "x"}\n'


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def without_flock(monkeypatch):
    """A disk that has no flock, as some network disks."""

    def refuse(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)


def test_lock_is_held_once_and_leaves_nothing_behind(tmp_path):
    first = RunLock.acquire(tmp_path)
    with pytest.raises(RunIsBusy, match=f"worked on by another process .*process {os.getpid()}"):
        RunLock.acquire(tmp_path)
    assert is_held(tmp_path)
    first.check()
    first.release()
    assert not is_held(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_holder_killed_on_this_machine_is_known_dead_at_once(tmp_path, holder):
    with pytest.raises(RunIsBusy):
        RunLock.acquire(tmp_path)
    assert is_held(tmp_path)
    holder.kill()
    holder.wait()
    assert not is_held(tmp_path)
    assert LockWatch(tmp_path).broke()
    RunLock.acquire(tmp_path).release()


def test_of_many_claimants_one_wins_at_a_time(tmp_path):
    at_once, most, won = [], [], []

    def claim():
        for _ in range(20):
            try:
                held = RunLock.acquire(tmp_path)
            except RunIsBusy:
                continue
            at_once.append(1)
            most.append(len(at_once))
            time.sleep(0.001)
            held.check()
            won.append(1)
            at_once.pop()
            held.release()

    claimants = [threading.Thread(target=claim) for _ in range(4)]
    for claimant in claimants:
        claimant.start()
    for claimant in claimants:
        claimant.join()
    assert len(won) >= 20
    assert max(most) == 1


def test_onlookers_do_not_keep_others_from_the_lock(tmp_path):
    (tmp_path / "lock").write_bytes(FAR)  # a killed holder's
    ended = threading.Event()

    def look():
        while not ended.is_set():
            is_held(tmp_path)

    onlooker = threading.Thread(target=look)
    onlooker.start()
    try:
        for _ in range(50):
            held = RunLock.acquire(tmp_path)
            (tmp_path / "lock").write_bytes(FAR)
            held.release()
    finally:
        ended.set()
        onlooker.join()


@pytest.mark.parametrize("disk", ["flock", "no flock"])
def test_beating_holder_is_never_taken_over_however_wrong_its_clock(tmp_path, monkeypatch, request, disk):
    if disk == "no flock":
        request.getfixturevalue("without_flock")
    monkeypatch.setattr(lock, "SECONDS_BETWEEN_BEATS", 0.02)
    monkeypatch.setattr(lock, "SECONDS_TO_DEATH", 0.3)
    held, watch = RunLock.acquire(tmp_path), LockWatch(tmp_path)
    until, looks = time.monotonic() + 1.0, 0
    while time.monotonic() < until:
        looks += 1
        os.utime(tmp_path / "lock", (0, 0) if looks % 2 else (4e9, 4e9))  # 1970, then 2096
        assert not watch.broke()
        time.sleep(0.01)
    with pytest.raises(RunIsBusy):
        RunLock.acquire(tmp_path)
    assert watch.has_changed
    held.check()
    held.release()


@pytest.mark.parametrize("content", [FAR + b"7\n", b"", b"\x00\xff", b"[1]\n3\n"])
def test_silent_holder_on_a_disk_without_flock_is_taken_over_after_a_while_and_not_before(
    tmp_path, monkeypatch, without_flock, content
):
    monkeypatch.setattr(lock, "SECONDS_TO_DEATH", 0.2)
    (tmp_path / "lock").write_bytes(content)
    os.utime(tmp_path / "lock", (4e9, 4e9))  # its clock is decades ahead
    watch = LockWatch(tmp_path)
    assert not watch.broke()
    with pytest.raises(RunIsBusy, match="far, process 1" if content.startswith(FAR) else "process \\?"):
        RunLock.acquire(tmp_path)
    time.sleep(0.25)
    assert watch.broke()
    mine = RunLock.acquire(tmp_path)
    mine.check()
    mine.release()


def test_command_on_a_disk_without_flock_waits_for_a_dead_holder_and_says_so(tmp_path, monkeypatch, without_flock):
    monkeypatch.setattr(lock, "SECONDS_TO_DEATH", 0.1)
    monkeypatch.setattr(lock, "SECONDS_BETWEEN_LOOKS", 0.01)
    (tmp_path / "lock").write_bytes(FAR)
    told = []
    await_silent_holder(tmp_path, show=told.append)
    assert "(far, process 1); it is taken over in" in told[0]
    RunLock.acquire(tmp_path).release()
    await_silent_holder(tmp_path, show=told.append)
    assert len(told) == 1


def test_hung_holder_that_wakes_up_finds_that_it_lost_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "SECONDS_TO_DEATH", 0.1)
    old = RunLock.acquire(tmp_path)  # and does not beat for five seconds
    watch = LockWatch(tmp_path)
    time.sleep(0.15)
    assert watch.broke()  # by silence, though its flock still stands
    new = RunLock.acquire(tmp_path)
    with pytest.raises(RunIsBusy, match="taken over by another process"):
        old.check()
    old.release()
    new.check()
    new.release()
    with pytest.raises(RunIsBusy):
        old.check()


def test_stopped_process_is_silent(tmp_path, holder, monkeypatch):
    monkeypatch.setattr(lock, "SECONDS_TO_DEATH", 0.1)
    os.kill(holder.pid, signal.SIGSTOP)
    watch = LockWatch(tmp_path)
    assert not watch.broke()
    time.sleep(0.15)
    assert watch.broke()


@pytest.mark.parametrize("age", [10.0, 1000.0])
def test_onlookers_of_a_disk_without_flock_judge_by_the_age_of_the_last_beat(tmp_path, without_flock, age):
    (tmp_path / "lock").write_bytes(FAR)
    os.utime(tmp_path / "lock", (time.time() - age, time.time() - age))
    assert is_held(tmp_path) == (age < lock.SECONDS_TO_DEATH)


def test_full_disk_is_told_and_costs_no_open_file(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageError, match="no space left to write .*lock"):
        RunLock.acquire(tmp_path)
    assert os.listdir("/proc/self/fd") == before
    assert list(tmp_path.iterdir()) == []


def test_disk_that_refuses_to_break_a_lock_says_so(tmp_path, monkeypatch, without_flock):
    def refuse(*_, **__):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(lock, "SECONDS_TO_DEATH", 0.0)
    monkeypatch.setattr(type(tmp_path), "unlink", refuse)
    (tmp_path / "lock").write_bytes(FAR)
    with pytest.raises(StorageError, match="cannot write .*lock: Input/output error"):
        LockWatch(tmp_path).broke()
