"""What AID's masks do to PPO, SAC and TD3 of Stable-Baselines3: the numbers of docs/ppo.md.

    python tools/masks_in_rl.py ppo --out masks.jsonl        # or: sac, td3; goes on where it was stopped
    python tools/masks_in_rl.py table --out masks.jsonl

PPO learns CartPole for 12,000 steps with SB3's own settings, SAC and TD3 Pendulum for 5,000. The score of a run is the
mean return of 20 episodes afterwards, acting in evaluation mode without exploring.
"""

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from stable_baselines3 import PPO, SAC, TD3
from stable_baselines3.common.evaluation import evaluate_policy
from torch import nn

from supple import AID
from supple.integrations.stable_baselines3 import PlasticityCallback
from supple.layers import AIDMean

PROBABILITIES = {"ppo": (0.9, 0.99, 0.999), "sac": (0.9, 0.99), "td3": (0.9, 0.99)}
NUM_EPISODES = 20
CLIP = 0.2  # PPO's
OFF_POLICY = {"learning_rate": 1e-3, "batch_size": 64, "learning_starts": 500, "buffer_size": 5_000}


class WatchedPPO(PPO):
    """PPO that notes how far the ratios of a rollout are from 1 before its update, of the last rollout."""

    def train(self) -> None:
        self.policy.set_training_mode(True)
        with torch.no_grad():
            ratio = torch.cat([self._ratio(data) for data in self.rollout_buffer.get(self.batch_size)])
        self.ratio_std, self.outside = float(ratio.std()), float((ratio.sub(1).abs() > CLIP).float().mean())
        super().train()

    def _ratio(self, data: Any) -> torch.Tensor:
        log_prob = self.policy.evaluate_actions(data.observations, data.actions.long().flatten())[1]
        return (log_prob - data.old_log_prob).exp()


def arms(name: str) -> list[str]:
    """What is compared; p stands at the end."""
    kinds = ("fresh", "held", "mean") if name == "ppo" else ("target by its mean", "target with masks")
    return ["relu", *(f"{kind} {p}" for p in PROBABILITIES[name] for kind in kinds)]


def activation_of(arm: str) -> Any:
    if arm == "relu":
        return nn.ReLU
    kind, p = arm.rsplit(" ", 1)
    return partial(AIDMean if kind == "mean" else AID, p=float(p))


def run(name: str, arm: str, seed: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    started, kwargs = time.process_time(), {"activation_fn": activation_of(arm)}
    if name == "ppo":
        model: Any = WatchedPPO("MlpPolicy", "CartPole-v1", policy_kwargs=kwargs, seed=seed, device="cpu")
        callback = PlasticityCallback(hold_masks=True, monitor_every=None) if arm.startswith("held") else None
        model.learn(12_000, callback=callback)
        seen = {"ratio_std": model.ratio_std, "outside": model.outside}
    else:
        kwargs["net_arch"] = [64, 64]
        kind = {"sac": SAC, "td3": TD3}[name]
        model = kind("MlpPolicy", "Pendulum-v1", policy_kwargs=kwargs, seed=seed, device="cpu", **OFF_POLICY)
        if arm.startswith("target with masks"):
            for part in ("critic_target", "actor_target"):
                getattr(model, part, nn.Identity()).train()
        model.learn(5_000)
        seen = {}
    score, _ = evaluate_policy(model, model.get_env(), n_eval_episodes=NUM_EPISODES, warn=False)
    return {"name": name, "arm": arm, "seed": seed, "score": score, **seen, "cpu_s": time.process_time() - started}


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Mean and standard deviation over seeds."""
    rows.sort(key=lambda row: (row["name"], arms(row["name"]).index(row["arm"])))
    for (name, arm), group in itertools.groupby(rows, key=lambda row: (row["name"], row["arm"])):
        found = list(group)
        parts = [name, arm, f"n={len(found)}"]
        for key in ("score", "ratio_std", "outside"):
            if key in found[0]:
                values = [row[key] for row in found]
                spread = statistics.stdev(values) if len(values) > 1 else float("nan")
                parts.append(f"{key} {statistics.mean(values):.4g} ± {spread:.3g}")
        yield " | ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["ppo", "sac", "td3", "table"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    if given.what == "table":
        print("\n".join(table(rows_of(given.out))))
        return
    done = {(row["name"], row["arm"], row["seed"]) for row in rows_of(given.out)}
    for seed, arm in itertools.product(range(given.seeds), arms(given.what)):
        if (given.what, arm, seed) not in done:
            with given.out.open("a") as file:
                print(json.dumps(run(given.what, arm, seed)), file=file, flush=True)


if __name__ == "__main__":
    main()
