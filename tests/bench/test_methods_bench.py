"""supple bench methods: every method in turns with vanilla, its state and its boundary; what cannot be is said."""

import json

import pytest
import torch

from supple.methods import FIRE, SNR, L2Init, UseCReLU, Vanilla
from supple_lab.bench import methods as bench
from supple_lab.bench.training import Case
from supple_lab.commands.bench import Bench
from supple_lab.models.cnn import CNN
from supple_lab.models.mlp import MLP
from supple_lab.run import step


@pytest.fixture
def small(monkeypatch):
    own = {"vanilla": Vanilla(), "l2_init": L2Init(), "fire": FIRE(), "snr": SNR(), "crelu": UseCReLU()}
    cases = (Case("MLP", MLP(width=8), (1, 8, 8), 16), Case("odd", CNN(channels=3), (1, 16, 16), 4))
    monkeypatch.setattr(bench, "methods_at_defaults", lambda names: own)
    monkeypatch.setattr(bench, "CASES", cases)


def test_rows_have_ratios_states_and_boundaries_or_a_reason(small, monkeypatch):
    monkeypatch.setattr(step, "why_never_captured", lambda training: "no graph holds it")  # eager steps need none
    rows = list(bench.bench_methods(torch.device("cpu"), seconds_per_case=0.0))
    by_name = {(row.case, row.method): row for row in rows}
    assert len(rows) == 10
    vanilla = by_name["MLP", "vanilla"]
    assert (vanilla.ratio, vanilla.ratio_quartiles, vanilla.state) == (1.0, (1.0, 1.0), 0.0)
    assert vanilla.boundary_steps is None
    assert by_name["MLP", "fire"].boundary_steps > 0
    assert by_name["MLP", "snr"].state > 0
    odd = by_name["odd", "crelu"]
    assert (odd.ratio, odd.turns) == (None, 0)
    assert "divided by 2" in odd.why_not


def test_command_writes_the_rows_and_refuses_a_case_that_is_not_there(small, tmp_path):
    path = tmp_path / "methods.json"
    Bench(what="methods", device="cpu", only="MLP", seconds=0.0, json=path).run()
    content = json.loads(path.read_text())
    assert (content["benchmark"], content["matmul"]) == ("methods", "fp32")
    assert {row["method"] for row in content["rows"]} == {"vanilla", "l2_init", "fire", "snr", "crelu"}
    with pytest.raises(Exception, match="no case has 'LSTM' in its title"):
        Bench(what="methods", device="cpu", only="LSTM", seconds=0.0).run()


def test_every_method_that_has_defaults_is_measured():
    names = list(bench.methods_at_defaults())
    assert names[0] == "vanilla"
    assert "chain" not in names
    assert {"aid", "cbp", "fire", "upgd"} < set(names)
