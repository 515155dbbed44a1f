"""Quickstart: the paper's point on 1,600 digits in minutes. Labels are redrawn at each stage; who can still learn them?

A small cousin of the random-label experiment of section 5.1.1, not one of the paper's own figures.
"""

from supple_lab.data.digits import Digits
from supple_lab.models.mlp import MLP
from supple_lab.paper.claims import Above, Below, Claim, Number
from supple_lab.paper.compare import MethodRuns, label_of, shown
from supple_lab.paper.study import Condition, Study, StudyOptions
from supple_lab.report.figure import Curve, Figure, Level, Panel, StudyReport, Table
from supple_lab.results.results import Results, Sample
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.spec import Supervised

CHANCE = 0.1  # ten classes, drawn uniformly
LOST = 0.5  # a network that ends this far below its first stage has lost most of what it could do
KEPT = 0.05  # one that ends within five points of it still learns
METRIC = "train_accuracy"
SECTION = "5.1.1 Trainability"  # whose experiment it is a small cousin of
Methods = dict[str, Results]

# Long enough that a ReLU network has reached chance (by stage 8 of 20), short enough for a coffee.
LONG = RandomLabel(num_stages=20, epochs=40)
SCENARIOS = {"smoke": RandomLabel(num_stages=2, epochs=2), "quick": LONG, "paper": LONG}


SMOKE = "Smoke scale: two labellings of two epochs show that everything runs; the numbers mean nothing."
SETTINGS = (
    "A demonstration, not one of the paper's experiments: rate, drop rate, p and length were chosen by looking at "
    "accuracies on these very digits, so that the difference shows in minutes."
)


def change(results: Results) -> Sample:
    """Last stage minus first, one number an ended run."""
    return results.final(METRIC).minus(results.first(METRIC))


def change_of(method: str) -> Number:
    """A method's change, for the rules."""
    return Number("change from the first to the last stage", lambda runs: change(runs.of(method)))


def falls(method: str) -> Claim:
    """The claim that a method loses what it could do."""
    return Claim(
        key=f"{method}_falls",
        section=SECTION,
        paper="declines over the stages, on MNIST (Figure 3)",
        claim=f"{label_of(method)} loses its plasticity: it learns the last stage far worse than the first.",
        rule=Below(change_of(method), -LOST),
    )


KEEPS = Claim(
    key="aid_keeps",
    section=SECTION,
    paper="keeps a high accuracy throughout, on MNIST (Figure 3)",
    claim="AID keeps its plasticity: it learns the last stage as well as the first.",
    rule=Above(change_of("aid"), -KEPT),
)


class Quickstart(Study):
    """ReLU, Dropout and AID on random-label digits."""

    name = "quickstart"
    title = "Random-label digits: who can still learn?"
    question = (
        "One network memorises 1,600 handwritten digits under random labels; then the labels are drawn anew, again and "
        "again. A network that keeps its plasticity learns the last labels as well as the first."
    )
    claims = (falls("vanilla"), falls("dropout"), KEEPS)

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        problem = Supervised(scenario=SCENARIOS[order.scale], dataset=Digits())
        model = MLP(width=256, num_hidden=3)
        return (Condition(label="random-label digits", problem=problem, model=model, experiment="quickstart"),)

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        (condition,) = self.conditions(order)
        by_method: Methods = condition.of(results, order).group_by("method")  # a store may hold runs of other versions
        return StudyReport(
            figures=(accuracy_figure(by_method),),
            tables=(first_and_last_table(by_method),),
            claims=self.decided(MethodRuns(by_method), order),
            notes=(*((SMOKE,) if order.scale == "smoke" else ()), SETTINGS),
        )


def accuracy_figure(by_method: Methods) -> Figure:
    """Accuracy at the end of each stage, one curve a method."""
    curves = tuple(
        Curve(method=name, label=label_of(name), x=runs.stages(METRIC) + 1, values=runs.matrix(METRIC))
        for name, runs in by_method.items()
        if len(runs.stages(METRIC))
    )
    panel = Panel(
        title="Accuracy on the labels of each stage",
        x_label="stage (labels redrawn at each)",
        y_label="accuracy at the end of the stage",
        curves=curves,
        levels=(Level(label="chance", value=CHANCE),),
        y_range=(0.0, 1.02),  # room for a marker at 1
    )
    caption = "Training accuracy in evaluation mode at the end of each stage; line: mean over seeds, band: their range."
    return Figure(name="quickstart", caption=caption, panels=(panel,))


def first_and_last_table(by_method: Methods) -> Table:
    """First stage, last stage and the change between them, with the spread over the seeds that ended."""
    samples = {name: (runs.first(METRIC), runs.final(METRIC), change(runs)) for name, runs in by_method.items()}
    return Table(
        name="first_and_last",
        caption="Accuracy at the end of the first and the last stage; mean ± standard deviation over seeds.",
        header=("method", "first stage", "last stage", "change", "seeds"),
        rows=tuple((label_of(name), *map(shown, row), str(len(row[-1]))) for name, row in samples.items()),
    )
