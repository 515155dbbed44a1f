"""Whether the parts of a run go together, checked before anything is loaded or written."""

import dataclasses
import math
from functools import cache
from typing import NamedTuple

import torch
from torch import nn

from supple.layers import give_widths_
from supple.methods import Chain, FullReset, Method
from supple.methods.base import period_of
from supple.random import held_masks, kept_default_generators
from supple_lab.data.base import Dataset, Facts
from supple_lab.data.digits import Digits
from supple_lab.models.base import Model
from supple_lab.models.gpt import GPT
from supple_lab.models.nature_dqn import NatureDQN
from supple_lab.precision import Precision
from supple_lab.rl.atari import Atari
from supple_lab.rl.base import Game
from supple_lab.rl.control import Body, Task
from supple_lab.rl.dqn_problem import DQN
from supple_lab.rl.off_policy_problem import OffPolicy
from supple_lab.rl.ppo_problem import PPO
from supple_lab.run.network import Shape, blank_network, format_shape, size_of
from supple_lab.run.subnetworks import check_subnetworks
from supple_lab.scenarios.base import Scenario, Unsuitable
from supple_lab.spec import RunSpec, Supervised


def check_suitable(spec: RunSpec, *, device: str) -> None:
    """Raise Unsuitable, with the reason and a way out, if the run could not be carried out or would mean nothing."""
    if spec.precision == "tf32" and device == "cpu":
        raise Unsuitable(
            "precision tf32 is a way in which CUDA GPUs multiply; on a CPU it changes nothing. Leave it out there."
        )
    check_current(spec.method)
    if isinstance(spec.problem, DQN):
        check_playable(spec, spec.problem)
    if isinstance(spec.problem, PPO | OffPolicy):
        check_controllable(spec, spec.problem)
    if not isinstance(spec.problem, Supervised):
        return
    scenario, dataset = spec.problem.scenario, spec.problem.dataset
    check_kind(spec, scenario, dataset)
    scenario.check(dataset.facts)
    check_images(spec.model, dataset)
    if spec.problem.subnetworks:
        check_subnetworks(spec)
    num_parameters(spec.model, spec.method, dataset.facts, smallest_batch(scenario, dataset.facts))


def check_current(method: Method) -> None:
    """Refuse what a method was before a correction, which can be read, not run."""
    if isinstance(method, Chain) and not method.methods:
        raise Unsuitable("chain needs methods, such as --method.methods l2_init redo --method.redo.threshold 0.1.")
    for field in dataclasses.fields(method):  # type: ignore[arg-type]
        value = getattr(method, field.name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Method):  # what a full reset is built with, what a chain holds
                check_current(part)
        if field.name == "revision" and value != field.default:
            raise Unsuitable(
                f"{method.name} was corrected since revision {value}, "
                f"and only revision {field.default} can be run; leave method.revision out."
            )


def acts_between_stages_alone(method: Method) -> bool:
    """Whether a run of one stage trains as vanilla does."""
    inside = method.acts_in("after_backward", "after_step") or not isinstance(method.activation(), nn.ReLU)
    return method.acts_in("begin_stage", "end_stage") and not inside


def num_steps_of(problem: Supervised) -> int:
    scenario = problem.scenario
    return sum(scenario.size(index, problem.dataset.facts).num_steps for index in range(scenario.num_stages))


def remarks(spec: RunSpec, *, device: str) -> list[str]:
    """What is allowed, but may not be what was meant."""
    found, method = remarks_on_precision(spec.precision, device=device), spec.method
    if isinstance(spec.problem, Supervised) and acts_between_stages_alone(method):
        every, num_steps = period_of(method), num_steps_of(spec.problem)
        if every is None and spec.problem.scenario.num_stages == 1:
            found.append(
                f"{method.name} acts between stages, and there is only one: the run trains as vanilla does. "
                f"Choose a scenario with more stages to see what {method.name} does."
            )
        if every is not None and every > num_steps:
            found.append(
                f"{method.name} acts every {every:,} optimizer steps, and the run has {num_steps:,}: it trains as "
                "vanilla does. Choose a smaller --method.every."
            )
    if isinstance(spec.problem, DQN):
        found += remarks_on(spec.problem, spec.method)
    return found


def remarks_on_precision(precision: Precision, *, device: str) -> list[str]:
    if precision != "bf16" or device != "cpu":
        return []
    return [
        "bf16 is slow on a CPU without instructions for it, and some machines end the process with 'illegal "
        "instruction'; set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 there, or run it by supple train --precision fp32."
    ]


