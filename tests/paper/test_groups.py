"""Groups: how many of several conditions decide, and that looking often does not make a verdict."""

import numpy as np
import pytest
from scipy import stats

from supple_lab.paper.groups import in_each, in_most, in_one, provided, under_both
from supple_lab.report.verdict import claim_above, not_run
from supple_lab.results.results import Sample

WORDS = {"claim": "it is so", "paper": "yes"}
NUM_SEEDS = 5


def row_at(t_value, name="a"):
    """The claim "above 0" on five seeds whose mean has this t."""
    spread = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    mean = t_value * spread.std(ddof=1) / NUM_SEEDS**0.5
    runs = tuple(f"{name}{seed}" for seed in range(NUM_SEEDS))
    sample = Sample(values=spread + mean, seeds=tuple(range(NUM_SEEDS)), runs=runs)
    return claim_above(sample, 0.0, quantity="a number", **WORDS)


def rows_at(*t_values):
    return {f"condition {place}": row_at(t, name=f"{place}-") for place, t in enumerate(t_values)}


def bound(chance):
    """The t beyond which five seeds have this chance, two-sided."""
    return float(stats.t.ppf(1.0 - chance / 2.0, df=NUM_SEEDS - 1))


SURE = 50.0


def test_a_single_condition_is_decided_at_five_percent():
    assert row_at(1.01 * bound(0.05)).verdict == "holds"
    assert row_at(0.99 * bound(0.05)).verdict == "not decided"
    assert row_at(3.0).chance == pytest.approx(stats.ttest_1samp([-2, -1, 0, 1, 2] + 3.0 * np.sqrt(0.5), 0.0).pvalue)


def test_where_each_must_hold_each_may_be_decided_at_five_percent():
    barely = 1.01 * bound(0.05)
    assert in_each(rows_at(*[barely] * 8), WORDS).verdict == "holds"
    assert in_one(rows_at(*[-barely] * 8), WORDS).verdict == "fails"


@pytest.mark.parametrize(("factor", "verdict"), [(1.01, True), (0.99, False)])
def test_one_of_eight_decides_only_at_an_eighth_of_that(factor, verdict):
    alone = factor * bound(0.05 / 8)
    assert in_each(rows_at(-alone, *[SURE] * 7), WORDS).verdict == ("fails" if verdict else "not decided")
    assert in_one(rows_at(alone, *[-SURE] * 7), WORDS).verdict == ("holds" if verdict else "not decided")


@pytest.mark.parametrize(("factor", "verdict"), [(1.01, "holds"), (0.99, "not decided")])
def test_most_of_eight_are_five_at_a_quarter_of_that(factor, verdict):
    weakest = factor * bound(0.05 / 4)
    assert in_most(rows_at(*[SURE] * 4, weakest, *[-SURE] * 3), WORDS).verdict == verdict


def test_a_verdict_that_may_be_chance_says_so():
    row = in_each(rows_at(-1.01 * bound(0.05), *[SURE] * 7), WORDS)
    assert row.verdict == "not decided"
    remark = "after 8 looks that may be chance (p = 0.39), so not decided"
    assert row.remark == remark
    assert row.brief == f"holds in 7 of 8 (at least 8?); {remark}"
    others = ", ".join(f"condition {place}" for place in range(1, 8))
    assert row.told == f"holds in 7 of 8 (at least 8?): holds in {others}; fails in condition 0; {remark}"


def test_a_claim_over_several_conditions_that_is_open_is_as_likely_as_can_be():
    row = in_each(rows_at(0.0, SURE), WORDS)
    assert (row.verdict, row.chance) == ("not decided", 1.0)


def test_a_group_in_a_group_keeps_its_own_sentence_verdict_and_parts():
    inner = in_each(rows_at(-1.01 * bound(0.05), *[SURE] * 7), WORDS)
    row = in_each({"a": inner, "b": row_at(SURE)}, WORDS)
    assert [(part.name, part.verdict, part.brief, len(part.parts)) for part in row.parts] == [
        ("a", "not decided", inner.brief, 8),
        ("b", "holds", row_at(SURE).measured, 0),
    ]
    remark = "what decides a may be chance after so many looks, so not decided there"
    assert row.brief == f"holds in 1 of 2 (at least 2?); {remark}"
    assert row.told == f"holds in 1 of 2 (at least 2?): holds in b; not decided in a; {remark}"
    assert in_each({"b": row_at(0.0), "c": row_at(SURE)}, WORDS).remark == ""


