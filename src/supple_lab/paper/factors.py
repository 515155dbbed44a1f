"""Factors: AID, LayerNorm and L2 in all combinations, and what a fresh optimizer or standardised inputs do alone.

Not one of the paper's studies. Random labels on the paper's MLP, 50 labellings in place of 200, and continual full on
its CNN, with average pools in every cell so that the activations alone differ. Adam 1e-3 everywhere, p = 0.9; L2 has
the paper's strength for the network. Nothing is tuned.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from supple.methods import L2, Chain, FreshOptimizer, Method, UseAID, UseLayerNorm, UseLayerNormAID, Vanilla
from supple_lab.data.cifar import CIFAR10
from supple_lab.data.idx import MNIST
from supple_lab.data.standardised import Standardised
from supple_lab.models.cnn import CNN
from supple_lab.models.mlp import MLP
from supple_lab.optimizer import Adam
from supple_lab.paper.claims import KEPT, Above, Claim, Each
from supple_lab.paper.compare import sample_table
from supple_lab.paper.study import Condition, Scale, Study, StudyOptions
from supple_lab.paper.tables import crossed
from supple_lab.paper.why_aid import NOTHING, Cells, Groups, effect_panel, score
from supple_lab.paper.why_aid_entries import PROTOCOLS, Task
from supple_lab.report.figure import Figure, StudyReport, Table
from supple_lab.results.results import Results, Sample
from supple_lab.scenarios.continual import ContinualFull
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.spec import RunSpec, Supervised

ACTIVATIONS: Mapping[str, Method] = {
    "ReLU": Vanilla(),
    "AID": UseAID(),
    "LayerNorm": UseLayerNorm(),
    "LayerNorm + AID": UseLayerNormAID(),
}
RATE = Adam(learning_rate=1e-3)


def with_part(part: Method, *names: str) -> list[Method]:
    return [Chain(methods=(ACTIVATIONS[name], part)) for name in names]


def name_of(spec: RunSpec) -> str:
    """A cell by what is in it: ReLU, AID + L2, ReLU + standardised."""
    parts = spec.method.methods if isinstance(spec.method, Chain) else (spec.method,)
    known: dict[type[Method], str] = {L2: "L2", FreshOptimizer: "fresh optimizer"}
    known |= {type(method): name for name, method in ACTIVATIONS.items()}
    names = [known.get(type(part), part.name) for part in parts]
    is_standard = isinstance(getattr(spec.problem, "dataset", None), Standardised)
    return " + ".join([*names, *(["standardised"] if is_standard else [])])


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The cells of one problem."""

    label: str
    tasks: Mapping[Scale, Task]
    methods: tuple[Method, ...]

    def condition(self, order: StudyOptions) -> Condition:
        own, every = ({one.name for grid in grids for one in grid.methods} for grids in ((self,), GRIDS))
        elsewhere = every - own  # methods of other grids alone
        dataset, scenario, model = self.tasks[order.scale]
        problem = Supervised(scenario=scenario, dataset=dataset)
        whole = Condition(label=self.label, problem=problem, model=model, table=crossed(self.methods, RATE))
        given = tuple(one for one in whole.settings(order) if one.method.name not in elsewhere)
        return replace(whole, given=given)


SMALLER = {protocol.name: protocol.tasks for protocol in PROTOCOLS}  # those of why_aid at smoke and quick scale
ON_LABELS = {**SMALLER["random labels"], "full": Task(MNIST(), RandomLabel(num_stages=50), MLP())}
ON_PARTS = {**SMALLER["continual full"], "full": Task(CIFAR10(), ContinualFull(), CNN())}
GRIDS = (
    Grid(
        label="random labels",
        tasks=ON_LABELS,
        methods=(
            *ACTIVATIONS.values(),
            *with_part(L2(strength=1e-4), *ACTIVATIONS),  # Table 5
            *with_part(FreshOptimizer(), "ReLU", "AID"),
        ),
    ),
    Grid(
        label="random labels, standardised",
        tasks={scale: task._replace(dataset=Standardised(of=task.dataset)) for scale, task in ON_LABELS.items()},
        methods=(Vanilla(), UseAID(), *with_part(FreshOptimizer(), "ReLU", "AID")),
    ),
    Grid(
        label="continual full",
        tasks={scale: task.with_pools("average") for scale, task in ON_PARTS.items()},
        methods=(*ACTIVATIONS.values(), *with_part(L2(strength=1e-2), *ACTIVATIONS)),  # Table 6
    ),
)
READ: Mapping[str, Callable[[Results], Sample]] = {
    "random labels": lambda runs: runs.stage_mean("train_accuracy"),
    "continual full": lambda runs: runs.final("test_accuracy"),
}