def check_kind(spec: RunSpec, scenario: Scenario, dataset: Dataset) -> None:
    """Texts and images have models and scenarios of their own."""
    is_text = dataset.facts.is_text
    if is_text != isinstance(spec.model, GPT):
        wanted = "the model gpt" if is_text else "a text, cpython or sums, or another model"
        kind = "a text" if is_text else "images"
        raise Unsuitable(f"{dataset.name} is {kind}, which {spec.model.name} cannot read. Choose {wanted}.")
    if is_text and not scenario.takes_text:
        raise Unsuitable(
            f"{scenario.name} changes images or their labels, and {dataset.name} is a text. Choose the scenario "
            "text_stream or stationary."
        )


def check_images(model: Model, dataset: Dataset) -> None:
    if isinstance(model, NatureDQN):
        raise Unsuitable(
            "nature_dqn reads frames of bytes and divides them by 255, but these images come normalised. "
            "Choose another model: mlp, cnn, resnet18 or vgg16."
        )
    shape, smallest = dataset.facts.image_shape, model.smallest_image
    if min(shape[1:]) < smallest:
        larger = (
            "larger digits (--dataset.image 3x32x32)" if isinstance(dataset, Digits) else "a dataset of larger images"
        )
        raise Unsuitable(
            f"{model.name} needs images of at least {smallest}x{smallest} pixels, but those of {dataset.name} are "
            f"{format_shape(shape)}. Choose {larger}, or a model that takes any size: mlp, resnet18."
        )


@cache
def smallest_batch(scenario: Scenario, facts: Facts) -> int:
    """The least number of images that a step trains on; the last batch of an epoch may be short."""
    sizes = (scenario.size(index, facts) for index in range(scenario.num_stages))
    return min(size.num_images % size.batch_size or size.batch_size for size in sizes)


@cache
def num_parameters(model: Model, method: Method, facts: Facts, num_images: int) -> int:
    """Parameters of the network; Unsuitable if it cannot be built, or cannot train on such a batch."""
    shape = facts.image_shape
    network = blank_network(model, method, image_shape=shape, num_classes=facts.num_classes)
    if num_images == 1 and any(isinstance(module, nn.BatchNorm2d) for module in network.modules()):
        try:
            network.train()(torch.zeros(1, *shape, device="meta"))
        except ValueError as error:  # of a batch norm that would take the variance of one number
            raise Unsuitable(
                f"the last batch of an epoch would hold one image, and the batch norms of {model.name} cannot train on "
                f"one image of {format_shape(shape)}. Choose another batch_size, or a model without batch norm: "
                "mlp, cnn."
            ) from error
    return size_of(network)


class GameInfo(NamedTuple):
    """What a game shows and takes."""

    frame_shape: tuple[int, int]
    num_actions: int


@cache
def game_info(game: Game) -> GameInfo:
    """Found out by starting the game; Unsuitable if it cannot be started here."""
    try:
        environment = game.start(0)
    except ModuleNotFoundError as error:
        raise Unsuitable(str(error)) from error
    return GameInfo(environment.frame_shape, environment.num_actions)


def check_playable(spec: RunSpec, problem: DQN) -> None:
    """Raise Unsuitable, with the reason and a way out, if the run could not be carried out or would mean nothing."""
    model, (height, width) = spec.model, game_info(problem.game).frame_shape
    if isinstance(innermost(problem.game), Atari) and not isinstance(model, NatureDQN):
        raise Unsuitable(
            f"Atari's frames are bytes from 0 to 255, and {model.name} does not rescale them. Choose nature_dqn."
        )
    if min(height, width) < model.smallest_image:
        raise Unsuitable(
            f"{model.name} needs frames of at least {model.smallest_image}x{model.smallest_image} pixels, but those of "
            f"{problem.game.name} are {height}x{width}. Choose another model, as mlp."
        )
    num_weights(spec, problem)  # the network can be built with the method's activation
    acts = Acts.of(problem, spec.method)
    if spec.method.acts_in("begin_stage", "end_stage") and problem.num_updates < acts.period:
        raise Unsuitable(
            f"{spec.method.name} acts every {acts.period:,} updates, and the run has about {problem.num_updates:,}: it "
            f"would not act. Use `supple play` with a smaller {acts.option} or a longer run."
        )
    if isinstance(spec.method, FullReset) and acts.outrun_target:
        raise Unsuitable(
            f"full_reset would empty the network every {acts.period:,} updates, while the target network "
            f"is renewed every {problem.target_period:,} steps: values could never spread further than from one copy "
            f"to the next. {acts.more_seldom}"
        )


