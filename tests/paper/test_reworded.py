"""Rules that were worded anew decide as the typed ones did: on published runs (test_published_results.py), and here."""

import json
import math

import pytest
from made_decisions import FIELDS, FILE, decisions

BEFORE = json.loads(FILE.read_text())


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("case", BEFORE)
def test_a_reworded_rule_decides_as_before(case):
    now = decisions(*case.split(", "))
    assert len(now) == len(BEFORE[case])
    for before, after in zip(BEFORE[case], now, strict=True):
        told = dict(zip(FIELDS, after, strict=True))
        assert after[:3] == before[:3], told
        assert numbers(after) == pytest.approx(numbers(before), rel=1e-6, abs=1e-9, nan_ok=True), told


def numbers(row):
    *_, interval, chance = row
    return [chance, *(interval or (math.inf, math.inf))]


def test_made_up_runs_are_decided_in_every_way():
    verdicts = {row[2] for rows in BEFORE.values() for row in rows}
    assert verdicts == {"holds", "fails", "not decided", "not run"}
