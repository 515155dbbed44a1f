"""Parts: what a killed writer leaves is removed, and no living writer loses its own."""

import hashlib
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from small_runs import small_spec
from supple_lab import files
from supple_lab.files import SECONDS_TO_DEATH, machine, open_part, remove_dead_parts
from supple_lab.run.run import execute
from supple_lab.store.store import Store

WRITER = """
import os, sys, time
from pathlib import Path
from supple_lab.files import atomic_write
os.fsync = lambda number: print("writing", flush=True) or time.sleep(1e6)
atomic_write(Path(sys.argv[1]), b"new")
"""


@pytest.fixture
def writer(tmp_path):
    """A process in the middle of writing a file."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "file")], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"
    yield process
    process.kill()
    process.communicate()


def names(folder):
    return [path.name for path in folder.iterdir()]


def part_of(other_machine, folder, *, age):
    mark = hashlib.sha256(other_machine.encode()).hexdigest()[:8]
    path = folder / f".checkpoint-000001.pt.{mark}.0123abcd.part"
    path.write_bytes(b"half")
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def test_part_of_a_living_writer_stays_and_that_of_a_killed_one_goes(tmp_path, writer):
    (name,) = names(tmp_path)
    assert re.fullmatch(r"\.file\.[0-9a-f]{8}\.[0-9a-f]{8}\.part", name)
    remove_dead_parts(tmp_path)
    assert names(tmp_path) == [name]
    os.kill(writer.pid, signal.SIGSTOP)
    remove_dead_parts(tmp_path)
    assert names(tmp_path) == [name]  # asleep is not dead
    writer.kill()
    writer.wait()
    remove_dead_parts(tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize("share", [0.5, 2.0])
def test_part_from_another_machine_goes_only_when_no_writer_could_be_that_slow(tmp_path, share):
    path = part_of("another boot", tmp_path, age=share * SECONDS_TO_DEATH)
    remove_dead_parts(tmp_path)
    assert names(tmp_path) == ([path.name] if share < 1 else [])


def test_writer_whose_part_is_removed_before_it_is_locked_begins_another(tmp_path, monkeypatch):
    original = files._lock

    def late(number):
        monkeypatch.setattr(files, "_lock", original)
        remove_dead_parts(tmp_path)  # nothing tells this part from a dead one's yet
        return original(number)

    monkeypatch.setattr(files, "_lock", late)
    path, number = open_part(tmp_path / "file")
    remove_dead_parts(tmp_path)
    assert names(tmp_path) == [path.name]
    os.close(number)


def test_files_of_other_programs_are_let_alone(tmp_path):
    for name in (".film.part", "film.part", ".film.0123.part", ".status.json.0123abcd.part"):
        (tmp_path / name).touch()
    remove_dead_parts(tmp_path)
    assert len(names(tmp_path)) == 4


def test_next_attempt_at_a_run_removes_what_a_kill_left(tmp_path):
    store = Store.create(tmp_path)
    store.folder(small_spec()).create(small_spec())
    left = [part_of(machine(), folder, age=0.0) for folder in (store.folder(small_spec()).path, tmp_path)]
    assert execute(small_spec(), Store.create(tmp_path)) == "done"
    assert not [path for path in left if path.exists()]


def test_folder_that_is_not_there_has_no_parts(tmp_path):
    remove_dead_parts(tmp_path / "nowhere")
