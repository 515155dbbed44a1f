"""Exploration: how often DQN acts at random, a function of the steps taken, so that a resumed run needs no memory."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Exploration:
    """Always at first, then linearly less often down to a floor (Dopamine's schedule; the paper gives the floor)."""

    num_random_steps: int = 20_000  # the paper's initial collect steps
    num_decay_steps: int = 250_000
    floor: float = 0.01

    def __post_init__(self) -> None:
        if self.num_random_steps < 0 or self.num_decay_steps < 1:
            raise ValueError(
                "Exploration needs num_random_steps of at least 0 and num_decay_steps of at least 1; "
                f"got {self.num_random_steps} and {self.num_decay_steps}."
            )
        if not 0 <= self.floor <= 1:
            raise ValueError(f"Exploration.floor is a probability, in [0, 1]; got {self.floor}.")

    def epsilon(self, step: int) -> float:
        """The probability of a random action at a step, counted from 0."""
        decayed = (step - self.num_random_steps) / self.num_decay_steps
        return 1.0 - (1.0 - self.floor) * min(1.0, max(0.0, decayed))