def as_well(key: str, name: str, claim: str) -> Claim:
    """A cell without AID is less than two points below AID on random labels."""
    return Claim(
        key=f"factors_{key}",
        paper="The paper does not ask.",
        claim=claim,
        rule=Each(
            "on random labels",
            lambda groups: {"random labels": groups["random labels"]},
            Above(score(name) - score("AID"), -KEPT),
        ),
    )


def adds(key: str, one: str, other: str, claim: str) -> Claim:
    return Claim(
        key=f"factors_{key}",
        paper="The paper does not ask.",
        claim=claim,
        rule=Each("on random labels and in continual full", dict, Above(score(one) - score(other))),
    )


QUICK = "Quick scale: 1,600 digits under 8 labellings, 3 x 128 units; 200 digits in 5 parts, a slim CNN."
HOW = (
    "Not one of the paper's studies. The score is the accuracy at the end of a stage in evaluation mode, mean over 50 "
    "labellings (random labels), or the final test accuracy (continual full, average pools in every cell). Adam 1e-3, "
    "p = 0.9, L2 1e-4 on the MLP and 1e-2 on the CNN; nothing is tuned."
)


class Factors(Study):
    """ReLU and AID with and without LayerNorm and L2, a fresh optimizer, standardised inputs."""

    name = "factors"
    title = "AID beside LayerNorm, L2, a fresh optimizer and standardised inputs"
    question = (
        "Does AID add anything to a network that has LayerNorm and L2, and would one of these, a fresh optimizer at "
        "each stage or standardised inputs alone do as well?"
    )
    claims = (
        adds("aid_adds", "LayerNorm + AID + L2", "LayerNorm + L2", "AID adds to a network with LayerNorm and L2."),
        adds("norm_adds", "LayerNorm + AID", "AID", "LayerNorm adds to a network with AID."),
        adds("l2_adds", "AID + L2", "AID", "L2 adds to a network with AID."),
        as_well("norm", "LayerNorm", "LayerNorm alone keeps a ReLU network trainable as well as AID does."),
        as_well("l2", "ReLU + L2", "L2 alone keeps a ReLU network trainable as well as AID does."),
        as_well(
            "fresh_optimizer",
            "ReLU + fresh optimizer",
            "A fresh Adam at each stage keeps a ReLU network trainable as well as AID does.",
        ),
        as_well(
            "standardised",
            "ReLU + standardised",
            "Standardised inputs keep a ReLU network trainable as well as AID does.",
        ),
    )
    scales = ("smoke", "quick", "full")

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        return tuple(grid.condition(order) for grid in GRIDS)

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        groups = groups_of(results, order)
        caption = "Score of each cell minus that of ReLU of the same seed, the best first; mean and its 95% interval."
        panels = tuple(
            effect_panel(problem, {("aid", "score − ReLU's"): {name: effect(groups, problem, name) for name in cells}})
            for problem, cells in groups.items()
        )
        return StudyReport(
            figures=(Figure(name="factors", caption=caption, panels=panels, columns=2),),
            tables=(table(groups),),
            claims=self.decided(groups, order),
            notes=(QUICK, HOW) if order.scale == "quick" else (HOW,),
        )


def groups_of(results: Results, order: StudyOptions) -> dict[str, Cells]:
    """The scores of each problem; standardised inputs are cells of random labels."""

    def scores(problem: str) -> dict[str, Sample]:
        runs = [grid.condition(order).of(results, order) for grid in GRIDS if grid.label.startswith(problem)]
        return {name: READ[problem](own) for one in runs for name, own in one.group_by(name_of).items()}

    return {problem: scores(problem) for problem in READ}


def effect(groups: Groups, problem: str, name: str) -> Sample:
    return groups[problem][name].minus(groups[problem].get("ReLU", NOTHING))


def table(groups: Groups) -> Table:
    return sample_table(
        "cells",
        "Score of each cell, and minus that of ReLU of the same seed; mean ± standard deviation over seeds.",
        rows=[(problem, name) for problem, cells in groups.items() for name in cells],
        columns={
            "problem": lambda problem, name: problem,
            "cell": lambda problem, name: name,
            "score": lambda problem, name: groups[problem][name],
            "minus ReLU": partial(effect, groups),
            "n": lambda problem, name: len(groups[problem][name]),
        },
    )
