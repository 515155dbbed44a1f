"""Entries of the study why_aid, tuned alike: what is run of each under which protocol.

An entry with a strength has four strengths at each learning rate; one without has as many learning rates instead. On
MNIST the rate is 1e-3 for all, because a lower one takes away the loss that is asked about, ReLU's. AID's own forms
and the leaky ReLU are matched: AID of p lets positive values pass with probability p and negative ones with 1 - p, so
its leaky ReLU has the slope (1 - p) / p. Dropout has the range that the paper searched. Pools are not tuned: either
kind is an arm.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any, Literal, NamedTuple, get_args

from supple import methods as m
from supple_lab.codec import decode
from supple_lab.data.base import Dataset
from supple_lab.data.cifar import CIFAR10, CIFAR100
from supple_lab.data.digits import Digits
from supple_lab.data.idx import MNIST
from supple_lab.data.slice import Slice
from supple_lab.models.base import Model
from supple_lab.models.cnn import CNN
from supple_lab.models.mlp import MLP
from supple_lab.models.resnet18 import ResNet18
from supple_lab.optimizer import Adam, Optimizer
from supple_lab.paper.study import USUAL_SEEDS, ByScale, Condition, Scale, StudyOptions, settings_of
from supple_lab.paper.tables import Setting
from supple_lab.precision import Precision
from supple_lab.results.results import Results, Sample
from supple_lab.results.select import Rule as SelectionRule
from supple_lab.scenarios.base import Scenario
from supple_lab.scenarios.continual import ContinualFull, ContinualLimited
from supple_lab.scenarios.permuted_input import PermutedInput
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.scenarios.stationary import Stationary
from supple_lab.scenarios.warm_start import WarmStart
from supple_lab.spec import Supervised

CHOSEN = files("supple_lab.paper") / "why_aid.json"  # what was chosen, by scale, arm and entry
TUNING_SEED = 1000
TUNING_SEEDS = ByScale(smoke=1, quick=1, paper=1)
Pool = Literal["max", "average"]
POOLS: tuple[Pool, ...] = get_args(Pool)
PROBABILITIES = (0.99, 0.9, 0.8, 0.7)  # AID's p
SLOPES = tuple(round((1 - p) / p, 2) for p in PROBABILITIES)  # of leaky ReLUs whose slopes are in AID's proportion
WITH_STRENGTH: Mapping[str, tuple[m.Method, ...]] = {
    "leaky_relu": tuple(m.UseLeakyReLU(slope=slope) for slope in SLOPES),
    "rrelu": tuple(m.UseRReLU(lower_slope=slope / 2, upper_slope=1.5 * slope) for slope in SLOPES),
    # Up to the 0.5 that the paper's CNN has in Table 7, and beside slopes that need not grow with it.
    "dropout": tuple(m.UseDropout(drop_positive=drop) for drop in (0.01, 0.1, 0.3, 0.5)),
    "leaky_dropout": tuple(
        m.UseLeakyDropout(slope=slope, drop=drop) for slope, drop in ((0.01, 0.01), (0.1, 0.1), (0.1, 0.4), (0.4, 0.3))
    ),
    **{
        cls.name: tuple(cls(relu_prob=p) for p in PROBABILITIES)
        for cls in (m.UseAID, m.UseAIDMean, m.UseAIDGauss, m.UseAIDPerUnit, m.UseLayerNormAID)
    },
}
WITHOUT: Mapping[str, m.Method] = {"vanilla": m.Vanilla(), "prelu": m.UsePReLU(), "layer_norm": m.UseLayerNorm()}
ENTRIES = (*WITHOUT, *WITH_STRENGTH)
# Learning rates of entries with a strength, and of those without, which have four times as many: between the two rates,
# or, if there is one, around it, which is their advantage.
ONE_RATE, TWO_RATES = (1e-3,), (1e-3, 1e-4)  # the paper's
MANY = {ONE_RATE: (1e-4, 3e-4, 1e-3, 3e-3), TWO_RATES: (1e-4, 1.4e-4, 2e-4, 2.7e-4, 3.7e-4, 5e-4, 7e-4, 1e-3)}


class Task(NamedTuple):
    """What is learned, and by which network."""

    dataset: Dataset
    scenario: Scenario
    model: Model

    def with_pools(self, pool: Pool) -> "Task":
        """The same with such pools, if the network has any."""
        return self._replace(model=replace(self.model, pool=pool)) if isinstance(self.model, CNN) else self


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """A task at each scale that has it, and the number by which entries are compared there."""

    name: str
    tasks: Mapping[Scale, Task]
    metric: str = "test_accuracy"
    rule: SelectionRule = "final"
    entries: tuple[str, ...] = ENTRIES
    rates: tuple[float, ...] = TWO_RATES  # at full scale
    tunes_rate: bool = True  # of entries without a strength, too
    precision: Precision = "default"

    def score(self, runs: Results) -> Sample:
        return runs.final(self.metric) if self.rule == "final" else runs.stage_mean(self.metric)


DIGITS, IMAGES = Digits(), Digits(image="3x32x32")
PROTOCOLS = (
    Protocol(
        name="random labels",
        tasks={
            "smoke": Task(DIGITS, RandomLabel(num_stages=2, epochs=1, num_images=128), MLP(width=16, num_hidden=2)),
            "quick": Task(DIGITS, RandomLabel(num_stages=8, epochs=25), MLP(width=128)),
            "full": Task(MNIST(), RandomLabel(num_stages=25, epochs=50), MLP()),
        },
        metric="train_accuracy",
        rule="stage_mean",
        rates=ONE_RATE,
        tunes_rate=False,
    ),
    Protocol(
        name="permuted inputs",
        tasks={"full": Task(MNIST(), PermutedInput(num_stages=300), MLP())},
        metric="train_accuracy",
        rule="stage_mean",
        rates=ONE_RATE,
        tunes_rate=False,
    ),
    Protocol(
        name="continual full",
        tasks={
            "smoke": Task(
                Slice(of=IMAGES, num_train=40, num_test=20),
                ContinualFull(num_stages=2, epochs=1, batch_size=20),
                CNN(channels=2, hidden=4),
            ),
            "quick": Task(
                Slice(of=IMAGES, num_train=200, num_test=197),
                ContinualFull(num_stages=5, epochs=15, batch_size=16),
                CNN(channels=8, hidden=50),
            ),
            "full": Task(CIFAR10(), ContinualFull(num_stages=5, epochs=25), CNN()),
        },
    ),
    Protocol(
        name="continual limited", tasks={"full": Task(CIFAR10(), ContinualLimited(num_stages=5, epochs=30), CNN())}
    ),
    Protocol(name="supervised", tasks={"full": Task(CIFAR10(), Stationary(epochs=60, milestones=(30, 45)), CNN())}),
    Protocol(
        name="warm start",
        # 6,000 steps on a tenth, then 5,880 on all; a network that starts on all is slower with AID for 4,000 steps.
        tasks={"full": Task(CIFAR100(), WarmStart(warm_epochs=300, epochs=30), ResNet18())},
        entries=("vanilla", "leaky_relu", "leaky_dropout", "aid"),
        rates=ONE_RATE,
        precision="bf16",  # as ResNet-18 has it in all studies
    ),
)


@dataclass(frozen=True, kw_only=True)
class Arm:
    """A protocol at one scale, with one kind of pool if its network has pools."""

    protocol: Protocol
    scale: Scale
    pool: Pool | None

    @property
    def label(self) -> str:
        return f"{self.protocol.name}, {self.pool} pools" if self.pool else self.protocol.name

    def grid(self) -> list[Setting]:
        """Every setting that is tried: as many for each entry, unless there is nothing to tune."""
        rates = self.protocol.rates if self.scale == "full" else ONE_RATE
        many = MANY[rates] if self.protocol.tunes_rate else rates
        return [
            Setting(method, Adam(learning_rate=rate))
            for entry in self.protocol.entries
            for method, rate in (
                product(WITH_STRENGTH[entry], rates) if entry in WITH_STRENGTH else product([WITHOUT[entry]], many)
            )
        ]

    def chosen(self) -> list[Setting]:
        """The setting of each entry that was chosen; at smoke scale, which chooses nothing, one of the middle."""
        if self.scale == "smoke":
            grid = self.grid()
            return [settings_of(entry, grid)[:2][-1] for entry in self.protocol.entries]
        entries = choices().get(self.scale, {}).get(self.label, {})
        return [
            Setting(decode(m.Method, one["method"]), decode(Optimizer, one["optimizer"])) for one in entries.values()
        ]

    def runs(self, results: Results, order: StudyOptions) -> dict[str, Results]:
        """By entry."""
        return self.condition(order).of(results, order).by_method()

    def condition(self, order: StudyOptions) -> Condition:
        rows = self.grid() if order.search else self.chosen()
        chosen = list(dict.fromkeys(row.method.name for row in rows))
        names = dict.fromkeys([*(order.methods or chosen), *order.also])
        ready = [name for name in names if rows and (name in chosen or name not in ENTRIES)]
        task = self.protocol.tasks[self.scale]
        dataset, scenario, model = task.with_pools(self.pool) if self.pool else task
        return Condition(
            label=self.label,
            problem=Supervised(scenario=scenario, dataset=dataset),
            model=model,
            is_tuned=True,
            given=tuple(setting for name in ready for setting in settings_of(name, rows)),
            seeds=TUNING_SEEDS if order.search else USUAL_SEEDS,
            first_seed=TUNING_SEED if order.search else 0,
            precision=self.protocol.precision,
        )


@cache
def choices() -> dict[str, Any]:
    """What was chosen, by scale, arm and entry: tools/choose_settings.py writes it."""
    found: dict[str, Any] = json.loads(CHOSEN.read_text())
    return found


def arms(scale: Scale) -> list[Arm]:
    return [
        Arm(protocol=protocol, scale=scale, pool=pool)
        for protocol in PROTOCOLS
        if scale in protocol.tasks
        for pool in (POOLS if isinstance(protocol.tasks[scale].model, CNN) else (None,))
    ]
