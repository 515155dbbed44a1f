"""supple bench: --only chooses cases, the file says how it was measured, what cannot be is refused first."""

import json
import os

import pytest

from supple_lab.bench import growth, training
from supple_lab.bench.training import Case
from supple_lab.cli import supple
from supple_lab.commands import bench
from supple_lab.commands.base import BadUsage
from supple_lab.commands.bench import Bench
from supple_lab.models.mlp import MLP
from supple_lab.provenance import gather_provenance


@pytest.fixture
def written(tmp_path, monkeypatch):
    """What the command writes with --only, measured on one small case and a few stages."""
    monkeypatch.setattr(training, "CASES", (Case("small network", MLP(width=8), (1, 8, 8), 4),))
    monkeypatch.setattr(growth, "NUM_STAGES", 4)
    monkeypatch.setattr(growth, "NUM_COMPARED", 1)

    def content(only):
        Bench(what="training", device="cpu", only=only, seconds=0.0, json=tmp_path / "bench.json").run()
        return json.loads((tmp_path / "bench.json").read_text())

    return content


@pytest.mark.parametrize(
    ("only", "cases"),
    [("small", {"small network"}), ("growth", {growth.TITLE}), ("", {"small network", growth.TITLE})],
)
def test_only_chooses_cases_by_their_title(written, only, cases):
    assert {row["case"] for row in written(only)["rows"]} == cases


def test_text_in_no_title_is_refused(written):
    with pytest.raises(BadUsage, match="no case has 'VGG-19' in its title"):
        written("VGG-19")


def test_file_names_the_rounding_of_products_and_the_commit_it_was_told(written, monkeypatch):
    monkeypatch.setenv("SUPPLE_COMMIT", "0123abc")
    gather_provenance.cache_clear()
    try:
        content = written("small")
    finally:
        gather_provenance.cache_clear()
    assert content["matmul"] == "fp32"
    assert content["commit"] == "0123abc"


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
