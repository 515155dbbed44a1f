"""Reinforcement learning: the environment's table (appendix F.4, Table 2) and the best p of each game (Table 9)."""

from collections.abc import Iterable
from dataclasses import dataclass

from supple.methods.activations import UseAID, UseDropout
from supple.methods.base import Method
from supple.methods.vanilla import Vanilla
from supple_lab.runs.optimizer import Adam
from supple_lab.studies.hyperparameters.setting import Slip, Table, instead_of, under

ADAM = Adam(learning_rate=6.25e-5, epsilon=1.5e-4)
PRINTED_ADAM = Adam(learning_rate=6.25e-4, epsilon=1.5e-4)
REASON = "ten times the learning rate of the settings that the paper says it follows (Sokar et al. 2023, Dopamine)"


@dataclass(frozen=True, kw_only=True)
class DQNSettings:
    """Table 2; steps are the agent's, four frames each."""

    optimizer: Adam
    min_epsilon: float = 0.01
    evaluation_epsilon: float = 0.001
    discount: float = 0.99
    replay_size: int = 1_000_000
    batch_size: int = 32
    num_initial_steps: int = 20_000
    num_iterations: int = 10
    steps_per_iteration: int = 250_000
    updates_per_step: int = 1
    target_period: int = 2_000
    loss: str = "huber"


DQN, PRINTED_DQN = DQNSettings(optimizer=ADAM), DQNSettings(optimizer=PRINTED_ADAM)

# Table 9: Dropout's drop rate, AID's p.
BEST_P = {
    "Seaquest": (0.01, 0.999),
    "DemonAttack": (0.01, 0.99),
    "SpaceInvaders": (0.01, 0.99),
    "Qbert": (0.01, 0.999),
    "DoubleDunk": (0.01, 0.99),
    "MsPacman": (0.01, 0.999),
    "Enduro": (0.001, 0.99),
    "BeamRider": (0.01, 0.99),
    "WizardOfWor": (0.01, 0.999),
    "Jamesbond": (0.01, 0.99),
    "RoadRunner": (0.01, 0.999),
    "Asterix": (0.01, 0.99),
    "Pong": (0.01, 0.999),
    "Zaxxon": (0.01, 0.999),
    "YarsRevenge": (0.01, 0.99),
    "Breakout": (0.01, 0.99),
    "IceHockey": (0.01, 0.99),
}


def with_adam(methods: Iterable[Method]) -> tuple[Slip, ...]:
    """The methods with the optimizer of every game."""
    return instead_of(PRINTED_ADAM, under(ADAM, methods), reason=REASON)


ATARI: Table = {
    game: with_adam((Vanilla(), UseDropout(drop_positive=drop_positive), UseAID(relu_prob=relu_prob)))
    for game, (drop_positive, relu_prob) in BEST_P.items()
}
