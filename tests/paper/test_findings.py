"""Verdicts at and around their boundaries, and that looking often does not make one."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from supple_lab.paper.claims import Above, Agree, All, AtPaperScale, Below, Each, Most, Number, OnlyIf, Some, Within
from supple_lab.paper.findings import NOT_RUN, agreed, counted, divergence, in_at_least, known_mean
from supple_lab.results.results import Sample

NUM_SEEDS = 5
SURE = 50.0
GIVEN = Number("a number", lambda sample: sample)  # rules are asked of samples here
ABOVE = Above(GIVEN)


def sample(*values, name="a"):
    seeds = tuple(range(len(values)))
    return Sample(values=np.array(values, dtype=float), seeds=seeds, runs=tuple(f"{name}{seed}" for seed in seeds))


def test_divergence_names_how_many_of_how_many_seeds():
    samples = {"a": sample(np.nan), "b": sample(1.0, np.nan), "c": sample(1.0)}
    assert divergence(samples) == "diverged and lost there: a in 1 of 1 seed, b in 1 of 2 seeds"


def decide(rule, runs, scale="paper"):
    return rule.decide(runs, scale)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([0.68, 0.7, 0.72], "holds"),
        ([0.18, 0.2, 0.22], "fails"),
        ([0.1, 0.5, 0.9], "not decided"),
        ([0.5, 0.5, 0.5], "not decided"),  # on the boundary: neither side
        ([0.6, 0.7, 0.8], "not decided"),  # all above, but three seeds this far apart leave room below
        ([0.9], "not decided"),  # a single seed has no interval
        ([0.9, 0.9], "not decided"),  # two equal ones have a point for an interval
        ([0.3 + 0.6, 0.9], "not decided"),  # equal but for rounding
        ([0.9, 0.901], "holds"),
        ([0.9, float("nan"), 0.9], "not decided"),
        ([], "not run"),
        ((0.0, 1e-12), "not decided"),
        ((0.25, 0.25 + 1.5e-12), "fails"),
        ((1e6, 1e6 + 5e-7), "not decided"),  # the part in 1e12 is one of the numbers' own size
        ((1e6, 1e6 + 1.5e-6), "holds"),
    ],
)
def test_a_side_is_decided_by_the_whole_interval(values, verdict):
    assert decide(Above(GIVEN, 0.5), sample(*values)).verdict == verdict
    assert decide(Below(GIVEN, -0.5), sample(*(-np.array(values)))).verdict == verdict


def test_a_finding_says_what_was_measured_with_how_many_seeds():
    found = decide(Above(GIVEN, 0.5), sample(0.6, 0.7, 0.8))
    assert (found.measured, found.n, found.runs) == ("0.700 ± 0.100: a number (above 0.5?)", 3, ("a0", "a1", "a2"))
    assert found.interval == pytest.approx((0.4516, 0.9484), abs=1e-4)  # 4.303 * 0.1 / sqrt(3)


def test_mean_leaves_out_seeds_without_a_value_and_is_farthest_if_none_has_one():
    assert known_mean(sample(1.0, np.nan, 4.0)) == 2.5
    assert known_mean(sample(np.nan)) == np.inf


def test_two_equal_seeds_say_why_they_decide_nothing():
    found = decide(Within(GIVEN, 0.05), sample(0.0, 0.0))
    assert (found.verdict, found.interval, found.chance) == ("not decided", None, 1.0)
    assert found.measured.endswith("two equal seeds have no spread, so not decided")
    assert decide(Above(GIVEN, 0.5), sample(0.9, 0.9, 0.9)).verdict == "holds"


def test_a_diverged_run_leaves_a_claim_undecided_and_is_told():
    found = decide(Above(GIVEN, 0.5), sample(0.9, 0.9, float("nan")))
    assert (found.verdict, found.n, found.interval, found.chance) == ("not decided", 3, None, 1.0)
    assert found.measured == "0.900 ± 0.000: a number (above 0.5?); 1 of 3 without a value (diverged), so not decided"


@pytest.mark.parametrize("rule", [Above, Below])
def test_chance_is_the_p_value_of_students_test_at_the_threshold(rule):
    values = [0.6, 0.7, 0.8]
    assert decide(rule(GIVEN, 0.5), sample(*values)).chance == pytest.approx(stats.ttest_1samp(values, 0.5).pvalue)


@pytest.mark.parametrize(("value", "chance"), [(0.75, 0.0), (0.5, 1.0)])
def test_equal_seeds_leave_no_chance_off_the_threshold_and_all_of_it_on_the_threshold(value, chance):
    assert decide(Above(GIVEN, 0.5), sample(value, value, value)).chance == chance


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ([0.001, -0.001, 0.0], "holds"),
        ([0.3, 0.31, 0.29], "fails"),
        ([-0.3, -0.31, -0.29], "fails"),
        ([0.0, 0.1, -0.1], "not decided"),  # the mean is zero, but the interval is wider than the margin
        ([0.05, 0.05, 0.05], "not decided"),  # on the boundary
        ([0.0], "not decided"),
        ([], "not run"),
    ],
)
def test_equality_is_decided_by_the_whole_interval(differences, verdict):
    assert decide(Within(GIVEN, 0.05), sample(*differences)).verdict == verdict


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize(("mean", "verdict"), [(0.022, "fails"), (0.018, "holds")])
def test_the_chance_of_an_equality_is_that_of_the_nearer_edge(mean, verdict, sign):
    differences = sign * (mean + np.array([-0.0005, 0.0, 0.0005]))
    found = decide(Within(GIVEN, 0.02), sample(*differences))
    nearer = stats.ttest_1samp(differences, sign * 0.02).pvalue
    assert (found.verdict, found.chance) == (verdict, pytest.approx(nearer))
    assert stats.ttest_1samp(differences, -sign * 0.02).pvalue < nearer / 10


ONE, OTHER = (Number("accuracy", lambda pair, place=place: pair[place], "ab"[place]) for place in (0, 1))


def test_a_difference_is_decided_within_seeds_where_the_spread_between_them_is_large():
    pair = sample(0.2, 0.5, 0.8), sample(0.1, 0.41, 0.69, name="b")
    assert decide(Above(ONE - OTHER), pair).verdict == "holds"
    assert decide(Below(ONE - OTHER), pair).verdict == "fails"
    assert decide(Above(ONE - OTHER, 0.2), pair).verdict == "fails"
    assert decide(Above(ONE, 0.4), pair).verdict == "not decided"
    assert decide(Above(ONE - OTHER), pair).runs == ("a0", "b0", "a1", "b1", "a2", "b2")


def test_numbers_are_called_by_what_they_are_made_of():
    assert (ONE - OTHER).text == "accuracy of a minus that of b"
    assert (ONE - 0.5 * OTHER).text == "accuracy of a minus half of that of b"
    assert (1.1 * ONE - GIVEN).text == "1.1 times accuracy of a minus a number"
    assert Above(ONE - OTHER, 0.5).text == "accuracy of a minus that of b: above 0.5"
    assert (0.5 * ONE).of((sample(2.0, 4.0), None)).values.tolist() == [1.0, 2.0]
    assert ONE.in_seeds_of(OTHER).of((sample(2.0, 4.0), sample(1.0))).values.tolist() == [2.0]


def at(t_value, name="a"):
    """Five seeds whose mean is so many of its standard errors above 0."""
    spread = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    return sample(*(spread + t_value * spread.std(ddof=1) / NUM_SEEDS**0.5), name=name)


def cases(*t_values):
    return {f"condition {place}": at(t, name=f"{place}-") for place, t in enumerate(t_values)}


def each(*t_values, kind=Each):
    return decide(kind("", dict, ABOVE), cases(*t_values))


def bound(chance):
    """The t beyond which five seeds have this chance, two-sided."""
    return float(stats.t.ppf(1.0 - chance / 2.0, df=NUM_SEEDS - 1))


@pytest.mark.parametrize(
    ("verdicts", "at_least", "verdict"),
    [
        (["holds", "holds", "fails"], 2, "holds"),
        (["holds", "fails", "fails"], 2, "fails"),
        (["holds", "not decided", "fails"], 2, "not decided"),
        (["holds", "not run", "fails"], 2, "not decided"),  # what was not run may yet hold
        (["not run", "fails", "fails"], 2, "fails"),
        (["not run", "not run", "not run"], 1, "not run"),
    ],
)
def test_cases_are_counted(verdicts, at_least, verdict):
    found = {f"g{i}": replace(decide(ABOVE, sample(0.5, name=f"g{i}")), verdict=one) for i, one in enumerate(verdicts)}
    whole = counted(found, at_least)
    assert (whole.verdict, set(whole.runs)) == (verdict, {"g00", "g10", "g20"})
    assert whole.chance == float(verdict == "not decided")
    if verdict != "not run":
        assert whole.measured == f"holds in {verdicts.count('holds')} of 3 (at least {at_least}?)"
        assert [part.verdict for part in whole.parts] == verdicts
    else:
        assert (whole.measured, whole.n) == ("", 0)


def test_a_claim_over_cases_has_as_many_seeds_as_the_fewest_of_them_and_parts_name_their_runs():
    values = {"a": (0.5, 0.6, 0.7), "b": (0.5, 0.6), "c": ()}
    found = {name: decide(Above(GIVEN, 0.1), sample(*own, name=name)) for name, own in values.items()}
    whole = counted({**found, "d": counted(found, 2)}, 2)
    assert whole.n == 2
    named = {"a": ("a0", "a1", "a2"), "b": ("b0", "b1"), "c": ()}
    assert {part.name: part.runs for part in whole.parts} == {**named, "d": ("a0", "a1", "a2", "b0", "b1")}
    assert {part.name: part.runs for part in whole.parts[-1].parts} == named


def test_a_single_case_is_decided_at_five_percent():
    assert decide(ABOVE, at(1.01 * bound(0.05))).verdict == "holds"
    assert decide(ABOVE, at(0.99 * bound(0.05))).verdict == "not decided"
    assert in_at_least(1, {"a": replace(decide(ABOVE, at(SURE)), chance=0.05)}).verdict == "holds"


def test_where_each_must_hold_each_may_be_decided_at_five_percent():
    barely = 1.01 * bound(0.05)
    assert each(*[barely] * 8).verdict == "holds"
    assert each(*[-barely] * 8, kind=Some).verdict == "fails"


@pytest.mark.parametrize(("factor", "is_decided"), [(1.01, True), (0.99, False)])
def test_one_of_eight_decides_only_at_an_eighth_of_that(factor, is_decided):
    alone = factor * bound(0.05 / 8)
    assert each(-alone, *[SURE] * 7).verdict == ("fails" if is_decided else "not decided")
    assert each(alone, *[-SURE] * 7, kind=Some).verdict == ("holds" if is_decided else "not decided")


@pytest.mark.parametrize(("factor", "verdict"), [(1.01, "holds"), (0.99, "not decided")])
def test_most_of_eight_are_five_at_a_quarter_of_that(factor, verdict):
    assert each(*[SURE] * 4, factor * bound(0.05 / 4), *[-SURE] * 3, kind=Most).verdict == verdict


def test_a_verdict_that_may_be_chance_says_so():
    found = each(-1.01 * bound(0.05), *[SURE] * 7)
    remark = "after 8 looks that may be chance (p = 0.39), so not decided"
    assert (found.verdict, found.chance, found.remark) == ("not decided", 1.0, remark)
    assert found.brief == f"holds in 7 of 8 (at least 8?); {remark}"
    others = ", ".join(f"condition {place}" for place in range(1, 8))
    assert "(p = 1)" in each(-1.01 * bound(0.05), *[SURE] * 29).remark
    assert found.in_full == f"holds in 7 of 8 (at least 8?): holds in {others}; fails in condition 0; {remark}"


def test_a_group_in_a_group_keeps_its_own_sentence_verdict_and_parts():
    inner = each(-1.01 * bound(0.05), *[SURE] * 7)
    sure = decide(ABOVE, at(SURE))
    whole = in_at_least(2, {"a": inner, "b": sure})
    assert [(part.name, part.verdict, part.brief, len(part.parts)) for part in whole.parts] == [
        ("a", "not decided", inner.brief, 8),
        ("b", "holds", sure.measured, 0),
    ]
    remark = "what decides a may be chance after so many looks, so not decided there"
    assert whole.brief == f"holds in 1 of 2 (at least 2?); {remark}"
    assert each(0.0, SURE).remark == ""
    assert agreed({"a": inner, "b": sure}).remark == remark


@pytest.mark.parametrize(("factor", "verdict"), [(1.01, "fails"), (0.99, "not decided")])
def test_a_case_that_was_not_run_is_no_look(factor, verdict):
    waiting = {f"waiting {place}": sample() for place in range(6)}
    found = decide(Each("", dict, ABOVE), {**cases(-factor * bound(0.05 / 2), SURE), **waiting})
    assert found.verdict == verdict
    assert found.remark.startswith("after 2 looks") == (verdict == "not decided")


def test_groups_of_groups_keep_count():
    inner = each(1.01 * bound(0.01), *[-SURE] * 4, kind=Some)  # one of five at 1%: 5% together
    assert inner.verdict == "holds"
    assert inner.chance == pytest.approx(0.05, rel=0.1)
    assert in_at_least(2, {"a": inner, "b": inner}).verdict == "holds"
    assert in_at_least(1, {"a": inner, "b": decide(ABOVE, at(-SURE))}).verdict == "not decided"


def test_looking_at_eight_null_cases_finds_one_no_more_often_than_five_percent():
    generator, number = np.random.default_rng(0), 400
    draws = generator.normal(size=(number, 8, NUM_SEEDS))
    named = ({f"{place}": sample(*values) for place, values in enumerate(drawn)} for drawn in draws)
    found = sum(decide(Some("", dict, ABOVE), drawn).verdict == "holds" for drawn in named)
    assert found / number < 0.025 + 5 * (0.025 * 0.975 / number) ** 0.5  # one side of 5%


def test_several_rules_of_a_case_are_looks_of_their_own():
    rules = {": above": ABOVE, ": below 9": Below(GIVEN, 9.0)}
    found = decide(Each("in each", dict, rules), cases(SURE, 0.0))
    assert [part.name for part in found.parts] == [f"condition {k}{more}" for k in (0, 1) for more in rules]
    assert Each("in each", dict, rules).text == "a number: above 0; and a number: below 9, in each"
    assert decide(All({"a": ABOVE, "b": Below(GIVEN, 99.0)}), at(SURE)).verdict == "holds"
    assert decide(All({"a": ABOVE, "b": Below(GIVEN, 9.0)}), at(SURE)).verdict == "fails"


@pytest.mark.parametrize(
    ("t_values", "verdict"),
    [((SURE, SURE), "holds"), ((-SURE, -SURE), "fails"), ((SURE, -SURE), "not decided"), ((SURE, 0.0), "not decided")],
)
def test_readings_decide_only_where_they_agree(t_values, verdict):
    found = each(*t_values, kind=Agree)
    assert (found.verdict, len(found.parts)) == (verdict, 2)
    assert (found.chance == 1.0) == (verdict == "not decided")
    assert found.measured == f"holds by {t_values.count(SURE)} of 2 readings (all or none?)"


def test_a_reading_that_has_not_run_leaves_the_other_open():
    agree = Agree("", dict, ABOVE)
    assert decide(agree, {"a": at(SURE), "waiting": sample()}).verdict == "not decided"
    found = decide(agree, {"a": sample(), "b": sample()})
    assert (found.verdict, found.measured, found.n) == ("not run", "", 0)


def test_readings_are_as_unsure_as_the_less_sure_of_them():
    unsure = 1.5 * bound(0.05)
    assert each(SURE, unsure, kind=Agree).chance == decide(ABOVE, at(unsure)).chance


GUARDED = OnlyIf({"there is a loss": Above(OTHER)}, Above(ONE))


@pytest.mark.parametrize("t_value", [SURE, -SURE])
@pytest.mark.parametrize(
    "guard", [at(-SURE, name="b"), at(0.0, name="b"), sample()], ids=["fails", "not decided", "not run"]
)
def test_a_precondition_that_does_not_hold_leaves_a_claim_open_and_makes_none_fail(t_value, guard):
    found = decide(GUARDED, (at(t_value), guard))
    assert (found.verdict, found.chance) == ("not decided", 1.0)
    assert f"precondition there is a loss: {decide(ABOVE, guard).verdict}" in found.measured
    assert set(found.runs) == {*at(t_value).runs, *guard.runs}


@pytest.mark.parametrize(("t_value", "verdict"), [(SURE, "holds"), (-SURE, "fails"), (0.0, "not decided")])
def test_a_precondition_that_holds_changes_no_verdict_but_its_chance(t_value, verdict):
    barely, own = at(1.5 * bound(0.05), name="other"), decide(Above(ONE), (at(t_value), None))
    found = decide(GUARDED, (at(t_value), barely))
    assert (found.verdict, found.measured) == (verdict, own.measured)
    assert found.chance == max(decide(ABOVE, barely).chance, own.chance)
    assert set(found.runs) == {*own.runs, *barely.runs}


def test_of_a_claim_that_is_open_anyway_only_a_precondition_that_fails_is_told():
    told = [decide(GUARDED, (at(0.0), at(t))).measured for t in (0.0, -SURE)]
    assert ["precondition" in one for one in told] == [False, True]


def test_what_has_not_run_stays_not_run_whatever_its_precondition():
    assert decide(GUARDED, (sample(), at(-SURE))) == NOT_RUN
    assert (NOT_RUN.n, NOT_RUN.interval) == (0, None)


def test_a_number_of_the_paper_decides_at_its_scale_alone():
    rule = AtPaperScale(ABOVE)
    assert decide(rule, at(SURE)).verdict == "holds"
    found = decide(rule, at(SURE), "quick")
    assert (found.verdict, found.chance) == ("not decided", 1.0)
    assert found.measured.endswith("the paper's number belongs to the paper's scale")
    assert decide(rule, sample(), "quick").verdict == "not run"
