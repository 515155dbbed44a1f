"""supple bench: --only chooses cases, the file says how it was measured, what cannot be is refused first."""

import json

import pytest

from supple_lab.bench import training
from supple_lab.bench.training import Case
from supple_lab.cli import supple
from supple_lab.commands import bench
from supple_lab.commands.bench import Bench
from supple_lab.models.mlp import MLP
from supple_lab.provenance import gather_provenance


@pytest.fixture
def written(tmp_path, monkeypatch):
    """What the command writes with --only, measured on one small case and a few stages."""
    cases = [Case(title, MLP(width=8), (1, 8, 8), 4) for title in ("small network", "other network")]
    monkeypatch.setattr(training, "CASES", tuple(cases))

    def content(only):
        Bench(what="training", device="cpu", only=only, seconds=0.0, json=tmp_path / "bench.json").run()
        return json.loads((tmp_path / "bench.json").read_text())

    return content


@pytest.mark.parametrize(
    ("only", "cases"), [("small", {"small network"}), ("network", {"small network", "other network"})]
)
def test_only_chooses_cases_by_their_title(written, only, cases):
    assert {row["case"] for row in written(only)["rows"]} == cases


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


@pytest.mark.parametrize(("seconds", "wanted"), [("-1", "at least 0"), ("nan", "a finite number"), ("inf", "a finite")])
def test_time_that_is_none_is_refused(capsys, seconds, wanted):
    assert supple(["bench", "kernels", "--seconds", seconds]) == 2
    assert f"--seconds must be {wanted}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("kernels --methods redo", "--methods is for supple bench methods; bench kernels would pass over it."),
        ("monitor --only CNN", "--only chooses among cases; bench monitor would pass over it."),
        ("atari --only Pong", "--only chooses among cases; bench atari would pass over it."),
        ("sweep --only proces5", "no engine that is measured named 'proces5'. Did you mean 'process'?"),
        ("methods --methods redo chain", "methods are measured at their defaults; chain has none."),
    ],
)
def test_option_that_would_come_to_nothing_is_refused(line, told, capsys):
    assert supple(["bench", *line.split(), "--device", "cpu"]) == 2
    assert told in capsys.readouterr().err


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
