"""tools/monitor_reference.py and monitor_rules.py: what counts as what, a line for each network, chosen limits."""

import importlib
import itertools
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from supple import alarms

sys.path.append(str(Path(__file__).parent.parent / "tools"))
reference, rules, trainings = map(importlib.import_module, ("monitor_reference", "monitor_rules", "monitor_trainings"))

P, L, N, U = "plastic", "plasticity lost", "nothing to learn", "not decided"


def line_of(*verdicts, value=0.1, level=0.1):
    gaps = [{"verdict": v, "interval": [value, 1.0], "level_interval": [level, 2.0]} for v in verdicts]
    return {"stages": [{"gap": gap} for gap in gaps]}


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        (line_of(P, N, P), "healthy"),
        (line_of(P, N, P, value=0.3), "worn"),
        (line_of(P, N, P, level=0.6), "worn"),
        (line_of(P, U, P), "undecided"),
        (line_of(P, U, L), "ruined"),
        (line_of(L), "too early"),
    ],
)
def test_outcome_by_the_rules(line, outcome):
    assert reference.outcome(line) == outcome


def test_warning_counts_in_a_stage_before_the_ruin_only():
    changes = [0.1, 0.2, 0.9]
    assert rules.score(line_of(P, P, L), changes) == 0.2
    assert rules.score(line_of(P, P, P), changes) == 0.9


def test_halves_share_no_configuration_and_hold_every_network_and_regime():
    for half in ("choose", "report"):
        chosen = [c for c in reference.configurations() if c.half == half]
        assert {c.network for c in chosen} == set(reference.NETWORKS)
        assert {c.regime for c in chosen} == set(reference.REGIMES)


@pytest.mark.parametrize("network", reference.NETWORKS)
@pytest.mark.parametrize("regime", ["dead", "remedy"])
def test_training_writes_a_line_that_json_holds(network, regime, monkeypatch):
    monkeypatch.setattr(reference, "STAGE_STEPS", 6)
    monkeypatch.setattr(reference, "GAP", {"steps": 12, "seeds": 2})
    configuration = reference.Configuration(network=network, regime=regime, variant=2)
    line = reference.train(configuration, seed=0, num_stages=2)
    read = json.loads(json.dumps(reference.short(line), allow_nan=False))
    assert reference.key_of(read) == (configuration.name, 0)
    assert [[row["step"] for row in stage["training"]] for stage in read["stages"]] == [[1, 2, 4, 6], [8, 10, 12]]
    for stage, source in itertools.product(read["stages"], ("probe", "fresh")):
        assert 0.0 <= stage[source]["probe/dormant_ratio"] < 1.0
    for key, design in itertools.product(rules.KEYS.values(), itertools.product(rules.OVER_LAYERS, rules.PERSISTENCE)):
        changes = rules.changes_by_stage(read, key, design)
        assert len(changes) == 2
        assert all(map(math.isfinite, changes))


@pytest.mark.parametrize("network", ["mlp", "cnn", "dqn"])
def test_clones_stay_clones_in_training(network):
    model = trainings.make_network(network, trainings.Setting(lr=1.0, activation="tanh"))
    trainings.damage_(model, "clones", 1.0)
    stage = trainings.stage_of(network, trainings.Setting(lr=1.0), 0, seed=0)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for loss in itertools.islice(stage.losses(model), 5):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for layer in trainings.hidden_layers(model):
        assert torch.allclose(layer.weight, layer.weight[:1].expand_as(layer.weight), atol=1e-5)


@pytest.mark.parametrize("network", ["mlp", "cnn", "dqn", "ppo"])  # a ViT's residual stream grows
def test_growth_leaves_what_normed_networks_compute(network):
    setting = trainings.Setting(lr=1.0, activation="tanh", norm=True)
    model = trainings.make_network(network, setting)
    for part in model.modules():
        if isinstance(part, nn.Linear | nn.Conv2d):
            nn.init.zeros_(part.bias)
    x = trainings.stage_of(network, setting, 0, seed=0).data[0][0]
    before = model(x)
    trainings.damage_(model, "growth", 1.0)
    assert torch.allclose(model(x), before, atol=1e-3)


@pytest.mark.parametrize("regime", ["dead", "growth"])
def test_rules_on_rows_say_what_the_monitor_said(regime, monkeypatch):
    monkeypatch.setattr(reference, "STAGE_STEPS", 6)
    monkeypatch.setattr(reference, "GAP", {"steps": 12, "seeds": 2, "lr": 1e-6})
    monkeypatch.setattr(reference, "ruined_at", lambda line: None)
    line = reference.train(reference.Configuration(network="mlp", regime=regime, variant=1), seed=0)
    names = {"dormant": "dormant", "dead_gradient": "dead_gradient", "srank": "srank", "weight_growth": "weight_norm"}
    for level in (alarms.WATCH, alarms.LIKELY):
        said = [max((warning[1] for warning in stage["warnings"]), default=0) >= level for stage in line["stages"]]
        found = [False] * len(line["stages"])
        for key, name in names.items():
            limit = min(alarms.LIMITS[name][level - 1 :])
            limit = math.log10(limit) if name == "weight_norm" else limit
            changes = rules.changes_by_stage(line, rules.KEYS[key], DESIGN)
            found = [before or change >= limit for before, change in zip(found, changes, strict=True)]
        assert said == found
        assert any(said)
        assert not said[0]


