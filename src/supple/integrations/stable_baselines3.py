"""Stable-Baselines3: any method and the Monitor as a callback of DQN, PPO and A2C.

    model = DQN("MlpPolicy", env, policy_kwargs={"activation_fn": AID})
    model.learn(50_000, callback=PlasticityCallback(ReDo(threshold=0.1), steps_per_stage=1_000))

AID itself needs no callback. SB3 puts the policy in evaluation mode whenever it acts or predicts and in training mode
in its updates alone, so AID acts by its mean function and learns with masks. ``activation_fn`` reaches the fully
connected layers alone: the convolutions of a CnnPolicy have ReLU whatever it says. ``convert(model.policy, AID())``
reaches them all, the target network's too, in place; saving does not keep it, so do it again after ``load``.

A stage is a number of updates; at its end the method sees observations from the replay or rollout buffer.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from supple.integrations.companion import Companion, StageLength
from supple.integrations.stage_data import BackwardEnd
from supple.learner import Batch
from supple.methods.base import Method
from supple.methods.vanilla import Vanilla
from supple.monitor import DEFAULT_EVERY, Monitor
from supple.monitor_table import Row
from supple.unchanged import undisturbed

try:
    import numpy as np
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.policies import ActorCriticPolicy
except ImportError as error:
    raise ImportError("supple.integrations.stable_baselines3 needs: pip install stable-baselines3") from error

NUM_AT_BOUNDARY = 2048  # observations that a method is shown: ReDo scores up to 2,000


class PlasticityCallback(BaseCallback):
    """A method at work in the updates of DQN, PPO or A2C; metrics go to SB3's logger.

    steps_per_stage: updates between two boundaries, at which ReDo recycles and ShrinkPerturb acts.
    monitor_every: updates between two readings; None for no Monitor.

    Methods that trace the network or read data (CBP, ReDo) need observations that are one array, no Dict of several.

    ``state_dict()`` holds what a method remembers; save it beside the model to resume, and ``load_state_dict`` it into
    a new callback before ``learn``.
    """

    def __init__(
        self,
        method: Method | None = None,
        *,
        steps_per_stage: int | None = None,
        monitor_every: int | None = DEFAULT_EVERY,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.method = method or Vanilla()
        self.monitor_every, self.seed = monitor_every, seed
        self.length = StageLength(steps=steps_per_stage)
        self.companion: Companion | None = None
        self._saved: dict[str, Any] = {}
        self._backward: BackwardEnd | None = None
        self._handle: RemovableHandle | None = None
        self._policy: nn.Module | None = None

    @property
    def monitor(self) -> Monitor | None:
        """What the Monitor saw, after training too."""
        return None if self.companion is None else self.companion.monitor

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed training needs besides the model."""
        return self._saved if self.companion is None else self.companion.state_dict()

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Go on from what was saved, at the next call of ``learn``."""
        self._on_training_end()
        if self.companion is not None:
            self.companion.discard()
        self.companion, self._saved = None, saved

    def _on_training_start(self) -> None:
        policy: Any = self.model.policy
        self._on_training_end()  # of one that was interrupted
        if self.companion is None:
            self.companion, self._policy = self._begin(policy), policy
        elif policy is not self._policy:
            raise ValueError("a PlasticityCallback belongs to one model; make a new one for another model.")
        self._handle = policy.optimizer.register_step_post_hook(lambda optimizer, args, kwargs: self._after_step())
        self._backward = BackwardEnd(self.companion.learner.model.parameters(), self.companion.after_backward)

    def _on_training_end(self) -> None:
        if self._handle is not None and self._backward is not None:
            self._handle.remove()
            self._backward.close()

    def _on_step(self) -> bool:
        return True

    def _begin(self, policy: Any) -> Companion:
        network, watched = networks_of(policy)
        monitor = None
        if self.monitor_every is not None:
            monitor = Monitor(watched, every=self.monitor_every, writer=self._write)
        companion = Companion(
            network,
            policy.optimizer,
            method=self.method,
            seed=self.seed,
            length=self.length,
            monitor=monitor,
            no_example=f"the observations are a {type(policy.observation_space).__name__}, and not one array each.",
        )
        if self._saved:
            companion.load_state_dict(self._saved)
        companion.meet(example_of(policy))
        return companion

    def _after_step(self) -> None:
        assert self.companion is not None
        self.companion.after_step()
        if self.companion.is_due():
            self.companion.end_stage(Remembered(self.model))
            self.companion.begin_stage(Remembered(self.model))

    def _write(self, row: Row) -> None:
        for name, value in row.items():
            if name != "step":
                self.logger.record(f"plasticity/{name}", value)


class Remembered:
    """What a method is shown at a boundary: observations from the buffer, in batches, with the actions taken."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __iter__(self) -> Iterator[Batch]:
        with undisturbed():
            if getattr(self.model, "replay_buffer", None) is not None:
                yield from self._replayed()
            else:
                yield from self._rolled_out()

    def _replayed(self) -> Iterator[Batch]:
        model = self.model
        for _ in range(-(-NUM_AT_BOUNDARY // model.batch_size)):
            sample = model.replay_buffer.sample(model.batch_size, env=model._vec_normalize_env)
            yield sample.observations, sample.actions

    def _rolled_out(self) -> Iterator[Batch]:
        buffer = self.model.rollout_buffer
        observations = buffer.observations.reshape(-1, *buffer.obs_shape)[:NUM_AT_BOUNDARY]
        yield buffer.to_torch(observations), buffer.to_torch(buffer.actions.reshape(-1, buffer.action_dim))


class ActorAndCritic(nn.Module):
    """An actor-critic policy as one forward without a draw: of observations, to what actions and values are made of."""

    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        policy, features = self.policy, self.policy.extract_features(observations)
        actor, critic = (features, features) if policy.share_features_extractor else features
        extractor = policy.mlp_extractor
        return policy.action_net(extractor.forward_actor(actor)), policy.value_net(extractor.forward_critic(critic))


def networks_of(policy: Any) -> tuple[nn.Module, nn.Module]:
    """What a method may change, and what the Monitor watches: the module whose own parts the updates call."""
    if hasattr(policy, "q_net"):
        return policy.q_net, policy.q_net
    if isinstance(policy, ActorCriticPolicy):
        return ActorAndCritic(policy), policy
    raise TypeError(
        f"PlasticityCallback serves policies with one optimizer (DQN, PPO, A2C); got {type(policy).__name__}. "
        "AID itself needs no callback: policy_kwargs={'activation_fn': AID}, or supple.convert(model.policy, AID()), "
        "which reaches convolutions too."
    )


def example_of(policy: Any) -> Tensor | None:
    """Two observations of zeros; None where an observation is not one array."""
    space = policy.observation_space
    if space.shape is None:
        return None
    zeros = np.zeros((2, *space.shape), dtype=space.dtype)
    return torch.as_tensor(zeros, device=policy.device)
