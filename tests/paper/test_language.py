"""Language: losses decide its claims, lower is better, in both streams and by both losses."""

import json

import numpy as np

from supple.methods import FullReset
from supple_lab.cli import supple
from supple_lab.paper.language import FRESH, Language, arm_of
from supple_lab.paper.study import StudyOptions
from supple_lab.results.results import Results, RunResult

STUDY, ORDER = Language(), StudyOptions(scale="full")
KEYS = [claim.key.removeprefix("language_") for claim in STUDY.claims]
# As one would expect: networks that go on get worse, but for AID; FIRE alone of the others helps.
LAST = {"vanilla": 2.4, "gelu": 2.3, "aid": 1.9, "fire": 2.0} | dict.fromkeys(FRESH.values(), 2.0)


def made_run(spec, **more):
    """Losses from 2.0 to the last one of the method; tests are a tenth lower."""
    number, last = spec.problem.scenario.num_stages, (LAST | more).get(arm_of(spec), 2.5)
    last = last(spec) if callable(last) else last
    values = np.linspace(2.0, last, number) + 0.001 * spec.seed * (1 + len(spec.method.name))
    records = tuple({"stage": k, "online_loss": float(x), "test_loss": float(x - 0.1)} for k, x in enumerate(values))
    return RunResult(spec=spec, state="done", seconds=1.0, reason="", records=records)


def verdicts(**more):
    drawing = STUDY.draw(Results(tuple(made_run(spec, **more) for spec in STUDY.specs(ORDER))), ORDER)
    return dict(zip(KEYS, [row.verdict for row in drawing.claims], strict=True))


def test_claims_are_decided_by_lower_losses():
    assert verdicts() == {
        "vanilla_loses": "holds",
        "gelu_loses": "holds",
        "aid_loses": "fails",
        "aid_beats_vanilla": "holds",
        "aid_beats_gelu": "holds",
        "some_method_helps": "holds",
    }


def test_each_claim_can_fail():
    found = verdicts(vanilla=1.7, gelu=1.7, aid=1.8, fire=2.0)
    assert found == dict.fromkeys(KEYS, "fails")


def test_a_method_that_helps_in_one_stream_alone_does_not_help():
    found = verdicts(fire=lambda spec: 2.0 if spec.problem.scenario.change == "package" else 2.5)
    assert found["some_method_helps"] == "fails"


def test_each_activation_is_beside_fresh_networks_of_its_own_on_the_same_stages():
    specs = STUDY.specs(ORDER)
    for change in ("vocabulary", "package"):
        own = [spec for spec in specs if spec.problem.scenario.change == change]
        assert {spec.seed for spec in own} == {0, 1, 2}
        assert len({spec.problem for spec in own}) == len({spec.model for spec in own}) == 1
        fresh = [spec for spec in own if isinstance(spec.method, FullReset)]
        assert {arm_of(spec) for spec in fresh} == set(FRESH.values())
        going_on = {arm_of(spec): spec.method for spec in own if spec not in fresh}
        for spec in fresh:
            if spec.method.built_with is not None:
                assert spec.method.built_with == going_on[spec.method.built_with.name]


def test_smoke_scale_runs_and_reports_losses(tmp_path):
    order = ["--scale", "smoke", "--engine", "inline", "--quiet", "--methods", "aid", "--only", "alphabets"]
    assert supple(["run", "language", *order, "--out", str(tmp_path)]) == 0
    written = json.loads((tmp_path / "report/language.json").read_text())
    series = {one["metric"] for one in written["series"]}
    assert {"online_loss", "test_loss", "train_loss"} <= series
    done = [run for run in written["runs"] if run["status"] == "done"]
    assert sorted(run["method"] for run in done) == ["aid", "full_reset", "full_reset"]
    assert all(0 < one["value"] < 6 for one in written["series"] if one["metric"] == "online_loss")
