"""Problems of the arena: small ones on digits that come with scikit-learn, and their siblings on MNIST and CIFAR.

Full scale has the paper's data and networks, its batches but for permuted inputs, and shorter streams, so that thirteen
entries on three problems take half an hour of a GPU: 17 runs of 4,700 to 7,000 steps for each entry and problem.

The score of a stage is what the problem asks for: accuracy on the training images where nothing can be generalised,
accuracy on test images where it can, the return in a game.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from supple_lab.data.base import Dataset
from supple_lab.data.cifar import CIFAR10, CIFAR100
from supple_lab.data.digits import Digits
from supple_lab.data.idx import MNIST
from supple_lab.data.slice import Slice
from supple_lab.models.base import Model
from supple_lab.models.cnn import CNN
from supple_lab.models.mlp import MLP
from supple_lab.rl.chain import Chain, Renamed
from supple_lab.rl.dqn_problem import DQN
from supple_lab.scenarios.base import Scenario
from supple_lab.scenarios.class_incremental import ClassIncremental
from supple_lab.scenarios.continual import ContinualFull
from supple_lab.scenarios.noisy_labels import NoisyLabels
from supple_lab.scenarios.permuted_input import PermutedInput
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.spec import Problem, Supervised

Scale = Literal["smoke", "quick", "full"]
Task = tuple[Problem, Model]


@dataclass(frozen=True, kw_only=True)
class ArenaProblem:
    """What is asked, and the runs that ask it, by scale."""

    name: str
    title: str
    asks: Literal["trainability", "generalisation", "return"]
    score: str  # the key of a record
    tasks: Mapping[Scale, Task]
    # Of a run. Quick: measured on a core of an AMD EPYC (53 entries); full: the steps by what one takes in a sweep on
    # an H200 (docs/results/training/sweeps.json), the game's measured on a core (ReLU); smoke: guessed.
    seconds: Mapping[Scale, float]

    def network(self, scale: Scale) -> str:
        return self.tasks[scale][1].name.upper()

    def chance(self, scale: Scale) -> float:
        """The score of a guess, mean of the later half of the stages."""
        match self.tasks[scale][0]:
            case Supervised(scenario=ClassIncremental(num_stages=num_stages), dataset=dataset):
                per_stage = dataset.facts.num_classes // num_stages
                return fmean(1 / (per_stage * (index + 1)) for index in range(num_stages // 2, num_stages))
            case Supervised(dataset=dataset):
                return 1 / dataset.facts.num_classes
            case DQN(game=Renamed(game=Chain(num_places=num_places, num_actions=num_actions))):
                # the greedy player repeats a wrong guess to the end: place k is left if k guesses are right
                return sum(num_actions**-place for place in range(1, num_places + 1)) / num_places
        raise NotImplementedError(f"what a guess scores on {self.name}")


def digits(number: int, *, image: Literal["1x8x8", "1x16x16"] = "1x8x8") -> Slice:
    return Slice(of=Digits(image=image), num_train=number, num_test=197)


def task(scenario: Scenario, dataset: Dataset, model: Model) -> Task:
    return Supervised(scenario=scenario, dataset=dataset), model


SMALL_MLP, SMALL_CNN = MLP(width=64, num_hidden=3), CNN(channels=8, hidden=32)
TINY = MLP(width=8, num_hidden=2)


def chain(*, places: int, iterations: int, steps: int, replay: int) -> DQN:
    """A chain whose actions change their names at each iteration; the replay forgets the names of before."""
    return DQN(
        game=Renamed(game=Chain(num_places=places, num_actions=4, pay="way")),
        num_iterations=iterations,
        steps_per_iteration=steps,
        steps_per_segment=steps,
        evaluation_steps=1,
        num_random_steps=16,
        num_decay_steps=1,
        epsilon_floor=0.5,
        target_period=10,
        boundaries="iterations",
        discount=0.5,
        capacity=replay,
        num_stacked=1,
        metrics=(),
    )


PROBLEMS = (
    ArenaProblem(
        name="random_labels",
        title="Labels drawn again at each stage",
        asks="trainability",
        score="train_accuracy",
        tasks={
            "smoke": task(RandomLabel(num_stages=3, epochs=1, num_images=64), Digits(), TINY),
            "quick": task(RandomLabel(num_stages=12, epochs=20, num_images=128), Digits(), SMALL_MLP),
            "full": task(RandomLabel(num_stages=24, epochs=10), MNIST(), MLP()),
        },
        seconds={"smoke": 0.1, "quick": 0.76, "full": 1.1},
    ),
    ArenaProblem(
        name="permuted_inputs",
        title="Pixels shuffled again at each stage",
        asks="trainability",
        score="train_accuracy",
        tasks={
            "smoke": task(PermutedInput(num_stages=3, batch_size=64), digits(64), TINY),
            "quick": task(PermutedInput(num_stages=12, batch_size=64), Digits(), SMALL_MLP),
            "full": task(
                PermutedInput(num_stages=30, batch_size=64), Slice(of=MNIST(), num_train=10_000, num_test=2000), MLP()
            ),
        },
        seconds={"smoke": 0.1, "quick": 0.46, "full": 0.9},
    ),
    ArenaProblem(
        name="growing_data",
        title="More images at each stage",
        asks="generalisation",
        score="test_accuracy",
        tasks={
            "smoke": task(ContinualFull(num_stages=3, epochs=1), digits(60), TINY),
            "quick": task(
                ContinualFull(num_stages=4, epochs=20, batch_size=32), digits(160, image="1x16x16"), SMALL_CNN
            ),
            "full": task(ContinualFull(num_stages=5, epochs=12), CIFAR10(), CNN()),
        },
        seconds={"smoke": 0.1, "quick": 1.27, "full": 2.3},
    ),
    ArenaProblem(
        name="label_noise",
        title="Fewer wrong labels at each stage",
        asks="generalisation",
        score="test_accuracy",
        tasks={
            "smoke": task(NoisyLabels(num_stages=2, noise=(0.5, 0.0), epochs=1, augmented=False), digits(60), TINY),
            "quick": task(
                NoisyLabels(
                    num_stages=6, noise=(0.5, 0.4, 0.3, 0.2, 0.1, 0.0), epochs=10, batch_size=32, augmented=False
                ),
                digits(300),
                SMALL_MLP,
            ),
            "full": task(NoisyLabels(num_stages=5, noise=(0.5, 0.4, 0.3, 0.2, 0.0), epochs=12), CIFAR10(), CNN()),
        },
        seconds={"smoke": 0.1, "quick": 0.53, "full": 2.3},
    ),
    ArenaProblem(
        name="new_classes",
        title="More classes at each stage",
        asks="generalisation",
        score="learned_test_accuracy",
        tasks={
            "smoke": task(ClassIncremental(num_stages=2, epochs=1), digits(100), TINY),
            "quick": task(
                ClassIncremental(num_stages=5, epochs=20, batch_size=32), digits(160, image="1x16x16"), SMALL_CNN
            ),
            "full": task(ClassIncremental(num_stages=5, epochs=12), CIFAR100(), CNN()),
        },
        seconds={"smoke": 0.1, "quick": 1.63, "full": 2.3},
    ),
    ArenaProblem(
        name="renamed_actions",
        title="A game whose actions change their names",
        asks="return",
        score="score",
        tasks={
            "smoke": (chain(places=3, iterations=2, steps=24, replay=24), TINY),
            "quick": (chain(places=6, iterations=8, steps=60, replay=40), MLP(width=32, num_hidden=2)),
            "full": (chain(places=8, iterations=20, steps=200, replay=120), MLP(width=256, num_hidden=2)),
        },
        seconds={"smoke": 0.1, "quick": 0.96, "full": 7.5},
    ),
)