PUBLISHED = Path(__file__).parent.parent / "docs" / "results" / "monitor_reference"
RATES = json.loads((PUBLISHED / "rates.json").read_text())
DESIGN = ("any layer", alarms.LASTING)


def test_monitor_has_the_limits_that_were_chosen_and_cites_the_rates_that_were_counted():
    assert RATES["design"] == {"over": DESIGN[0], "persistence": DESIGN[1]}
    names = {"weight_growth": "weight_norm"}
    for own, blind in ((alarms.LIMITS, ""), (alarms.WITHOUT_GRADIENTS, ", no gradients")):
        for place, level in enumerate(("watch", "likely")):
            found = {
                names.get(key, key): x for key, x in RATES["levels"][level + blind]["limits"].items() if x is not None
            }
            found |= {"weight_norm": 10 ** found["weight_norm"]}
            assert {key: limits[place] for key, limits in own.items() if limits[place] < math.inf} == pytest.approx(
                found
            )
    for own, blind in ((alarms.RATES, ""), (alarms.RATES_WITHOUT_GRADIENTS, ", no gradients")):
        for level, name in ((alarms.WATCH, "watch"), (alarms.LIKELY, "likely")):
            report = RATES["levels"][name + blind]["report"]
            shares = [100.0 * report[kind]["warned"] / report[kind]["of"] for kind in ("healthy", "ruined")]
            assert own[level] == tuple(map(round, shares))


def test_published_rates_follow_from_the_published_trainings():
    lines = json.loads((PUBLISHED / "trainings.json").read_text())
    for level, half, kind in itertools.product(RATES["levels"], ("choose", "report"), ("healthy", "ruined")):
        limits = [math.inf if x is None else x for x in RATES["levels"][level]["limits"].values()]
        chosen = [line for line in lines if (line["half"], line["outcome"]) == (half, kind)]
        assert RATES["counts"][half][kind] == len(chosen)
        num_warned = 0
        for line in chosen:
            end = next((n for n, gap in enumerate(line["gaps"]) if gap[0] == L), None)
            by_key = line[f"{DESIGN[0]}, {DESIGN[1]}"]
            largest = [max(math.inf if x is None else x for x in changes[:end]) for changes in by_key]
            num_warned += any(map(float.__ge__, map(float, largest), limits))
        assert RATES["levels"][level][half][kind]["warned"] == num_warned


def test_page_has_the_published_tables():
    assert rules.tables(RATES) in (PUBLISHED.parent / "monitor_reference.md").read_text()


def test_file_goes_on_behind_a_torn_line(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_text('{"seed": 0}\n{"see')
    assert reference.read_lines(path) == [{"seed": 0}]
    assert path.read_text() == '{"seed": 0}\n'


def test_bounds_of_clopper_and_pearson():
    assert rules.clopper_pearson(0, 60) == pytest.approx((0.0, 1.0 - 0.025 ** (1 / 60)))
    assert rules.clopper_pearson(3, 60) == pytest.approx((0.0104, 0.1392), abs=1e-4)  # tables


def test_limits_notice_what_healthy_trainings_do_not_show():
    drawn = np.random.default_rng(1)
    of_all = drawn.uniform(0.0, 0.15, (200, len(rules.KEYS)))
    is_ruined = np.arange(200) >= 100
    of_all[100:150, 0] = drawn.uniform(0.5, 0.9, 50)  # half of the ruined by one number, half by another
    of_all[150:, 3] = drawn.uniform(0.5, 0.9, 50)
    of_all[:20, 1] = of_all[100:110, 1] = 0.9  # healthy ones show this, too
    limits, noticed = rules.chosen_limits(of_all, is_ruined, 0.03)
    assert noticed == 1.0
    assert (limits[[0, 3]] == 0.5).all()
    assert limits[1] == math.inf
    assert not (of_all[~is_ruined] >= limits).any()


def test_area_under_the_curve_is_the_share_of_pairs_in_order():
    false, true, area = rules.roc(np.array([1.0, 2.0, 3.0]), np.array([2.5, 4.0]))
    assert area == pytest.approx(5 / 6)
    assert np.trapezoid(true, false) == pytest.approx(5 / 6)
