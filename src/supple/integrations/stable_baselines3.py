"""Stable-Baselines3: any method and the Monitor as a callback of DQN, PPO, A2C, SAC, TD3 and DDPG.

    model = DQN("MlpPolicy", env, policy_kwargs={"activation_fn": AID})
    model.learn(50_000, callback=PlasticityCallback(ReDo(threshold=0.1), steps_per_stage=1_000))

SAC, TD3 and DDPG have an optimizer for the actor and one for the critic, and a callback for each:
``callback=[PlasticityCallback(CBP(), part="actor"), PlasticityCallback(CBP(), part="critic")]``.

AID itself needs no callback. SB3 puts the policy in evaluation mode whenever it acts or predicts and in training mode
in its updates alone, so AID acts by its mean function and learns with masks. PPO compares the two: give it
``PlasticityCallback(hold_masks=True)``, with which it acts with masks and learns with the same ones.

``activation_fn`` reaches the fully connected layers alone: the convolutions of a CnnPolicy have ReLU whatever it says.
``convert(model.policy, AID())`` reaches them all, the target network's too, in place; saving does not keep it, so do it
again after ``load``.

A stage is a number of updates; at its end the method sees observations from the replay or rollout buffer.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from supple.attach import Plasticity, attach, checked_methods
from supple.integrations.stage_data import BackwardEnd, StageLength
from supple.layers import AID, DropReLU, IntervalDropout, ReLUDropout
from supple.learner import Batch
from supple.methods.base import Method
from supple.methods.vanilla import Vanilla
from supple.monitor import DEFAULT_EVERY, Monitor
from supple.monitor_table import Row
from supple.random import held_masks
from supple.unchanged import undisturbed
from supple.units import Inputs

try:
    import numpy as np
    from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
    from stable_baselines3.common.policies import ActorCriticPolicy
except ImportError as error:
    raise ImportError("supple.integrations.stable_baselines3 needs: pip install stable-baselines3") from error

NUM_AT_BOUNDARY = 2048  # observations that a method is shown: ReDo scores up to 2,000
PARTS = ("actor", "critic")
HELD = (AID, DropReLU, IntervalDropout, ReLUDropout)  # whose masks can be held
SWAP = "use convert(model.policy, {activation}), or policy_kwargs={{'activation_fn': ...}} for all but convolutions"


class PlasticityCallback(BaseCallback):
    """Methods at work in the updates of an agent; metrics go to SB3's logger.

    part: "actor" or "critic", for agents that have an optimizer for each. Without a method both are watched.
    steps_per_stage: updates between two boundaries, at which ReDo recycles and ShrinkPerturb acts.
    monitor_every: updates between two readings; None for no Monitor.
    hold_masks: PPO and A2C act with masks, and an update sees each sample under the mask that it was acted with.

    Methods that trace the network or read data (CBP, ReDo) need observations that are one array, no Dict of several.

    An EvalCallback evaluates the network that a method has for it (HareTortoise); the agent acts by the one it trains.
    Around an evaluation of your own open ``callback.plasticity.evaluation()``.

    ``state_dict()`` holds what a method remembers; save it beside the model to resume, and ``load_state_dict`` it into
    a new callback before ``learn``.
    """

    def __init__(
        self,
        method: Method | Sequence[Method] | None = None,
        *,
        part: str = "",
        steps_per_stage: int | None = None,
        monitor_every: int | None = DEFAULT_EVERY,
        hold_masks: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.methods = checked_methods(method or Vanilla(), SWAP)
        self.part, self.monitor_every, self.seed, self.hold_masks = part, monitor_every, seed, hold_masks
        self.length = StageLength(steps=steps_per_stage)
        self.plasticity: Plasticity | None = None
        self.monitor: Monitor | None = None  # what it saw, after training too
        self._saved: dict[str, Any] = {}
        self._handle: RemovableHandle | None = None
        self._backward: BackwardEnd | None = None
        self._held: MasksPerSample | None = None
        self._policy: Any = None
        self._evaluators: list[Any] = []

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed training needs besides the model."""
        return self._saved if self.plasticity is None else self.length.saved_with(self.plasticity)

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Go on from what was saved, at the next call of ``learn``."""
        self._on_training_end()
        if self.plasticity is not None:
            self.plasticity.detach()
        if self.monitor is not None:
            self.monitor.close()
        self.plasticity, self._saved = None, saved

    def _on_training_start(self) -> None:
        policy: Any = self.model.policy
        self._on_training_end()  # of one that was interrupted
        if self.plasticity is None:
            self.plasticity, self._policy = self._begin(policy), policy
        elif policy is not self._policy:
            raise ValueError("a PlasticityCallback belongs to one model; make a new one for another model.")
        own = self.plasticity
        own.optimizer = own.optimizer  # which was paused at the end of the last training
        self._handle = own.optimizer.register_step_post_hook(lambda *step: self._after_step())
        if hasattr(policy, "optimizer"):  # agents with one optimizer clip before its step
            self._backward = BackwardEnd(own.learner.model.parameters(), own.edit_gradients)
        if self.hold_masks:
            self._held = MasksPerSample(self.model, self.seed)
        if any(method.acts_in("evaluation") for method in self.methods):
            self._evaluators = list(evaluators_in(self.locals["callback"]))
            for evaluator in self._evaluators:
                evaluator._on_step = self._evaluated(evaluator, evaluator._on_step)

    def _on_training_end(self) -> None:
        if self.plasticity is not None:
            self.plasticity.pause()
        if self._handle is not None:
            self._handle.remove()
        if self._backward is not None:
            self._backward.close()
        if self._held is not None:
            self._held.close()
        while self._evaluators:
            vars(self._evaluators.pop()).pop("_on_step", None)

    def _evaluated(self, evaluator: Any, step: Callable[[], bool]) -> Callable[[], bool]:
        def step_on_the_other() -> bool:
            assert self.plasticity is not None
            if evaluator.eval_freq <= 0 or evaluator.n_calls % evaluator.eval_freq:
                return step()  # it evaluates nothing
            with self.plasticity.evaluation():
                return step()

        return step_on_the_other

    def _on_step(self) -> bool:
        return True

    def _begin(self, policy: Any) -> Plasticity:
        only_watches = not any(method.acts_in() for method in self.methods)
        network, watched, optimizer = trained_part(policy, self.part, only_watches=only_watches)
        own = attach(network, optimizer, self.methods, seed=self.seed)
        own.no_example = f"the observations are a {type(policy.observation_space).__name__}, and not one array each."
        own.recent_data = ReplayBatches(self.model, self.part)
        if self._saved:
            self.length.load_into(own, self._saved)
        if self.monitor_every is not None:
            self.monitor = Monitor(watched, every=self.monitor_every, writer=self._write)
            self.monitor.num_steps = own.num_steps
        own.learner.example_input = example_of(policy, self.part)
        own.init_states()
        return own

    def _after_step(self) -> None:
        assert self.plasticity is not None
        # TD3 trains its actor less often, after the critic; both are watched from one of its steps to the next.
        delay = 1 if self.part else getattr(self.model, "policy_delay", 1)
        if self.monitor is not None and (self.model._n_updates - 1) % delay == 0:
            self.monitor.step()
        self.length.end_if_due(self.plasticity, ReplayBatches(self.model, self.part))

    def _write(self, row: Row) -> None:
        prefix = f"plasticity/{self.part}/" if self.part else "plasticity/"
        for name, value in row.items():
            if name != "step":
                self.logger.record(prefix + name, value)


class MasksPerSample:
    """While open, a policy acts with masks, and updates see each sample under the mask that it was acted with.

    Masks follow from the number of a sample since the start of training, which the rollout buffer and the model know:
    nothing is stored, and a training that goes on from a saved model has the masks of an unbroken one.
    """

    def __init__(self, model: Any, seed: int) -> None:
        policy = model.policy
        self.drawing = [module for module in policy.modules() if isinstance(module, HELD)]
        if not isinstance(policy, ActorCriticPolicy) or not self.drawing:
            raise ValueError(
                "PlasticityCallback.hold_masks is for PPO and A2C with activations that draw masks, as "
                f"policy_kwargs={{'activation_fn': AID}}; got {type(policy).__name__} with {len(self.drawing)} of them."
            )
        self.model, self.seed, self.drawn = model, seed, np.zeros(0, dtype=np.int64)
        self._replaced = {policy: ("forward", "evaluate_actions"), model.rollout_buffer: ("_get_samples",)}
        policy.forward = self._acting(policy.forward)
        policy.evaluate_actions = self._updating(policy.evaluate_actions)
        model.rollout_buffer._get_samples = self._drawing(model.rollout_buffer._get_samples)

    def close(self) -> None:
        for owner, names in self._replaced.items():
            for name in names:
                vars(owner).pop(name, None)

    def _held(self, places: Any) -> contextlib.AbstractContextManager[None]:
        """The masks of samples at these places of the rollout buffer, which counts one environment after another."""
        buffer = self.model.rollout_buffer
        start = self.model.num_timesteps - buffer.pos * buffer.n_envs  # of this rollout
        return held_masks(torch.as_tensor(start + places), seed=self.seed)

    def _acting(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        def act(*args: Any, **kwargs: Any) -> Any:
            buffer = self.model.rollout_buffer
            for module in self.drawing:
                module.train()
            try:
                with self._held(np.arange(buffer.n_envs) * buffer.buffer_size + buffer.pos):
                    return forward(*args, **kwargs)
            finally:
                for module in self.drawing:
                    module.eval()

        return act

    def _updating(self, evaluate_actions: Callable[..., Any]) -> Callable[..., Any]:
        def update(*args: Any, **kwargs: Any) -> Any:
            with self._held(self.drawn):
                return evaluate_actions(*args, **kwargs)

        return update

    def _drawing(self, get_samples: Callable[..., Any]) -> Callable[..., Any]:
        def draw(places: Any, *args: Any, **kwargs: Any) -> Any:
            self.drawn = places
            return get_samples(places, *args, **kwargs)

        return draw


class ReplayBatches:
    """What a method is shown at a boundary: observations from the buffer, in batches, with the actions taken."""

    def __init__(self, model: Any, part: str = "") -> None:
        self.model, self.part = model, part

    def __iter__(self) -> Iterator[Batch]:
        with undisturbed():
            if getattr(self.model, "replay_buffer", None) is None:
                buffer = self.model.rollout_buffer
                observations = buffer.observations.reshape(-1, *buffer.obs_shape)[:NUM_AT_BOUNDARY]
                yield buffer.to_torch(observations), buffer.to_torch(buffer.actions.reshape(-1, buffer.action_dim))
                return
            size, env = self.model.batch_size, self.model._vec_normalize_env
            for _ in range(-(-NUM_AT_BOUNDARY // size)):
                seen = self.model.replay_buffer.sample(size, env=env)
                yield (seen.observations, seen.actions) if self.part == "critic" else seen.observations, seen.actions


def evaluators_in(callback: Any) -> Iterator[Any]:
    """The callbacks that evaluate, among those of a training."""
    if isinstance(callback, EvalCallback):
        yield callback
    for part in (*getattr(callback, "callbacks", ()), getattr(callback, "callback", None)):
        if isinstance(part, BaseCallback):
            yield from evaluators_in(part)


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


class MeanAction(nn.Module):
    """The actor of SAC or TD3 without a draw: of observations, to what actions are made of."""

    def __init__(self, actor: Any) -> None:
        super().__init__()
        self.actor = actor

    def forward(self, observations: Tensor) -> Any:
        if hasattr(self.actor, "get_action_dist_params"):
            return self.actor.get_action_dist_params(observations)[:2]
        return self.actor(observations)


def trained_part(policy: Any, part: str, *, only_watches: bool) -> tuple[nn.Module, nn.Module, torch.optim.Optimizer]:
    """What a method may change, what the Monitor watches (the module whose own parts updates call), the optimizer."""
    name = type(policy).__name__
    if all(hasattr(getattr(policy, own, None), "optimizer") for own in PARTS):
        actor, critic = policy.actor, policy.critic
        if part == "actor":
            return MeanAction(actor), actor, actor.optimizer
        if part == "critic":
            return critic, critic, critic.optimizer
        if part or not only_watches:
            raise ValueError(
                f"{name} has an optimizer for its actor and one for its critic, and a method serves one of them: "
                f"PlasticityCallback(..., part='actor') or part='critic', in a list for both; got part={part!r}."
            )
        both = nn.ModuleDict({"actor": actor, "critic": critic})
        return both, both, critic.optimizer
    if part:
        raise ValueError(f"{name} has one optimizer for all its networks; leave part={part!r} out.")
    if hasattr(policy, "q_net"):
        return policy.q_net, policy.q_net, policy.optimizer
    if isinstance(policy, ActorCriticPolicy):
        return ActorAndCritic(policy), policy, policy.optimizer
    raise TypeError(
        f"PlasticityCallback serves the policies of DQN, PPO, A2C, SAC, TD3 and DDPG; got {name}. "
        "AID itself needs no callback: policy_kwargs={'activation_fn': AID}, or supple.convert(model.policy, AID()), "
        "which reaches convolutions too."
    )


def example_of(policy: Any, part: str) -> Inputs | None:
    """Two observations of zeros, for a critic with actions; None where an observation is not one array."""
    spaces = (policy.observation_space, policy.action_space)[: 2 if part == "critic" else 1]
    if spaces[0].shape is None:
        return None
    zeros = [np.zeros((2, *space.shape), dtype=space.dtype) for space in spaces]
    tensors = tuple(torch.as_tensor(array, device=policy.device) for array in zeros)
    return tensors if part == "critic" else tensors[0]
