"""PPO as a problem: its settings, with which it learns a task that changes."""

from dataclasses import dataclass, field
from typing import Literal

from supple_lab.errors import at_least, positive, within
from supple_lab.rl.control import Task
from supple_lab.spec import Problem

Masks = Literal["held", "fresh"]
Networks = Literal["both", "critic"]


@dataclass(frozen=True, kw_only=True)
class PPO(Problem):
    """Proximal policy optimization (Schulman et al. 2017); rates and sizes after CleanRL.

    The policy is Gaussian, or categorical in games. A stage is so many segments, and its end a change of friction or of
    the game. A segment is played by new bodies that are made from the run's seed and the segment's number; a run can
    stop and go on between two of them. Episodes that a segment's end cuts off count as truncated. Rewards, and
    observations but for frames, are normalised by running statistics.
    """

    name = "ppo"
    task: Task
    num_stages: int = 10
    segments_per_stage: int = 10
    rollouts_per_segment: int = 10
    num_bodies: int = 8  # at once
    steps_per_rollout: int = 256  # of each body; 8 x 256 x 10 x 10 are 204,800 steps between two changes
    epochs: int = 10  # of an update
    batch_size: int = 64
    discount: float = 0.99
    decay: float = 0.95  # lambda of generalized advantage estimation
    clip: float = 0.2  # of the ratio
    clip_norm: float = 0.5  # of the gradients
    value_weight: float = 0.5  # of the critic's loss
    masks: Masks = "held"  # held: acts with masks, and learns from a sample with its own. fresh: acts by means
    num_evaluated: int = 10  # episodes after each stage, by the mean action in evaluation mode
    entropy_weight: float = field(default=0.0, metadata={"later": True})  # of the policy's, which the loss rewards
    actor_scale: float = field(default=1.0, metadata={"later": True})  # of the actor's last weights, at the start
    activation_in: Networks = field(default="both", metadata={"later": True})  # the method's; "critic": ReLU acts

    def __post_init__(self) -> None:
        at_least(1, self, "num_stages", "segments_per_stage", "rollouts_per_segment", "num_bodies", "epochs")
        at_least(2, self, "steps_per_rollout", "batch_size")
        at_least(1, self, "num_evaluated")
        at_least(0, self, "entropy_weight")
        within(0, 1, self, "discount", "decay")
        positive(self, "clip", "clip_norm", "value_weight", "actor_scale")

    @property
    def num_records(self) -> int:
        return self.num_stages

    @property
    def samples_per_rollout(self) -> int:
        return self.num_bodies * self.steps_per_rollout
