"""Which accuracy (section 5.1.1): the paper says "train accuracy" of permuted MNIST; four can be meant.

Online is the accuracy just before each update, mean over the stage, in training mode. The other three are taken when
the stage is over: on its images in training mode (2,000 of them, masks drawn) and in evaluation mode (10,000), and on
the test images with their pixels in the same order. ReLU, Dropout and AID at several strengths and at both learning
rates of Adam, because which of the four the paper draws may show in how they lie to each other.

Under masks a network is less accurate from its first stage on, which is no lost plasticity: a fresh network with AID at
p = 0.9 is 2.4 points below a fresh vanilla one online (one stage, 500 units wide). So by the two accuracies in training
mode methods that draw masks are compared with their own first stage, by the other two with a fresh vanilla network.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from supple.metrics.accuracy import TrainingAccuracy
from supple_lab.data.digits import Digits
from supple_lab.data.idx import MNIST
from supple_lab.data.slice import Slice
from supple_lab.models.mlp import MLP
from supple_lab.optimizer import Optimizer
from supple_lab.paper.claims import FRESH, Above, Claim, Each, Kept, Number, OnlyIf, Some, last_tenth, learns, shortfall
from supple_lab.paper.compare import BAND, label_of, label_of_optimizer, sample_table
from supple_lab.paper.dropout_fails import variant_curves
from supple_lab.paper.method_runs import MethodRuns, reference, stand_in_notes
from supple_lab.paper.study import ByScale, Condition, Scale, Study, StudyOptions
from supple_lab.paper.tables import ADAM_HIGH, ADAM_LOW
from supple_lab.report.figure import Figure, Panel, StudyReport, Table
from supple_lab.results.results import Results, Sample
from supple_lab.scenarios.permuted_input import PermutedInput
from supple_lab.spec import RunSpec, Supervised

RATES: tuple[Optimizer, ...] = (ADAM_HIGH, ADAM_LOW)
HIGH, LOW = map(label_of_optimizer, RATES)
PROBABILITIES = (0.9, 0.95, 0.99)  # of AID, as in tables.py; the last is the paper's
ACCURACIES = {
    "online": "online_accuracy",
    "at the end, in training mode": "training_accuracy",
    "at the end, in evaluation mode": "train_accuracy",
    "on the test images": "test_accuracy",
}
UNDER_MASKS = ("online_accuracy", "training_accuracy")
OWN_FIRST = Number("its own first stage", lambda runs: runs.of("each").first(runs.metric))
MODELS = ByScale(smoke=MLP(width=16, num_hidden=2), quick=MLP(width=128), paper=MLP())
DATASETS = ByScale(smoke=Slice(of=Digits(), num_train=128, num_test=64), quick=Digits(), paper=MNIST())
SCENARIOS = ByScale(
    smoke=PermutedInput(num_stages=2, batch_size=64, tested=True),
    quick=PermutedInput(num_stages=60, batch_size=16, tested=True),
    paper=PermutedInput(tested=True),
)
SCALE_NOTES: Mapping[Scale, tuple[str, ...]] = {
    "quick": (
        "Quick scale, not the paper's protocol: 1,600 digits of 8x8 pixels, 3 x 128 units, 60 permutations in batches "
        "of 16; the test has 197 digits.",
    ),
}
Groups = Mapping[str, MethodRuns]  # by optimizer


def variant_of(spec: RunSpec) -> str:
    """The method, with its strength if it comes at several."""
    strengths = {"dropout": "drop_positive", "aid": "relu_prob"}
    name = spec.method.name
    return f"{label_of(name)} {getattr(spec.method, strengths[name]):g}" if name in strengths else name


def by(groups: Groups, metric: str, **variants: str) -> dict[str, MethodRuns]:
    return {label: replace(runs, metric=metric).called(**variants) for label, runs in groups.items()}


def each_accuracy(groups: Groups, **variants: str) -> dict[str, MethodRuns]:
    return {
        name: runs
        for name, metric in ACCURACIES.items()
        for label, runs in by(groups, metric, **variants).items()
        if label == HIGH
    }


def aid_keeps(name: str, metric: str) -> Claim:
    beside = (OWN_FIRST, "its own first stage") if metric in UNDER_MASKS else (FRESH,)
    return Claim(
        key=f"which_accuracy_aid_keeps_{metric}",
        paper="DropReLU and AID reach a high accuracy in all settings.",
        claim=f"AID keeps its plasticity on permuted MNIST, by the accuracy {name}, whatever of three p it has.",
        rule=Each(
            f"for AID at p = 0.9, 0.95 and 0.99 with {HIGH} and {LOW}, by the accuracy {name}",
            lambda groups: {
                f"p {p:g} ({label})": runs
                for p in PROBABILITIES
                for label, runs in by(groups, metric, each=f"AID {p:g}").items()
            },
            Kept(last_tenth("each"), *beside),
        ),
    )


def dropout_below(runs: MethodRuns) -> Sample:
    if runs.metric in UNDER_MASKS:
        return runs.of("dropout").first(runs.metric).minus(runs.end("dropout"))
    return runs.below("dropout")


VANILLA = shortfall("vanilla")
DROPOUT = Number("shortfall of Dropout, in training mode from its own first stage", dropout_below)
CLAIMS = (
    Claim(
        key="which_accuracy_vanilla_falls",
        paper="The vanilla network's training accuracy gradually declines with Adam at 1e-3.",
        claim="The vanilla network's accuracy declines on permuted MNIST, by each of the four accuracies.",
        rule=Each(
            "by each of the four accuracies, with Adam 1e-3",
            each_accuracy,
            OnlyIf(learns(FRESH.in_seeds_of(VANILLA)), Above(VANILLA)),
        ),
    ),
    *(aid_keeps(name, metric) for name, metric in ACCURACIES.items()),
    Claim(
        key="which_accuracy_dropout_does_not_help",
        paper="Dropout fails to mitigate the loss in most cases compared to the vanilla network.",
        claim="Dropout leaves most of the vanilla network's loss on permuted MNIST, by each of the four accuracies.",
        rule=Each(
            "at the paper's rate of 0.05, by each of the four accuracies, with Adam 1e-3",
            lambda groups: each_accuracy(groups, dropout=f"{label_of('dropout')} 0.05"),
            OnlyIf(
                {"vanilla ends below a fresh network": Above(VANILLA.in_seeds_of(DROPOUT))},
                Above(DROPOUT - 0.5 * VANILLA),
            ),
        ),
    ),
    Claim(
        key="which_accuracy_aid_above_vanilla",
        paper="AID reaches a high accuracy in all settings.",
        claim="AID ends above the vanilla network on permuted MNIST at some p, by each of the four accuracies.",
        rule=Each(
            "by each of the four accuracies, with Adam 1e-3",
            each_accuracy,
            Some(
                "at one p at least",
                lambda runs: {f"p {p:g}": runs.called(each=f"AID {p:g}") for p in PROBABILITIES},
                Above(last_tenth("each") - last_tenth("vanilla")),
            ),
        ),
    ),
)


class WhichAccuracy(Study):
    """Permuted MNIST by the four accuracies that one can report."""

    name = "which_accuracy"
    title = "Which accuracy? Four ways to score permuted MNIST"
    question = (
        "The paper reports the train accuracy on permuted MNIST and does not say which. Online, at the end of a stage "
        "in training or in evaluation mode, or on the test images: does what it says hold under each?"
    )
    section = "5.1.1 Trainability"
    claims = CLAIMS

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        return tuple(one for rate in RATES for one in (cell(rate, order), fresh(rate, order)))

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        groups = {label_of_optimizer(rate): runs_of(results, rate, order) for rate in RATES}
        return StudyReport(
            figures=(figure(groups),),
            tables=tuple(table(groups, name, metric) for name, metric in ACCURACIES.items()),
            claims=self.decided(groups, order),
            notes=(*SCALE_NOTES.get(order.scale, ()), *stand_in_notes(groups)),
        )


def cell(rate: Optimizer, order: StudyOptions) -> Condition:
    return Condition(
        label=f"permuted input, {label_of_optimizer(rate)}",
        problem=Supervised(
            scenario=SCENARIOS.at(order.scale), dataset=DATASETS.at(order.scale), metrics=(TrainingAccuracy(),)
        ),
        model=MODELS.at(order.scale),
        experiment="which_accuracy",
        case=rate,
    )


def fresh(rate: Optimizer, order: StudyOptions) -> Condition:
    """The reference, with the same accuracies."""
    return reference(cell(rate, order), order, metrics=(TrainingAccuracy(),))


def runs_of(results: Results, rate: Optimizer, order: StudyOptions) -> MethodRuns:
    by_variant: dict[str, Results] = cell(rate, order).of(results, order).group_by(variant_of)
    return MethodRuns(by_variant, references=fresh(rate, order).of(results, order))


def figure(groups: Groups) -> Figure:
    """A row a learning rate, a column an accuracy."""
    return Figure(
        name="which_accuracy",
        caption=f"Accuracy on each stage, scored in four ways; {BAND}",
        panels=tuple(
            Panel(
                title=f"{name} ({label})",
                x_label="stage",
                y_label="accuracy",
                curves=variant_curves(runs, metric),
            )
            for label, runs in groups.items()
            for name, metric in ACCURACIES.items()
        ),
        columns=len(ACCURACIES),
    )


def table(groups: Groups, name: str, metric: str) -> Table:
    columns: dict[str, Callable[[str], object]] = {"variant": label_of}
    for label, runs in by(groups, metric).items():
        columns[label] = runs.stage_mean
        columns[f"{label} below fresh"] = runs.below
    return sample_table(
        metric,
        f"Accuracy {name}: mean over the stages, and how far the last tenth is below a fresh vanilla network; mean ± "
        "standard deviation over seeds.",
        rows=list(dict.fromkeys(variant for runs in groups.values() for variant in runs.by_method)),
        columns=columns,
    )
