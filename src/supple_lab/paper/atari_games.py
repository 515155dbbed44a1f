"""Atari's conditions: a game at a scale's length, with the paper's p for it, with one p for all, acting with masks."""

from dataclasses import replace

from supple.methods.activations import UseAID, UseDropout
from supple.methods.vanilla import Vanilla
from supple_lab.models.nature_dqn import NatureDQN
from supple_lab.optimizer import Adam
from supple_lab.paper.study import Condition, Seeds, StudyOptions, settings_of
from supple_lab.paper.tables import Setting, crossed
from supple_lab.rl.atari import Atari as Game
from supple_lab.rl.dqn_problem import DQN
from supple_lab.rl.games import GAMES

SEEDS = Seeds(smoke=1, quick=1, paper=5)
RANKED = ("Asterix", "BeamRider", "DemonAttack")  # known for plasticity loss; the paper shows their effective rank
TITLES = {"smoke": ("Asterix",), "quick": ("RoadRunner",), "paper": tuple(GAMES)}
# Games in which AID acts in training mode, too. The paper names none; those whose rank is looked at serve twice.
ROLLOUTS = {"smoke": ("Asterix",), "quick": (), "paper": RANKED}
# A random player of RoadRunner hardly scores, and one that learned to keep running scores hundreds of times as much.
QUICK = (Vanilla(), UseDropout(drop_positive=0.01), UseAID(relu_prob=0.99))
QUICK_RATE = Adam(learning_rate=1e-4, epsilon=1.5e-4)


def per_game(title: str, order: StudyOptions) -> Condition:
    """The paper's best p of the game."""
    return Condition(
        label=title,
        problem=problem_of(title, order),
        model=NatureDQN(),
        experiment="atari",
        case=title,
        seeds=SEEDS,
        given=quick_settings(order),
    )


def one_p(title: str, order: StudyOptions) -> Condition | None:
    """The same p for all games; at quick scale there is one p anyway."""
    if has_own_p(order):
        return None
    return replace(per_game(title, order), label=f"{title}, one p", experiment="atari_one_p")


def in_training_mode(title: str, order: StudyOptions) -> Condition | None:
    """AID that acts in training mode, in the games that are asked."""
    if title not in ROLLOUTS[order.scale]:
        return None
    usual = per_game(title, order)
    return replace(
        usual,
        label=f"{title}, acting in training mode",
        problem=replace(problem_of(title, order), act_mode="train"),
        given=tuple(setting for setting in usual.settings(order) if setting.method.name == "aid"),
    )


def has_own_p(order: StudyOptions) -> bool:
    """Whether p and rate are quick scale's own; a search tries the paper's."""
    return order.scale == "quick" and not order.search


def quick_settings(order: StudyOptions) -> tuple[Setting, ...] | None:
    """At quick scale the methods have a rate of their own; elsewhere, and in a search, the tables'."""
    if not has_own_p(order):
        return None
    rows = crossed(QUICK, QUICK_RATE)
    wanted = (*(order.methods or [row.method.name for row in rows]), *order.also)
    return tuple(setting for name in dict.fromkeys(wanted) for setting in settings_of(name, rows))


def problem_of(title: str, order: StudyOptions) -> DQN:
    """The game at the scale's length."""
    if order.scale == "paper":
        return DQN(game=Game(title=title))
    if order.scale == "quick":
        return DQN(
            game=Game(title=title),
            num_iterations=5,
            steps_per_iteration=6_000,
            steps_per_segment=2_000,
            evaluation_steps=2_000,
            num_random_steps=2_000,
            num_decay_steps=8_000,
            target_period=500,
            capacity=50_000,
        )
    return DQN(
        game=Game(title=title, max_steps=30),
        num_iterations=2,
        steps_per_iteration=60,
        steps_per_segment=30,
        evaluation_steps=30,
        num_random_steps=90,
        num_decay_steps=30,
        target_period=20,
        boundary_period=20,
        capacity=1_000,
    )
