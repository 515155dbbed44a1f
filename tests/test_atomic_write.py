"""Files that are whole or not there, and files that say whose they are."""

import os
import signal
import subprocess
import sys
import time

import pytest

from small_runs import small_spec
from supple_lab.files import SECONDS_TO_DEATH, WrongContent, read_regular, read_sealed, remove_parts, write_sealed
from supple_lab.run.run import execute
from supple_lab.store.store import Store

WRITER = """
import os, sys, time
from pathlib import Path
from supple_lab.files import atomic_write
os.fsync = lambda number: print("writing", flush=True) or time.sleep(1e6)
atomic_write(Path(sys.argv[1]), b"new")
"""


def names(folder):
    return [path.name for path in folder.iterdir()]


def part_in(folder, *, age):
    path = folder / ".checkpoint-000001.pt.0123abcd.part"
    path.write_bytes(b"half")
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def test_killed_writer_leaves_the_old_file_whole_and_a_part(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "file")], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert (tmp_path / "file").read_bytes() == b"old"
    assert len(names(tmp_path)) == 2
    remove_parts(tmp_path, older_than=0.0)
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("share", [0.5, 2.0])
def test_part_where_several_write_goes_only_when_no_writer_could_be_that_slow(tmp_path, share):
    path = part_in(tmp_path, age=share * SECONDS_TO_DEATH)
    remove_parts(tmp_path)
    assert names(tmp_path) == ([path.name] if share < 1 else [])


def test_files_of_other_programs_are_let_alone(tmp_path):
    for name in (".film.part", "film.part", ".film.0123.part"):
        (tmp_path / name).touch()
    remove_parts(tmp_path, older_than=-1.0)
    assert len(names(tmp_path)) == 3


def test_next_attempt_at_a_run_removes_what_a_kill_left(tmp_path):
    store = Store.create(tmp_path)
    store.folder(small_spec()).create(small_spec())
    left = part_in(store.folder(small_spec()).path, age=-1000.0)  # by a clock that is ahead
    assert execute(small_spec(), Store.create(tmp_path)) == "done"
    assert not left.exists()


def test_file_that_is_larger_than_any_is_not_read(tmp_path):
    assert read_regular(tmp_path / "file", limit=10) is None
    (tmp_path / "file").write_bytes(b"0123456789")
    assert read_regular(tmp_path / "file", limit=10) == b"0123456789"
    with pytest.raises(WrongContent, match="10 bytes, more than any"):
        read_regular(tmp_path / "file", limit=9)


def test_sealed_file_comes_back_for_its_own_run_and_kind_alone(tmp_path):
    path = tmp_path / "file"
    write_sealed(path, b"content\n", kind="replay", run="a1")
    assert read_sealed(path, kind="replay", run="a1") == b"content\n"
    for kind, run in (("replay", "b2"), ("checkpoint", "a1")):
        with pytest.raises(WrongContent, match="another run's"):
            read_sealed(path, kind=kind, run=run)


@pytest.mark.parametrize(
    "change",
    [lambda c: c[:-1], lambda c: c + b"x", lambda c: c.replace(b"cont", b"kont"), lambda c: b"", lambda c: c[9:]],
)
def test_sealed_file_that_was_changed_is_found_out(tmp_path, change):
    path = tmp_path / "file"
    write_sealed(path, b"content\n", kind="replay", run="a1")
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(WrongContent):
        read_sealed(path, kind="replay", run="a1")
