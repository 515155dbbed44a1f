import functools

import numpy as np
import pytest
import torch
from torch import nn

from supple import AID
from supple.layers import AIDMean
from supple.methods import ReDo

pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed (pip install .[integrations])")

from stable_baselines3 import DQN, PPO
from stable_baselines3.common.env_util import make_vec_env

from supple.integrations.stable_baselines3 import PlasticityCallback


class RatiosOfPPO(PPO):
    """PPO that notes the ratios of all samples, in shuffled minibatches, before each update."""

    def train(self):
        self.policy.set_training_mode(True)
        found = []
        with torch.no_grad():
            for data in self.rollout_buffer.get(self.batch_size):
                log_prob = self.policy.evaluate_actions(data.observations, data.actions.long().flatten())[1]
                found.append((log_prob - data.old_log_prob).exp())
        self.ratios = [*getattr(self, "ratios", []), torch.cat(found)]
        super().train()


def agent(activation, *, kind=RatiosOfPPO, num_envs=2, **options):
    kwargs = {"net_arch": [32, 32], "activation_fn": activation}
    env = make_vec_env("CartPole-v1", num_envs, seed=0)
    sizes = {"n_steps": 32, "batch_size": 16, "n_epochs": 2, "learning_rate": 1e-2}
    return kind("MlpPolicy", env, policy_kwargs=kwargs, seed=0, device="cpu", **sizes | options)


NOISY = functools.partial(AID, p=0.6)


def test_ratio_is_one_before_each_update_if_masks_are_held():
    held, fresh = agent(NOISY), agent(NOISY)
    held.learn(192, callback=PlasticityCallback(hold_masks=True))
    fresh.learn(192, callback=PlasticityCallback())
    assert len(held.ratios) == 3
    for ratios in held.ratios:
        torch.testing.assert_close(ratios, torch.ones(64), rtol=0, atol=1e-5)  # batches of other sizes round otherwise
    assert fresh.ratios[-1].std() > 1e-2  # of the first policy, whose actions hardly depend on anything, it is small


def test_held_masks_are_of_a_sample_and_not_of_a_rollout():
    model = agent(NOISY, learning_rate=0.0)
    callback = PlasticityCallback(hold_masks=True)
    callback.init_callback(model)
    callback.on_training_start({}, {})
    observation = torch.ones(2, 4)
    with torch.no_grad():
        values = [model.policy(observation)[1].flatten()]
        model.num_timesteps += 2
        model.rollout_buffer.pos += 1
        values.append(model.policy(observation)[1].flatten())
        model.num_timesteps += 2
        model.rollout_buffer.pos = 0  # the first step of the next rollout
        values.append(model.policy(observation)[1].flatten())
    assert len(torch.cat(values).unique()) == 6  # the same observation under six masks
    assert not any(module.training for module in callback._held.drawing)


def test_training_in_parts_has_the_masks_of_an_unbroken_one():
    def values(num_parts):
        model = agent(NOISY)
        for _ in range(num_parts):
            callback = PlasticityCallback(hold_masks=True, monitor_every=None)
            model.learn(128 // num_parts, callback=callback, reset_num_timesteps=False)
        assert len(model.ratios) == 2
        return model.rollout_buffer.values

    assert np.array_equal(values(1), values(2))


def test_policy_is_as_before_when_training_is_over():
    model = agent(NOISY, kind=PPO)
    callback = PlasticityCallback(ReDo(threshold=0.1), steps_per_stage=4, hold_masks=True)
    model.learn(64, callback=callback)
    assert "forward" not in vars(model.policy)
    assert "_get_samples" not in vars(model.rollout_buffer)
    assert callback.plasticity.num_steps == 8
    x = torch.zeros(2, 4)
    model.policy.set_training_mode(False)
    assert torch.equal(model.policy.predict_values(x), model.policy.predict_values(x))


def test_mean_of_aid_has_a_ratio_of_one_without_held_masks():
    model = agent(functools.partial(AIDMean, p=0.6))
    model.learn(64)
    torch.testing.assert_close(model.ratios[0], torch.ones(64), rtol=0, atol=1e-5)


@pytest.mark.parametrize("build", [lambda: agent(nn.Tanh, kind=PPO), lambda: DQN("MlpPolicy", "CartPole-v1")])
def test_held_masks_are_refused_if_there_are_none(build):
    with pytest.raises(ValueError, match=r"hold_masks is for PPO and A2C with activations that draw masks"):
        build().learn(64, callback=PlasticityCallback(hold_masks=True))
