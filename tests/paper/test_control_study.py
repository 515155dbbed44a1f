"""Control: its runs, and its claims decided by their rules."""

from collections import Counter

import pytest

from supple_lab import registry
from supple_lab.paper.compare import label_of
from supple_lab.paper.control import Control
from supple_lab.paper.study import StudyOptions
from supple_lab.results.results import Results, RunResult
from supple_lab.rl.dqn_problem import DQN
from supple_lab.rl.off_policy_problem import OffPolicy
from supple_lab.rl.ppo_problem import PPO
from supple_lab.run.check import check_suitable
from supple_lab.run.run import execute
from supple_lab.scenarios.base import Unsuitable
from supple_lab.store.store import Store

FULL, STUDY = StudyOptions(scale="full"), Control()
REFUSED = ("aid_gauss", "aid_per_unit", "random_smooth_leaky", "rrelu")  # by PPO


USUAL = {"vanilla": 50.0, "full_reset": 100.0, "aid": 80.0, "l2_init": 60.0, "cbp": 40.0}
WITH_DROPOUT = StudyOptions(scale="full", methods=(*USUAL, "dropout"))


def made(spec, scores, *, state="done"):
    """A run that scores so much late, and ten times as much in odd stages; at first the best is the worst."""
    number, score = spec.problem.num_records, scores[spec.method.name]
    by_stage = score if callable(score) else lambda stage: (10 if stage % 2 else 1) * (score + 0.1 * spec.seed)
    values = [by_stage(stage) if stage >= number // 2 else -by_stage(stage) for stage in range(number)]
    records = tuple({"stage": stage, "score": value} for stage, value in enumerate(values))
    kept = records if state == "done" else records[:-1]
    return RunResult(spec=spec, state=state, seconds=1.0, reason="", records=kept, read_epochs=lambda: ())


def drawn(order=FULL, states=None, **scores):
    states = states or {}
    runs = [
        made(spec, USUAL | scores, state=states.get((spec.method.name, spec.seed), "done"))
        for spec in STUDY.specs(order)
    ]
    return STUDY.draw(Results(tuple(runs)), order)


def late_scaled(report):
    """By method, for PPO on HalfCheetah: the mean over seeds, in words."""
    return {row[1]: row[4] for row in report.tables[0].rows if row[0] == "PPO, HalfCheetah"}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(registry.summaries("method").keys() - {"chain"}))
def test_every_method_serves_every_agent_or_is_refused_before(tmp_path, name):
    store = Store.create(tmp_path)
    for spec in STUDY.specs(StudyOptions(scale="smoke", methods=(name,))):
        if name in REFUSED and isinstance(spec.problem, PPO):
            with pytest.raises(Unsuitable, match=f"what {name} draws cannot be held per sample"):
                check_suitable(spec, device="cpu")
        else:
            check_suitable(spec, device="cpu")
            assert execute(spec, store) == "done", store.folder(spec).status()["reason"]


def test_full_scale_has_three_seeds_of_two_million_steps():
    specs = STUDY.specs(FULL)
    assert Counter(spec.seed for spec in specs) == dict.fromkeys(range(3), 30)  # five methods, six conditions
    problems = {spec.problem for spec in specs}
    tasks = [problem for problem in problems if isinstance(problem, PPO)]
    assert sorted(getattr(problem.task, "title", problem.task.name) for problem in tasks) == [
        "Ant",
        "HalfCheetah",
        "play",
    ]
    for problem in tasks:
        assert problem.segments_per_stage * problem.rollouts_per_segment * problem.samples_per_rollout == 204_800
        assert problem.num_stages == 10
    others = [problem for problem in problems if isinstance(problem, OffPolicy)]
    assert sorted(problem.algorithm for problem in others) == ["sac", "td3"]
    assert {problem.num_steps for problem in others} == {100_000}
    (games,) = (problem for problem in problems if isinstance(problem, DQN))
    assert games.boundaries == "iterations"  # methods act where the game changes
    assert games.num_iterations == 2 * len(games.game.titles)
    assert games.epsilon_restarts  # or each game but the first starts greedy
    assert (games.replay_ratio, games.epsilon_floor, games.capacity) == (1.0, 0.1, games.steps_per_iteration // 4)
    assert {problem.task.title for problem in tasks if getattr(problem.task, "progress_alone", False)} == {"Ant"}


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ({}, ["holds", "holds", "holds"]),
        ({"full_reset": 40.0}, ["fails", "holds", "holds"]),
        ({"aid": 45.0}, ["holds", "fails", "holds"]),
        ({"l2_init": 45.0}, ["holds", "holds", "fails"]),
        ({"l2_init": 45.0, "cbp": 51.0}, ["holds", "holds", "holds"]),
    ],
)
def test_each_claim_is_decided_by_late_scores(scores, expected):
    assert [claim.verdict for claim in drawn(**scores).claims] == expected


def test_a_claim_holds_in_most_agents_though_not_in_each():
    """Two of the six were not run: the other four are more than half."""
    own = [made(spec, USUAL) for spec in STUDY.specs(FULL) if not isinstance(spec.problem, OffPolicy)]
    rows = STUDY.draw(Results(tuple(own)), FULL).claims
    assert [row.verdict for row in rows] == ["holds", "holds", "holds"]
    fewer = [run for run in own if not isinstance(run.spec.problem, DQN)]
    assert {row.verdict for row in STUDY.draw(Results(tuple(fewer)), FULL).claims} == {"not decided"}


def test_late_scores_are_scaled_by_the_five_in_each_stage_and_seed():
    """40 is the lowest and 100 the highest, though stages pay tenfold; early stages, where it is reversed, are none."""
    found = late_scaled(drawn(WITH_DROPOUT, dropout=130.0))
    expected = {"full reset": "1.0", "CBP": "0.0", "ReLU": "0.16", "AID": "0.66", label_of("dropout"): "1.5"}
    assert {name: found[name][: len(value)] for name, value in expected.items()} == expected


def test_one_stage_that_pays_most_does_not_decide_the_late_score():
    others = dict.fromkeys(("aid", "l2_init", "cbp"), lambda stage: 0.5)
    old, fresh = lambda stage: float(stage % 5 != 4), lambda stage: 1000.0 * (stage % 5 == 4)
    report = drawn(vanilla=old, full_reset=fresh, **others)
    assert report.claims[0].verdict == "fails"  # the old network is ahead in all late stages but one


def test_a_stage_in_which_all_are_equal_counts_as_0():
    assert {value[:3] for value in late_scaled(drawn(**dict.fromkeys(USUAL, 7.0))).values()} == {"0.0"}


def test_a_seed_in_which_one_of_the_five_has_not_ended_has_no_scaled_score():
    whole = drawn().claims[0]
    partial = drawn(states={("cbp", 1): "waiting"}).claims[0]
    assert (whole.n, partial.n) == (3, 2)
    assert len(whole.runs) == 90  # all that a scaled score is made of
    assert len(partial.runs) == 60


def test_a_run_that_diverged_has_no_late_score_and_takes_none_from_others():
    report = drawn(states={("aid", 0): "diverged"})
    assert [claim.verdict for claim in report.claims] == ["holds", "not decided", "holds"]
    assert report.claims[0].n == 3


def test_interquartile_means_are_of_the_lead_over_fresh_networks_in_scaled_scores():
    _, table = drawn().tables
    rows = dict(table.rows)
    assert rows["AID"].startswith("-0.333 [")  # 80 of 40 to 100, minus 1
    assert rows["AID"].endswith("(n = 18)")
    assert "full reset" not in rows
