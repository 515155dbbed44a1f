"""Stable-Baselines3 with AID: DQN and PPO on CartPole, AID in the policy, ReDo and the Monitor as a callback.

pip install stable-baselines3
python examples/sb3_aid.py dqn        # or: ppo
"""

import sys
from functools import partial

from stable_baselines3 import DQN, PPO
from stable_baselines3.common.evaluation import evaluate_policy

from supple import AID
from supple.integrations.stable_baselines3 import PlasticityCallback
from supple.methods import ReDo

# In reinforcement learning the paper has p close to 1: 0.99 and 0.999.
POLICY = {"activation_fn": partial(AID, p=0.99), "net_arch": [128, 128]}


def dqn():
    """DQN with the settings that suit CartPole."""
    return DQN(
        "MlpPolicy",
        "CartPole-v1",
        policy_kwargs=POLICY,
        learning_rate=2.3e-3,
        batch_size=64,
        buffer_size=100_000,
        learning_starts=1000,
        target_update_interval=10,
        train_freq=256,
        gradient_steps=128,
        exploration_fraction=0.16,
        exploration_final_eps=0.04,
        seed=0,
    )


def ppo():
    """PPO with SB3's own settings."""
    return PPO("MlpPolicy", "CartPole-v1", policy_kwargs=POLICY, seed=0, device="cpu")


def main(name="dqn", num_timesteps=50_000, num_episodes=20):
    model = {"dqn": dqn, "ppo": ppo}[name]()
    held = name == "ppo"  # which compares the policy that acted with the one that learns: docs/ppo.md
    callback = PlasticityCallback(ReDo(threshold=0.025), steps_per_stage=1000, monitor_every=1000, hold_masks=held)
    model.learn(int(num_timesteps), callback=callback)
    mean, spread = evaluate_policy(model, model.get_env(), n_eval_episodes=int(num_episodes), warn=False)
    print(callback.monitor.report())
    print(f"{name} with AID: return {mean:.0f} ± {spread:.0f} of 500")
    return callback


if __name__ == "__main__":
    main(*sys.argv[1:])
