"""What the disk refuses of a store is a sentence and exit code 2, or 1 if it is full, whichever command meets it."""

import errno
import json
import os
import resource
from pathlib import Path

import pytest

from small_runs import SMALL_LINE
from supple_lab import files
from supple_lab.cli import supple
from supple_lab.paper.manifest import NoOrder, add_to_manifest, path_of, read_manifest
from supple_lab.paper.quickstart import Quickstart
from supple_lab.paper.study import MAX_SEEDS, StudyOptions
from supple_lab.store.store import Store

ORDER = StudyOptions(scale="smoke")
COMMANDS = {
    "list": ["list", "runs", "--out"],
    "report": ["report", "quickstart", "--out"],
    "run": ["run", "quickstart", "--scale", "smoke", "--engine", "inline", "--quiet", "--out"],
}


def ordered(out):
    """Have quickstart ordered in the folder; nothing runs."""
    Store.create(out)
    add_to_manifest(out, "quickstart", order=ORDER, command="", specs=Quickstart().specs(ORDER))


def begun(out):
    """Have one of its runs begun."""
    spec = Quickstart().specs(ORDER)[0]
    folder = Store.open(out).folder(spec)
    folder.create(spec)
    folder.write_status("running")


@pytest.fixture
def out(tmp_path):
    ordered(tmp_path)
    return tmp_path


def told_by(command, out, capsys, *, exit_code=2):
    assert supple([*COMMANDS[command], str(out)]) == exit_code
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "commands"), [("format.json", ("list", "report", "run")), ("studies/quickstart.json", ("report", "run"))]
)
def test_a_folder_in_place_of_a_file_is_told(out, name, commands, capsys):
    (out / name).unlink()
    (out / name).mkdir()
    for command in commands:
        assert f"supple: cannot use {out / name}: Is a directory. Move away" in told_by(command, out, capsys)


def test_a_file_in_place_of_the_orders_is_told(out, capsys):
    path_of(out, "quickstart").unlink()
    for lock in (out / "studies").iterdir():
        lock.unlink()
    (out / "studies").rmdir()
    (out / "studies").touch()
    for command in ("report", "run"):
        assert f"supple: cannot use {out / 'studies'}" in told_by(command, out, capsys)
    assert supple(["report", str(out)]) == 2
    assert f"supple: cannot use {out / 'studies'}: Not a directory. Move away" in capsys.readouterr().err


def test_a_file_in_place_of_the_runs_is_told(out, capsys):
    (out / "runs").rmdir()
    (out / "runs").touch()
    for command in ("list", "report"):
        assert f"supple: cannot use {out / 'runs'}: Not a directory. Move away" in told_by(command, out, capsys)


@pytest.mark.parametrize("command", ["list", "report"])
def test_a_store_of_another_user_is_told(out, command, capsys, monkeypatch):
    def refuse(path, *arguments):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(files.os, "open", refuse)  # for the administrator, who may run this, may read everything
    told = told_by(command, out, capsys)
    assert f"{out / 'format.json'}: Permission denied" in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(("command", "name"), [("run", "studies"), ("report", "report")])
def test_a_full_disk_is_told_where_a_folder_cannot_be_made(out, capsys, monkeypatch, command, name):
    make = Path.mkdir
    begun(out)

    def mkdir(path, *arguments, **options):
        if path.name == name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        make(path, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    assert "supple: no space left to write" in told_by(command, out, capsys, exit_code=1)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["train", "--checkpoint-seconds", "0", *SMALL_LINE.split()], "supple: no space left to write"),
        ([*COMMANDS["run"][:-1], "--methods", "aid", "--checkpoint-seconds", "0.001", "--out"], "failed: aid, seed 0 "),
    ],
    ids=["train", "run"],
)
def test_runs_on_a_full_disk_are_no_bad_usage_and_continue(tmp_path, capsys, command, said):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))  # every checkpoint is larger than this
    try:
        assert supple([*command, str(tmp_path)]) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    told = capsys.readouterr().err
    assert said in told
    assert "no space left to write" in told
    assert not list(tmp_path.rglob(".*.part"))
    assert supple([*command, str(tmp_path)]) == 0


def test_one_study_that_cannot_be_read_does_not_keep_the_others_from_being_reported(out, capsys):
    begun(out)
    (out / "studies" / "atari.json").mkdir()
    assert supple(["report", str(out)]) == 1
    assert f"no report of atari: cannot use {out / 'studies' / 'atari.json'}: Is a dir" in capsys.readouterr().err
    assert (out / "report" / "quickstart.html").is_file()


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"order": {"scale": "smoke", "min_seeds": "abc"}}, "order.min_seeds must be a whole number; got 'abc'"),
        (
            {"order": {"scale": "smoke", "min_seeds": MAX_SEEDS + 1}},
            "StudyOptions.min_seeds must be in [0, 10000]; got 10001",
        ),
        ({"order": {"scale": "smoke", "also": "redo"}}, "order.also must be a tuple (each text); got 'redo'"),
        ({"order": {"scale": "smoke", "also": [1]}}, "order.also must be text; got 1"),
        ({"commands": 7}, "commands must be a tuple (each text); got 7"),
        ({"specs": [1]}, "specs must be a dict; got 1"),
    ],
)
def test_an_order_of_wrong_types_is_told_and_mended_by_the_next(out, part, words):
    path = path_of(out, "quickstart")
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **part}))
    with pytest.raises(NoOrder, match="Write it again") as caught:
        read_manifest(out, "quickstart")
    assert words in str(caught.value)
    ordered(out)
    assert read_manifest(out, "quickstart").order == ORDER
