"""tools/masks_in_control.py: what it says of a network is what the network does."""

import json
import sys

import pytest
from test_ppo import small_spec

import masks_in_control as tool
from supple.methods import UseAID
from supple_lab.run.run import execute
from supple_lab.store.store import Store

SPECS = {
    "aid": small_spec(UseAID(relu_prob=0.7)),
    "critic": small_spec(UseAID(relu_prob=0.7), activation_in="critic"),
    "vanilla": small_spec(),
}


def test_masks_move_the_actor_that_has_them_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tool, "spec_of", lambda task, arm, seed: SPECS[arm])
    monkeypatch.setattr(tool, "STEPS_OF_AN_EPISODE", 20)
    store = Store.create(tmp_path)
    assert {execute(spec, store) for spec in SPECS.values()} == {"done"}
    monkeypatch.setattr(sys, "argv", ["", "--out", str(tmp_path), "--seeds", "0", "--arms", *SPECS, "--no-training"])
    tool.main()
    by_arm = {line["arm"]: line for line in map(json.loads, capsys.readouterr().out.splitlines())}
    moved = {arm: line["spread_by_masks"] for arm, line in by_arm.items()}
    assert moved["aid"] > 0.01
    assert moved["critic"] == moved["vanilla"] == 0
    for line in by_arm.values():
        assert 0.5 < line["own_spread"] < 1.5  # it starts at 1
        assert len(line["score"]) == SPECS["aid"].problem.num_stages
        assert line["with_masks"] == pytest.approx(line["score"][-1], abs=30)


@pytest.mark.parametrize("task", ["HalfCheetah", "Ant"])
def test_arms_are_runs_of_the_task_that_differ_in_what_the_actor_has(task):
    critic, mean = (tool.spec_of(task, arm, 2) for arm in ("critic", "aid_mean"))
    assert {critic.problem.task.title, mean.problem.task.title} == {task}
    assert (critic.problem.activation_in, mean.problem.activation_in) == ("critic", "both")
    assert critic.method.relu_prob == mean.method.relu_prob == 0.99
