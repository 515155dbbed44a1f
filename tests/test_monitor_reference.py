"""tools/monitor_reference.py: what counts as ruined and noticed, and a line for each kind of network."""

import importlib
import json
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

sys.path.append(str(Path(__file__).parent.parent / "tools"))
reference = importlib.import_module("monitor_reference")

P, L, N, U = "plastic", "plasticity lost", "nothing to learn", "not decided"


def line_of(*verdicts):
    return {"stages": [{"gap": {"verdict": verdict}} for verdict in verdicts]}


@pytest.mark.parametrize(
    ("verdicts", "outcome", "warned_in", "is_noticed"),
    [
        ((P, N, P), "healthy", set(), False),
        ((P, N, P), "healthy", {2}, True),
        ((P, U, P), "undecided", set(), False),
        ((P, U, L), "ruined", {1}, True),
        ((P, L, P), "ruined", {1}, False),  # in the stage at whose end it is ruined: too late
        ((P, L, L), "ruined", {0}, True),
        ((L, P, P), "too early", {0}, False),
    ],
)
def test_ruined_and_noticed_by_the_rules(verdicts, outcome, warned_in, is_noticed):
    line = line_of(*verdicts)
    assert reference.outcome(line) == outcome
    assert reference.noticed(line, warned_in) == is_noticed


def test_halves_share_no_configuration_and_hold_every_network_and_regime():
    for half in ("choose", "report"):
        chosen = [c for c in reference.configurations() if c.half == half]
        assert {c.network for c in chosen} == set(reference.NETWORKS)
        assert {c.regime for c in chosen} == set(reference.REGIMES)


@pytest.mark.parametrize("network", reference.NETWORKS)
def test_training_writes_a_line_that_json_holds(network, monkeypatch):
    monkeypatch.setattr(reference, "STAGE_STEPS", 6)
    monkeypatch.setattr(reference, "GAP", {"steps": 12, "seeds": 2})
    configuration = reference.Configuration(network=network, regime="dead", variant=0)
    line = reference.train(configuration, seed=0, num_stages=1)
    read = json.loads(json.dumps(reference.without_nan(line), allow_nan=False))
    assert reference.key_of(read) == (configuration.name, 0)
    (stage,) = read["stages"]
    assert [row["step"] for row in stage["training"]] == [1, 2, 4, 6]
    for source in ("probe", "fresh"):
        assert 0.0 <= stage[source]["probe/dormant_ratio"] < 1.0


@pytest.mark.parametrize("network", reference.NETWORKS)
@pytest.mark.parametrize("kind", ["dead", "saturated", "rank"])
def test_damage_spoils_what_it_says(network, kind):
    model = reference.make_network(network, nn.Tanh if kind == "saturated" else nn.ReLU)
    reference.damage_(model, kind, 1.0)
    spoiled = [part for part in model.modules() if isinstance(part, nn.Linear | nn.Conv2d)]
    hidden = [p for p in spoiled if p.bias.abs().min() >= 100.0] if kind != "rank" else spoiled
    if kind == "rank":
        assert any(torch.linalg.matrix_rank(part.weight.flatten(1)) == 1 for part in hidden)
    else:
        assert len(hidden) == {"mlp": 2, "cnn": 3, "vit": 1, "dqn": 2, "ppo": 2}[network]


def test_file_goes_on_behind_a_torn_line(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_text('{"seed": 0}\n{"see')
    assert reference.read_lines(path) == [{"seed": 0}]
    assert path.read_text() == '{"seed": 0}\n'
