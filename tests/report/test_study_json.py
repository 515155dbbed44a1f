"""STUDY.json: its shape, and that it is JSON by the letter."""

import json
from dataclasses import replace

import numpy as np
from samples import CLAIM, INFO, PROVENANCE, RESULTS, run

from supple.methods import UseAID
from supple_lab.report.figure import ClaimRow, StudyReport
from supple_lab.report.study_json import study_json
from supple_lab.results.results import Results
from supple_lab.spec import RunSpec


def no_constant(name):
    raise ValueError(f"{name} is not JSON")


def load(results=RESULTS, claims=(CLAIM,)):
    made = StudyReport(figures=(), tables=(), claims=claims, notes=("Selected on the very seeds reported.",))
    info = replace(INFO, notes=("Slim networks.",))
    text = study_json(info, results, report=made, provenance=PROVENANCE)
    return json.loads(text, parse_constant=no_constant)


def test_file_has_exactly_the_promised_keys():
    content = load()
    assert list(content) == (
        ["study", "scale", "command", "commit", "versions", "machine", "notes", "runs", "series", "claims", "missing"]
    )
    assert {tuple(run) for run in content["runs"]} == {
        ("id", "method", "dataset", "seed", "status", "condition", "spec", "seconds", "device", "precision")
    }
    assert {tuple(point) for point in content["series"]} == {("run", "metric", "stage", "value")}
    assert {tuple(row) for row in content["claims"]} == {
        (
            "measured",
            "interval",
            "n",
            "verdict",
            "chance",
            "remark",
            "runs",
            "parts",
            "claim",
            "paper",
            "section",
            "study",
            "rule",
            "rule_date",
            "rule_commit",
            "num_before",
        )
    }


def test_every_run_is_listed_with_a_spec_that_gives_its_id():
    runs = load()["runs"]
    assert [(run["method"], run["dataset"], run["seed"], run["status"]) for run in runs] == [
        ("aid", "digits", 0, "done"),
        ("aid", "digits", 1, "done"),
        ("vanilla", "digits", 0, "diverged"),
        ("vanilla", "digits", 1, "waiting"),
    ]
    for listed in runs:
        assert RunSpec.from_json(json.dumps(listed["spec"])).run_id == listed["id"]


def test_series_hold_every_record_of_every_run():
    series = load()["series"]
    first = RESULTS.runs[0].spec.run_id
    assert [point for point in series if point["run"] == first] == [
        {"run": first, "metric": "train_accuracy", "stage": 0, "value": 0.5},
        {"run": first, "metric": "train_accuracy", "stage": 1, "value": 0.75},
    ]
    assert len(series) == 5


def test_numbers_that_are_not_finite_become_null():
    bad = run(UseAID(), records=({"stage": 0, "loss": float("nan"), "rank": float("inf"), "deep": [float("-inf"), 1]},))
    claim = ClaimRow(claim="c", paper="p", measured="m", interval=(float("nan"), 1.0), n=1, verdict="not decided")
    content = load(Results((bad,)), (claim,))
    assert [point["value"] for point in content["series"]] == [None, None, [None, 1]]
    assert content["claims"][0]["interval"] == [None, 1.0]


def test_values_have_six_significant_digits_and_counts_all_of_theirs():
    long = {"stage": 0, "accuracy": 55358 / 60000, "loss": 1234567.8, "tiny": -1 / 3e9, "whole": 5.0, "steps": 12345678}
    long["numpy"] = np.float64(0.5)
    values = [point["value"] for point in load(Results((run(UseAID(), records=(long,)),)))["series"]]
    assert values == [0.922633, 1.23457e6, -3.33333e-10, 5.0, 12345678, 0.5]


def test_missing_runs_are_named_with_their_reason_condition_and_settings():
    done, waiting = (run(UseAID(relu_prob=p), state=s, condition="CNN") for p, s in ((0.7, "done"), (0.9, "waiting")))
    (missing,) = load(Results((done, waiting)))["missing"]
    assert (missing["condition"], missing["settings"]) == ("CNN", "relu prob 0.9")
    assert [(run["method"], run["seed"], run["status"], run["reason"]) for run in load()["missing"]] == [
        ("vanilla", 0, "diverged", "the loss became nan in epoch 3 of stage 1."),
        ("vanilla", 1, "waiting", ""),
    ]


def test_a_run_names_its_precision_also_where_its_status_does_not():
    known = run(seed=0, facts={"precision": "bf16", "not_captured": "a reason"})
    old = replace(run(seed=1), device="cuda")
    ended_nowhere = replace(run(seed=2, state="waiting"), device="")
    runs = load(Results((known, old, ended_nowhere)))["runs"]
    assert [one["precision"] for one in runs] == ["bf16", "tf32", ""]
    assert [one.get("not_captured") for one in runs] == ["a reason", None, None]  # as all that a status says
