"""tools/monitor_reference.py and monitor_rules.py: what counts as what, a line for each network, chosen limits."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import monitor_reference as reference
import monitor_rules as rules
import monitor_trainings as trainings
from supple import alarms
from supple.diagnosis import ORDER

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


def test_no_setting_of_the_test_is_in_the_reference_set():
    assert reference.REGIMES.keys() == reference.TESTED.keys()
    known = {setting for settings in reference.REGIMES.values() for setting in settings}
    new = [setting for settings in reference.TESTED.values() for setting in settings]
    assert len(known & set(new)) == 0
    assert len(reference.configurations(is_test=True)) == len(reference.NETWORKS) * len(new) - 2 * 4  # no dead ViTs


TRAININGS = [  # with norms, and deeper by a layer, for each network
    *((network, "dead", False) for network in reference.NETWORKS),
    *((network, "remedy", True) for network in reference.NETWORKS),
    *(("mlp", "dead", True), ("mlp", "remedy", False)),
]


@pytest.mark.parametrize(("network", "regime", "is_test"), TRAININGS)
def test_training_writes_a_line_that_json_holds(network, regime, is_test, monkeypatch):
    monkeypatch.setattr(reference, "STAGE_STEPS", 6)
    monkeypatch.setattr(reference, "GAP", {"steps": 12, "seeds": 2})
    configuration = reference.Configuration(network=network, regime=regime, variant=2, is_test=is_test)
    line = reference.train(configuration, seed=0, num_stages=2)
    read = json.loads(json.dumps(reference.short(line), allow_nan=False))
    assert reference.key_of(read) == (configuration.name, 0)
    assert [[row["step"] for row in stage["training"]] for stage in read["stages"]] == [[1, 2, 4, 6], [8, 10, 12]]
    for stage, source in itertools.product(read["stages"], ("probe", "fresh")):
        assert 0.0 <= stage[source]["probe/dormant_ratio"] < 1.0
    for key, over in itertools.product(rules.KEYS.values(), rules.OVER_LAYERS):
        changes = rules.changes_by_stage(read, key, over)
        assert len(changes) == 2
        assert all(map(math.isfinite, changes))
    assert set(read["found"]) <= set(ORDER)


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
    wear = rules.wear_by_stage(line, gap=False)
    for level, limit in zip((alarms.WATCH, alarms.LIKELY), alarms.LIMITS[False], strict=True):
        said = [max((warning[1] for warning in stage["warnings"]), default=0) >= level for stage in line["stages"]]
        assert said == [value >= limit for value in wear]
        assert any(said)
        assert not said[0]


def test_gap_of_a_stage_counts_from_its_end_on():
    line = {"stages": [{"training": [row(16.0)], "gap": {"value": 0.25}}], "units": {"0": 16}}
    line["stages"] += [{"training": [row(8.0)] * 3, "gap": {"value": None}}]
    assert rules.wear_by_stage(line, gap=False) == [0.0, 0.5]
    assert rules.wear_by_stage(line, gap=True) == [0.5, 1.0]  # nothing to learn takes the value away again


def row(srank):
    return {"train/0/srank": srank, "train/0/dormant": 0.0, "train/0/weight_norm": 1.0, "train/srank": 1.0}


PUBLISHED = Path(__file__).parent.parent / "docs" / "results" / "monitor_reference"
RATES = json.loads((PUBLISHED / "rates.json").read_text())


def test_monitor_has_the_limits_that_were_chosen_and_cites_the_rates_that_were_counted():
    for kind, with_gap in rules.KINDS.items():
        found = [RATES["levels"][level + kind] for level in ("watch", "likely")]
        assert tuple(level["limit"] for level in found) == alarms.LIMITS[with_gap]
        for level, counted in zip((alarms.WATCH, alarms.LIKELY), found, strict=True):
            last = counted[[*RATES["counts"]][-1]]
            shares = [100.0 * last[kind]["warned"] / last[kind]["of"] for kind in ("healthy", "ruined")]
            assert alarms.RATES[with_gap][level] == tuple(map(round, shares))


def test_published_rates_follow_from_the_published_trainings():
    lines = json.loads((PUBLISHED / "trainings.json").read_text())
    for level, part, kind in itertools.product(RATES["levels"], RATES["counts"], ("healthy", "ruined")):
        chosen = [line for line in lines if (line["set"], line["outcome"]) == (part, kind)]
        assert RATES["counts"][part][kind] == len(chosen)
        num_warned = 0
        for line in chosen:
            end = next((n for n, gap in enumerate(line["gaps"]) if gap[0] == L), None)
            largest = max(line[f"wear{level.removeprefix('watch').removeprefix('likely')}"][:end])
            num_warned += largest >= RATES["levels"][level]["limit"]
        assert RATES["levels"][level][part][kind]["warned"] == num_warned


def test_limits_without_the_gap_until_it_is_measured_change_no_published_count():
    lines = json.loads((PUBLISHED / "trainings.json").read_text())
    for line, level in itertools.product(lines, (0, 1)):
        end = next((n for n, gap in enumerate(line["gaps"]) if gap[0] == L), None)
        if line["wear"][:end] and line["wear"][0] >= alarms.LIMITS[False][level]:
            assert max(line["wear, gap"][:end]) >= alarms.LIMITS[True][level]


def test_page_has_the_published_tables():
    page = (PUBLISHED.parent / "monitor_reference.md").read_text()
    assert [table for table in rules.tables(RATES) if table not in page] == []


def test_file_goes_on_behind_a_torn_line(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_text('{"seed": 0}\n{"see')
    assert reference.read_lines(path) == [{"seed": 0}]
    assert path.read_text() == '{"seed": 0}\n'


def test_bounds_of_clopper_and_pearson():
    assert rules.clopper_pearson(0, 60) == pytest.approx((0.0, 1.0 - 0.025 ** (1 / 60)))
    assert rules.clopper_pearson(3, 60) == pytest.approx((0.0104, 0.1392), abs=1e-4)  # tables


@pytest.mark.parametrize(("most", "limit"), [(0.0, 1.0), (0.1, 0.9), (0.19, 0.9), (0.2, 0.8)])
def test_limit_warns_of_no_more_than_it_may(most, limit):
    healthy = np.arange(0.091, 1.0, 0.1)  # 0.991, 0.891, ...
    assert rules.chosen_limit(healthy, most) == pytest.approx(limit)
    assert (healthy >= rules.chosen_limit(healthy, most)).mean() <= most


def test_diagnosis_is_right_if_it_names_first_what_was_planted():
    named = {
        "dead": [["dead units", "rank collapse"], ["rank collapse", "dead units"], []],
        "healthy": [[], ["saturation"]],
    }
    lines = [
        {"regime": r, "outcome": "healthy", "found": found} for r, all_found in named.items() for found in all_found
    ]
    found = rules.diagnoses([*lines, {"regime": "decay", "outcome": "ruined", "found": []}])
    assert [found["dead"][key]["warned"] for key in ("right", "among")] == [1, 2]
    assert found["dead"]["first"] == {"dead units": 1, "rank collapse": 1, "nothing found": 1}
    assert found["nothing"]["right"]["warned"] == 1
    assert found["ruined"]["something"] == {"warned": 0, "of": 1, "interval": pytest.approx((0.0, 0.975))}


def test_area_under_the_curve_is_the_share_of_pairs_in_order():
    false, true, area = rules.roc(np.array([1.0, 2.0, 3.0]), np.array([2.5, 4.0]))
    assert area == pytest.approx(5 / 6)
    assert np.trapezoid(true, false) == pytest.approx(5 / 6)
