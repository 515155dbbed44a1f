"""Who is at work on a run: one process at a time, whatever the clocks say, and nobody for ever."""

import errno
import os
import signal
import subprocess
import sys
import time

import pytest

from supple_lab.files import StorageError
from supple_lab.store import lock
from supple_lab.store.lock import LeaseWatch, RunIsBusy, acquire, is_live, lease_path, machine, newest

HOLDER = """
import sys, time
from pathlib import Path
from supple_lab.store.lock import acquire
acquire(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(1e6)
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.communicate()


def test_lease_is_held_once_and_leaves_nothing_behind(tmp_path):
    first = acquire(tmp_path)
    with pytest.raises(RunIsBusy, match=f"worked on by another process .*process {os.getpid()}"):
        acquire(tmp_path)
    first.check()
    first.release()
    assert not is_live(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["lease-000002"]  # nobody's: numbers never begin again
    acquire(tmp_path).release()
    assert [path.name for path in tmp_path.iterdir()] == ["lease-000004"]


def test_claimant_that_slept_while_others_came_and_went_does_not_hold_beside_them(tmp_path, monkeypatch):
    lease_path(tmp_path, 2).write_bytes(b'{"machine": "%s", "pid": 1}\n' % machine().encode())  # dead: nobody locks it
    original = lock.put_lease

    def slept(folder, number, *, holder):
        monkeypatch.setattr(lock, "put_lease", original)
        acquire(folder).release()  # another takes lease 3 and lets it go
        held.append(acquire(folder))  # and a third comes
        return original(folder, number, holder=holder)

    held = []
    monkeypatch.setattr(lock, "put_lease", slept)
    with pytest.raises(RunIsBusy):
        acquire(tmp_path)
    held[0].check()
    held[0].release()


def test_holder_killed_on_this_machine_is_known_dead_at_once(tmp_path, holder):
    with pytest.raises(RunIsBusy):
        acquire(tmp_path)
    assert is_live(tmp_path)
    holder.kill()
    holder.wait()
    assert not is_live(tmp_path)
    acquire(tmp_path).release()


def test_beating_holder_elsewhere_is_never_taken_over_however_wrong_its_clock(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "SECONDS_TO_DEATH", 0.3)
    lease_path(tmp_path, 1).write_bytes(b'{"host": "far", "machine": "another boot", "pid": 1}\n0\n')
    watch = LeaseWatch(tmp_path)
    until = time.monotonic() + 1.0
    beat = 0
    while time.monotonic() < until:
        beat += 1
        path = lease_path(tmp_path, 1)
        path.write_bytes(newest(tmp_path).content.split(b"\n")[0] + f"\n{beat}\n".encode())
        os.utime(path, (0, 0) if beat % 2 else (4e9, 4e9))  # 1970, then 2096
        assert not watch.broke()
        with pytest.raises(RunIsBusy):
            acquire(tmp_path)
        time.sleep(0.05)


def test_silent_holder_elsewhere_is_taken_over_after_a_while_and_not_before(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "SECONDS_TO_DEATH", 0.2)
    path = tmp_path / "lease-000001"
    path.write_bytes(b'{"host": "far", "machine": "another boot", "pid": 1}\n7\n')
    os.utime(path, (4e9, 4e9))  # its clock is decades ahead
    watch = LeaseWatch(tmp_path)
    assert not watch.broke()
    with pytest.raises(RunIsBusy, match="far, process 1"):
        acquire(tmp_path)
    time.sleep(0.25)
    assert watch.broke()
    mine = acquire(tmp_path)
    mine.check()
    mine.release()


def test_hung_holder_that_wakes_up_finds_that_it_lost_the_run(tmp_path, holder, monkeypatch):
    monkeypatch.setattr(lock, "SECONDS_TO_DEATH", 0.1)
    os.kill(holder.pid, signal.SIGSTOP)
    watch = LeaseWatch(tmp_path)
    time.sleep(0.15)
    assert watch.broke()  # by silence, though its flock still stands
    mine = acquire(tmp_path)
    os.kill(holder.pid, signal.SIGCONT)
    mine.check()
    mine.release()


def test_old_holder_may_write_no_more_even_after_the_new_one_let_go(tmp_path):
    old = acquire(tmp_path)
    lock.put_lease(tmp_path, 2, holder={})
    with pytest.raises(RunIsBusy, match="taken over by another process"):
        old.check()
    new = acquire(tmp_path)
    new.release()
    with pytest.raises(RunIsBusy):
        old.check()
    newer = acquire(tmp_path)  # has the old one's number again
    with pytest.raises(RunIsBusy):
        old.check()
    old.release()
    newer.check()
    newer.release()


def test_of_two_claimants_one_wins(tmp_path):
    assert lock.put_lease(tmp_path, 1, holder={"pid": 1}) is not None
    assert lock.put_lease(tmp_path, 1, holder={"pid": 2}) is None
    assert newest(tmp_path).holder == {"pid": 1}


def open_files():
    return os.listdir("/proc/self/fd")


@pytest.mark.parametrize("call", ["pwrite", "link"])
def test_full_disk_is_told_and_costs_no_open_file(tmp_path, monkeypatch, call):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    before = open_files()
    monkeypatch.setattr(os, call, full)
    with pytest.raises(StorageError, match="no space left to write .*lease-000001"):
        acquire(tmp_path)
    assert open_files() == before
    assert list(tmp_path.iterdir()) == []


def test_lease_beats(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "SECONDS_BETWEEN_BEATS", 0.01)
    held = acquire(tmp_path)
    before = newest(tmp_path)
    while newest(tmp_path) == before:
        time.sleep(0.005)
    held.release()


@pytest.mark.parametrize("age", [10.0, 1000.0])
def test_onlookers_judge_a_lease_from_elsewhere_by_the_clock_of_the_disk(tmp_path, age):
    path = tmp_path / "lease-000001"
    path.write_bytes(b'{"host": "far", "machine": "another boot", "pid": 1}\n7\n')
    os.utime(path, (time.time() - age, time.time() - age))
    assert is_live(tmp_path) == (age < lock.SECONDS_TO_DEATH)
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("garbage", [b"", b"\x00\xff", b"[1]\n3\n"])
def test_garbled_lease_is_waited_out(tmp_path, monkeypatch, garbage):
    monkeypatch.setattr(lock, "SECONDS_TO_DEATH", 0.1)
    (tmp_path / "lease-000001").write_bytes(garbage)
    watch = LeaseWatch(tmp_path)
    assert not watch.broke()
    time.sleep(0.15)
    assert watch.broke()
    acquire(tmp_path).release()


def test_disk_without_hard_links_keeps_leases_too(tmp_path, monkeypatch):
    def no_links(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    held = acquire(tmp_path)
    with pytest.raises(RunIsBusy):
        acquire(tmp_path)
    held.release()
    assert not is_live(tmp_path)
