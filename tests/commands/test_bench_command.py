"""supple bench training: --only chooses among steps and growth, and the file says how products were rounded."""

import json

import pytest

from supple_lab.bench import growth, training
from supple_lab.bench.training import Case
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