@pytest.mark.parametrize(("factor", "verdict"), [(1.01, "fails"), (0.99, "not decided")])
def test_a_condition_that_was_not_run_is_no_look(factor, verdict):
    alone = factor * bound(0.05 / 2)
    waiting = {f"waiting {place}": not_run(**WORDS) for place in range(6)}
    row = in_each({**rows_at(-alone, SURE), **waiting}, WORDS)
    assert row.verdict == verdict
    assert row.remark.startswith("after 2 looks") == (verdict == "not decided")


def test_groups_of_groups_keep_count():
    inner = in_one(rows_at(1.01 * bound(0.01), *[-SURE] * 4), WORDS)  # one of five at 1%: 5% together
    assert inner.verdict == "holds"
    assert inner.chance == pytest.approx(0.05, rel=0.1)
    assert in_each({"a": inner, "b": inner}, WORDS).verdict == "holds"
    assert in_one({"a": inner, "b": row_at(-SURE)}, WORDS).verdict == "not decided"


def test_looking_at_eight_null_conditions_finds_one_no_more_often_than_five_percent():
    generator, found, number = np.random.default_rng(0), 0, 400
    for _ in range(number):
        samples = generator.normal(size=(8, NUM_SEEDS))
        rows = {f"{place}": claim_above(values, 0.0, quantity="noise", **WORDS) for place, values in enumerate(samples)}
        found += in_one(rows, WORDS).verdict == "holds"
    assert found / number < 0.025 + 5 * (0.025 * 0.975 / number) ** 0.5  # one side of 5%


@pytest.mark.parametrize(
    ("t_values", "verdict"),
    [((SURE, SURE), "holds"), ((-SURE, -SURE), "fails"), ((SURE, -SURE), "not decided"), ((SURE, 0.0), "not decided")],
)
def test_readings_decide_only_where_they_agree(t_values, verdict):
    row = under_both(rows_at(*t_values), WORDS)
    assert row.verdict == verdict
    assert (row.chance == 1.0) == (verdict == "not decided")
    assert len(row.parts) == 2


def test_a_reading_that_has_not_run_leaves_the_other_open():
    assert under_both({**rows_at(SURE), "waiting": not_run(**WORDS)}, WORDS).verdict == "not decided"
    row = under_both({"a": not_run(**WORDS), "b": not_run(**WORDS)}, WORDS)
    assert (row.verdict, row.measured, row.n) == ("not run", "", 0)


def test_readings_are_as_unsure_as_the_less_sure_of_them():
    unsure = 1.5 * bound(0.05)
    assert under_both(rows_at(SURE, unsure), WORDS).chance == row_at(unsure).chance


@pytest.mark.parametrize("t_value", [SURE, -SURE])
@pytest.mark.parametrize("unmet", [row_at(-SURE), row_at(0.0), not_run(**WORDS)], ids=lambda row: row.verdict)
def test_a_precondition_that_does_not_hold_leaves_a_claim_open_and_makes_none_fail(t_value, unmet):
    row = provided(row_at(t_value), {"there is a loss": unmet})
    assert (row.verdict, row.chance) == ("not decided", 1.0)
    assert f"precondition there is a loss: {unmet.verdict}" in row.measured


@pytest.mark.parametrize(("t_value", "verdict"), [(SURE, "holds"), (-SURE, "fails"), (0.0, "not decided")])
def test_a_precondition_that_holds_changes_no_verdict_but_its_chance(t_value, verdict):
    barely = row_at(1.5 * bound(0.05), name="other")
    row = provided(row_at(t_value), {"there is a loss": barely})
    assert (row.verdict, row.measured) == (verdict, row_at(t_value).measured)
    assert row.chance == max(barely.chance, row_at(t_value).chance)
    assert set(row.runs) == {*row_at(t_value).runs, *barely.runs}


def test_of_a_claim_that_is_open_anyway_only_a_precondition_that_fails_is_told():
    told = [provided(row_at(0.0), {"there is a loss": row_at(t)}).measured for t in (0.0, -SURE)]
    assert ["precondition" in one for one in told] == [False, True]


def test_what_has_not_run_stays_not_run_whatever_its_precondition():
    assert provided(not_run(**WORDS), {"there is a loss": row_at(-SURE)}).verdict == "not run"
