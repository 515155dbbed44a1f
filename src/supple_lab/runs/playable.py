"""Playable: whether a game, a network and a method go together in a DQN run, asked before anything is written."""

import math
from functools import cache
from typing import NamedTuple

from supple.methods.base import Method
from supple.methods.full_reset import FullReset
from supple_lab.models.nature_dqn import NatureDQN
from supple_lab.rl.atari import Atari
from supple_lab.rl.base import Game
from supple_lab.runs.blank_network import Shape, blank_network, size_of
from supple_lab.runs.dqn_problem import DQN
from supple_lab.runs.spec import RunSpec
from supple_lab.scenarios.base import Unsuitable


class Sights(NamedTuple):
    """What a player of the game has to do with."""

    frame_shape: tuple[int, int]
    num_actions: int


@cache
def sights_of(game: Game) -> Sights:
    """Found out by starting the game; Unsuitable where it cannot be started here."""
    try:
        environment = game.start(0)
    except ModuleNotFoundError as error:
        raise Unsuitable(str(error)) from error
    return Sights(environment.frame_shape, environment.num_actions)


def check_playable(spec: RunSpec, problem: DQN) -> None:
    """Raise Unsuitable, with the reason and a way out, if the run could not be carried out or would mean nothing."""
    sights = sights_of(problem.game)
    check_network(spec, problem, sights)
    if spec.method.acts_in("begin_stage", "end_stage") and problem.num_updates < problem.boundary_period:
        raise Unsuitable(
            f"{spec.method.name} acts every {problem.boundary_period:,} updates, and the run has about "
            f"{problem.num_updates:,}: it would not act. Use `supple play` with a smaller --boundary-period or a "
            "longer run."
        )
    if isinstance(spec.method, FullReset) and outruns_target(problem):
        raise Unsuitable(
            f"full_reset would empty the network every {problem.boundary_period:,} updates, while the target network "
            f"is renewed every {problem.target_period:,} steps: values could never spread further than from one copy "
            f"to the next. {longer_period(problem)}"
        )


def outruns_target(problem: DQN) -> bool:
    """Whether boundaries come as often as copies into the target network, or more often."""
    return problem.boundary_period <= problem.target_period * problem.replay_ratio


def longer_period(problem: DQN) -> str:
    """The way out, where boundaries come too often; the study has no such option."""
    num_updates = math.ceil(problem.target_period * problem.replay_ratio)
    return f"Use `supple play` with a --boundary-period of many times {num_updates:,} updates."


def remarks_on(problem: DQN, method: Method) -> list[str]:
    """What is allowed, but may not be what was meant."""
    found = []
    if method.acts_in("begin_stage") and outruns_target(problem):
        found.append(
            f"{method.name} changes the network every {problem.boundary_period:,} updates, while the target network is "
            f"renewed every {problem.target_period:,} steps: what was learned may fade before values have spread. "
            f"{longer_period(problem)}"
        )
    if not problem.num_updates:
        found.append(
            f"the first {problem.num_random_steps:,} steps are random and the run has about "
            f"{problem.num_iterations * problem.steps_per_iteration:,}: nothing is learned. Choose a smaller "
            "--num-random-steps or a longer run."
        )
    if problem.evaluation_steps > problem.steps_per_iteration:
        found.append(
            f"an iteration of {problem.steps_per_iteration:,} steps is followed by an evaluation of "
            f"{problem.evaluation_steps:,}. Choose a smaller --evaluation-steps to save time."
        )
    return found + remarks_on_cap(problem)


def remarks_on_cap(problem: DQN) -> list[str]:
    """Segments and evaluations end with a game; that games may outlast a segment of the default length is no news."""
    game = innermost(problem.game)
    if not isinstance(game, Atari):
        return []
    num_steps = game.rules.max_steps
    segment = min(problem.steps_per_segment, problem.steps_per_iteration)
    shorter = []
    if problem.evaluation_steps < num_steps:
        shorter.append(f"an evaluation ({problem.evaluation_steps:,})")
    if segment < min(num_steps, DQN.steps_per_segment):
        shorter.append(f"a segment of training ({segment:,})")
    if not shorter:
        return []
    return [
        f"a game may last {num_steps:,} steps, more than {' and '.join(shorter)}, and is played to its end. "
        "Choose a smaller --game.max-steps to bound what that takes."
    ]


def check_network(spec: RunSpec, problem: DQN, sights: Sights) -> None:
    """Refuse a network that cannot read the frames, or cannot be built with the method's activation."""
    model = spec.model
    if isinstance(innermost(problem.game), Atari) and not isinstance(model, NatureDQN):
        raise Unsuitable(
            f"Atari's frames are bytes from 0 to 255, and {model.name} does not rescale them. Choose nature_dqn."
        )
    if min(sights.frame_shape) < model.smallest_image:
        raise Unsuitable(
            f"{model.name} needs frames of at least {model.smallest_image}x{model.smallest_image} pixels, but those of "
            f"{problem.game.name} are {sights.frame_shape[0]}x{sights.frame_shape[1]}. Choose another model, as mlp."
        )
    num_parameters(spec, problem)


def innermost(game: Game) -> Game:
    """The game whose frames are seen, without the games around it, such as shuffled."""
    while isinstance(inner := getattr(game, "game", None), Game):
        game = inner
    return game


def num_parameters(spec: RunSpec, problem: DQN) -> int:
    """Parameters of the network; Unsuitable if it cannot be built."""
    num_actions = sights_of(problem.game).num_actions
    return size_of(blank_network(spec.model, spec.method, image_shape=state_shape(problem), num_classes=num_actions))


def state_shape(problem: DQN) -> Shape:
    """Of what the network sees: frames, height, width."""
    return (problem.num_stacked, *sights_of(problem.game).frame_shape)
