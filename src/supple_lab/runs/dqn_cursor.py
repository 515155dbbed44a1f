"""DQN cursor: where in a DQN run we are, between two segments, and the sums of the iteration so far."""

from dataclasses import dataclass


@dataclass
class DQNCursor:
    """All of it counts from the start of the run, but for what is said to be of the iteration."""

    iteration: int = 0
    segment: int = 0
    num_steps: int = 0
    num_updates: int = 0
    steps_of_iteration: int = 0
    games_of_iteration: int = 0
    scores_of_iteration: float = 0.0  # their sum, while learning and exploring

    def next_step(self, score: float | None) -> None:
        """A step was taken; a score says that it ended a game."""
        self.num_steps += 1
        self.steps_of_iteration += 1
        if score is not None:
            self.games_of_iteration += 1
            self.scores_of_iteration += score

    def next_iteration(self) -> None:
        """The iteration is over."""
        self.iteration += 1
        self.steps_of_iteration = self.games_of_iteration = 0
        self.scores_of_iteration = 0.0
