"""Reinforcement learning: the optimizer of Table 2 (its other rows are runs.dqn_problem.DQN), the best p by game."""

from collections.abc import Iterable

from supple.methods.activations import UseAID, UseDropout
from supple.methods.base import Method
from supple.methods.vanilla import Vanilla
from supple_lab.optimizer import Adam
from supple_lab.paper.tables.setting import Slip, Table, instead_of, under

ADAM = Adam(learning_rate=6.25e-5, epsilon=1.5e-4)
PRINTED_ADAM = Adam(learning_rate=6.25e-4, epsilon=1.5e-4)
REASON = "ten times the learning rate of the settings that the paper says it follows (Sokar et al. 2023, Dopamine)"

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
