"""What AID's masks do to PPO's actor on MuJoCo's tasks (docs/control.md): controls, and how far masks move an action.

    python tools/masks_in_control.py --out out/masks --arms critic --seeds 0 1 2    # the same command goes on
    python tools/masks_in_control.py --out out/masks --arms aid aid_mean critic --no-training > masks.jsonl
    python tools/masks_in_control.py --out out/masks --task Ant --arms aid_mean critic

``critic``: AID in the critic alone, the actor has ReLU. ``aid_mean``: AID's mean in both, no noise. A line for each run
that has ended: its return after each stage, and of the network at the end the spread of the policy's own actions, the
standard deviation of its mean action over masks, and the return of whole episodes that are played with masks and with
the policy's own spread. They are played on the ground of the last stage.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from supple.methods import Method, UseAID, UseAIDMean, Vanilla
from supple.random import mask_stream
from supple_lab.paper.control import Control
from supple_lab.paper.study import StudyOptions
from supple_lab.rl.ppo_problem import PPO
from supple_lab.run.network import restore_snapshot_
from supple_lab.run.ppo import Agent, Bodies, PPOCursor
from supple_lab.run.run import execute
from supple_lab.spec import RunSpec
from supple_lab.store.reading import read_run
from supple_lab.store.store import Store

CPU = torch.device("cpu")
P = 0.99
ARMS: dict[str, Method] = {
    "vanilla": Vanilla(),
    "aid": UseAID(relu_prob=P),
    "aid_mean": UseAIDMean(relu_prob=P),
    "critic": UseAID(relu_prob=P),
}
NUM_MASKS = 32
STEPS_OF_AN_EPISODE = 1000


def spec_of(task: str, arm: str, seed: int) -> RunSpec:
    spec, *_ = Control().specs(StudyOptions(scale="full", only=f"PPO, {task}"))
    problem = spec.problem
    assert isinstance(problem, PPO)
    if arm == "critic":
        problem = replace(problem, activation_in="critic")
    return replace(spec, problem=problem, method=ARMS[arm], seed=seed)


@torch.no_grad()
def look(spec: RunSpec, checkpoint: dict[str, Any]) -> dict[str, float]:
    """At the network of a run's end."""
    problem = spec.problem
    assert isinstance(problem, PPO)
    rollouts = -(-STEPS_OF_AN_EPISODE // problem.steps_per_rollout)
    masks, cursor = torch.Generator().manual_seed(0), PPOCursor(**checkpoint["cursor"])
    with mask_stream(masks):
        agent = Agent(spec, problem, CPU, masks)
        restore_snapshot_(agent.plasticity, masks, checkpoint)
        agent.observed.restore_(checkpoint["observed"])
        agent.returns.restore_(checkpoint["returns"])
        cursor.scores = []
        task = problem.task.at(problem.num_stages - 1, spec.seed)
        bodies = Bodies(agent, task, seed=spec.seed, segment=cursor.segment)
        seen = torch.cat([bodies.play(cursor).x for _ in range(rollouts)])
        agent.network.train()
        numbers = cursor.num_samples + torch.arange(NUM_MASKS * len(seen)).view(NUM_MASKS, -1)
        actions = torch.stack([agent.forward(seen, row)[0] for row in numbers])
        agent.plasticity.pause()
    assert agent.network.log_std is not None
    return {
        "own_spread": agent.network.log_std.exp().mean().item(),
        "spread_by_masks": actions.var(0).mean().sqrt().item(),
        "with_masks": sum(cursor.scores) / len(cursor.scores),
    }


def lines(store: Store, task: str, arms: list[str], seeds: list[int]) -> Iterator[dict[str, Any]]:
    for arm in arms:
        for seed in seeds:
            folder = store.folder(spec := spec_of(task, arm, seed))
            checkpoint = folder.latest_checkpoint(CPU) if folder.state() == "done" else None
            if checkpoint is None:
                continue
            stored = read_run(folder.path)
            about = {name: stored.status[name] for name in ("device", "hardware", "commit", "seconds")}
            scores = [record["score"] for record in stored.records]
            yield {
                "id": spec.run_id,
                "task": task,
                "arm": arm,
                "seed": seed,
                **about,
                "score": scores,
                **look(spec, checkpoint),
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--task", choices=("HalfCheetah", "Ant"), default="HalfCheetah")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--no-training", action="store_true", help="say what has ended")
    arguments = parser.parse_args()
    store = Store.create(arguments.out)
    for arm in arguments.arms if not arguments.no_training else ():
        for seed in arguments.seeds:
            execute(spec_of(arguments.task, arm, seed), store)
    for line in lines(store, arguments.task, arguments.arms, arguments.seeds):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
