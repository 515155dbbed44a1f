"""Control: its runs, and its claims decided by their rules."""

from collections import Counter

import pytest

from supple_lab import registry
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


def made(spec, scores):
    """A run that scores as much late, and twice as much at first."""
    number = spec.problem.num_records
    values = [
        (2 if stage < number // 2 else 1) * (scores[spec.method.name] + 0.1 * spec.seed) for stage in range(number)
    ]
    records = tuple({"stage": stage, "score": value} for stage, value in enumerate(values))
    return RunResult(spec=spec, state="done", seconds=1.0, reason="", records=records, read_epochs=lambda: ())


def drawn(order=FULL, **scores):
    usual = {"vanilla": 50.0, "full_reset": 100.0, "aid": 80.0, "l2_init": 60.0, "cbp": 40.0}
    results = Results(tuple(made(spec, usual | scores) for spec in STUDY.specs(order)))
    return STUDY.draw(results, order)


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


def test_interquartile_means_are_shares_of_the_range_of_all_runs():
    _, table = drawn().tables
    rows = dict(table.rows)
    assert rows["AID"].startswith("-0.332 [")  # 20 of 40 to 100.2
    assert rows["AID"].endswith("(n = 18)")
    assert "full reset" not in rows
