"""supple bench refuses what it could not finish before it measures anything, and leaves nothing behind."""

import os

import pytest

from supple_lab.cli import supple
from supple_lab.commands import bench


@pytest.fixture(autouse=True)
def nothing_measured(monkeypatch):
    monkeypatch.setitem(bench.MEASURES, "kernels", None)  # to call it would be a TypeError


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf"])
def test_time_that_is_none_is_refused(capsys, seconds):
    assert supple(["bench", "kernels", "--seconds", seconds]) == 2
    assert f"--seconds must be at least 0, and finite; got {float(seconds)}." in capsys.readouterr().err


def refused(path, capsys):
    assert supple(["bench", "kernels", "--json", str(path)]) == 2
    told = capsys.readouterr().err
    assert "--out" not in told
    return told


def test_file_in_no_folder_or_in_the_place_of_one_is_refused(tmp_path, capsys):
    told = refused(tmp_path / "nodir" / "x.json", capsys)
    assert "cannot write --json" in told
    assert "No such file or directory. Name a file in a folder" in told
    assert f"--json takes a file; {tmp_path} is a folder." in refused(tmp_path, capsys)
    (tmp_path / "file").write_text("")
    assert "Not a directory. Name a file in a folder" in refused(tmp_path / "file" / "x.json", capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_file_in_a_read_only_folder_is_refused(tmp_path, capsys):
    tmp_path.chmod(0o500)
    assert "Permission denied. Name a file in a folder" in refused(tmp_path / "x.json", capsys)


def test_place_that_can_be_written_is_left_empty(tmp_path):
    bench.check_place(tmp_path / "x.json")
    assert list(tmp_path.iterdir()) == []