def body_of(task: Task) -> Body:
    """A body of the task; Unsuitable if its simulator is not installed."""
    try:
        return task.start(0)
    except ModuleNotFoundError as error:
        raise Unsuitable(str(error)) from error


def check_controllable(spec: RunSpec, problem: PPO | OffPolicy) -> None:
    """Raise Unsuitable, with the reason and a way out, if the run could not be carried out."""
    body = body_of(problem.task)
    if spec.model.smallest_image > min(body.image_shape[1:]):
        raise Unsuitable(f"{spec.model.name} reads images, and a task of control shows numbers. Choose mlp.")
    blank_network(spec.model, spec.method, image_shape=body.image_shape, num_classes=body.num_actions)
    if isinstance(problem, OffPolicy) and body.chooses:
        raise Unsuitable(f"{problem.algorithm} gives forces, and a game takes one of its actions. Choose ppo or dqn.")
    if isinstance(problem, PPO) and problem.masks == "held" and not can_be_held(spec.method.activation()):
        raise Unsuitable(
            f"what {spec.method.name} draws cannot be held per sample, as PPO needs it. Leave {spec.method.name} out, "
            "or run other agents alone: --only SAC, --only TD3 or --only DQN. In Python, PPO(masks='fresh') takes it."
        )


def can_be_held(activation: nn.Module) -> bool:
    """Whether two forwards by the same held masks are alike in training mode."""
    x = torch.linspace(-3.0, 3.0, 2**12).view(64, 64)  # several rows, for batch norms in activations of a plugin
    give_widths_(activation, x)

    def forward() -> torch.Tensor:
        with torch.no_grad(), held_masks(torch.arange(len(x))):
            return activation.train()(x)

    with kept_default_generators():
        try:
            return torch.equal(forward(), forward())
        except TypeError:  # of ours that draw what cannot be held
            return False


class Acts(NamedTuple):
    """How often a method that acts between stages acts in a game, and how often the target network is renewed."""

    period: int  # in updates
    option: str  # that says so
    num_until_copy: float  # updates between two copies into the target network

    @classmethod
    def of(cls, problem: DQN, method: Method) -> "Acts":
        """At boundaries, unless the method has a period of its own."""
        every, num_until_copy = period_of(method), problem.target_period * problem.replay_ratio
        period = problem.updates_between_boundaries
        own = (period, "--boundary-period") if every is None else (every, "--method.every")
        return cls(*own, num_until_copy)

    @property
    def outrun_target(self) -> bool:
        """Whether they come as often as copies into the target network, or more often."""
        return self.period <= self.num_until_copy

    @property
    def more_seldom(self) -> str:
        """The way out if they come too often; the study has no such option."""
        return f"Use `supple play` with a {self.option} of many times {math.ceil(self.num_until_copy):,} updates."


def remarks_on(problem: DQN, method: Method) -> list[str]:
    """What is allowed, but may not be what was meant."""
    found, acts = [], Acts.of(problem, method)
    if method.acts_in("begin_stage") and acts.outrun_target:
        found.append(
            f"{method.name} changes the network every {acts.period:,} updates, while the target network is "
            f"renewed every {problem.target_period:,} steps: what was learned may fade before values have spread. "
            f"{acts.more_seldom}"
        )
    if not problem.num_updates:
        found.append(
            f"the first {problem.num_random_steps:,} steps are random and the run has about "
            f"{problem.num_iterations * problem.steps_per_iteration:,}: nothing is learned. Choose a smaller "
            "--num-random-steps or a longer run."
        )
    return found


def innermost(game: Game) -> Game:
    """The game whose frames are seen, without the games around it, such as shuffled."""
    while isinstance(inner := getattr(game, "game", None), Game):
        game = inner
    return game


def num_weights(spec: RunSpec, problem: DQN) -> int:
    """Parameters of the network; Unsuitable if it cannot be built."""
    num_actions = game_info(problem.game).num_actions
    return size_of(blank_network(spec.model, spec.method, image_shape=state_shape(problem), num_classes=num_actions))


def state_shape(problem: DQN) -> Shape:
    """Of what the network sees: frames, height, width."""
    return (problem.num_stacked, *game_info(problem.game).frame_shape)
