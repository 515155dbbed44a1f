"""SAC and TD3 as a problem: their settings, with which they learn a task whose friction changes."""

from dataclasses import dataclass
from typing import Literal

from supple_lab.errors import at_least, within
from supple_lab.rl.control import Task
from supple_lab.rl.dqn_problem import Mode
from supple_lab.spec import Problem

Algorithm = Literal["sac", "td3"]


@dataclass(frozen=True, kw_only=True)
class OffPolicy(Problem):
    """Actor and two critics that learn from a replay, an update a step; sizes and noise after CleanRL.

    Soft actor-critic (Haarnoja et al. 2018) with a trained temperature, or TD3 (Fujimoto et al. 2018). Stages and
    segments are those of PPO, with one body. Networks act in evaluation mode and learn in training mode.
    """

    name = "off_policy"
    task: Task
    algorithm: Algorithm = "sac"
    num_stages: int = 5
    segments_per_stage: int = 4
    steps_per_segment: int = 5_000
    num_random_steps: int = 5_000  # at the start, before the first update
    batch_size: int = 256
    discount: float = 0.99
    target_rate: float = 0.005  # by which target networks follow, after each update of the actor
    policy_delay: int = 2  # updates of the critics for one of TD3's actor
    noise: float = 0.1  # of TD3's actions, in units of the largest
    target_noise: float = 0.2  # of the actions that TD3's targets are of
    largest_noise: float = 0.5  # to which those are clipped
    target_mode: Mode = "eval"  # of the target networks; train: they draw masks, too
    num_evaluated: int = 10  # episodes after each stage, by the mean action

    def __post_init__(self) -> None:
        at_least(1, self, "num_stages", "segments_per_stage", "steps_per_segment", "policy_delay", "num_evaluated")
        at_least(2, self, "batch_size")
        at_least(1, self, "num_random_steps")  # an update needs a step to learn from
        at_least(0, self, "noise", "target_noise", "largest_noise")
        within(0, 1, self, "discount", "target_rate")

    @property
    def num_records(self) -> int:
        return self.num_stages

    @property
    def num_steps(self) -> int:
        """Of the whole run, and so the most that its replay holds."""
        return self.num_stages * self.segments_per_stage * self.steps_per_segment
