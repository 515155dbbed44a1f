"""Quickstart: the paper's point on 1,600 digits in minutes. Labels are redrawn at each stage; who can still learn them?

A small cousin of the random-label experiment of section 5.1.1, not one of the paper's own figures.
"""

from supple_lab.data.digits import Digits
from supple_lab.models.mlp import MLP
from supple_lab.paper.claims import Above, Below, Claim, Number
from supple_lab.paper.compare import label_of, sample_table, stage_panel
from supple_lab.paper.method_runs import MethodRuns
from supple_lab.paper.study import ByScale, Condition, Study, StudyOptions
from supple_lab.report.figure import Figure, Level, StudyReport
from supple_lab.results.results import Results, Sample
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.spec import Supervised

CHANCE = 0.1  # ten classes, drawn uniformly
LOST = 0.5  # a network that ends this far below its first stage has lost most of what it could do
KEPT = 0.05  # one that ends within five points of it still learns
METRIC = "train_accuracy"

# Long enough that a ReLU network has reached chance (by stage 8 of 20), short enough for a coffee.
LONG = RandomLabel(num_stages=20, epochs=40)
SCENARIOS = ByScale(smoke=RandomLabel(num_stages=2, epochs=2), quick=LONG, paper=LONG)
SETTINGS = (
    "A demonstration, not one of the paper's experiments: rate, drop rate, p and length were chosen by looking at "
    "accuracies on these very digits, so that the difference shows in minutes."
)


def change(results: Results) -> Sample:
    """Last stage minus first, one number an ended run."""
    return results.final(METRIC).minus(results.first(METRIC))


def change_of(method: str) -> Number:
    return Number("change from the first to the last stage", lambda runs: change(runs.of(method)))


def falls(method: str) -> Claim:
    return Claim(
        key=f"{method}_falls",
        paper="declines over the stages, on MNIST (Figure 3)",
        claim=f"{label_of(method)} loses its plasticity: it learns the last stage far worse than the first.",
        rule=Below(change_of(method), -LOST),
    )


KEEPS = Claim(
    key="aid_keeps",
    paper="keeps a high accuracy throughout, on MNIST (Figure 3)",
    claim="AID keeps its plasticity: it learns the last stage as well as the first.",
    rule=Above(change_of("aid"), -KEPT),
)


class Quickstart(Study):
    """ReLU, Dropout and AID on random-label digits."""

    name = "quickstart"
    title = "Random-label digits: who can still learn?"
    question = (
        "One network memorises 1,600 handwritten digits under random labels; then come other labels, again and again. "
        "A network that keeps its plasticity learns the last labels as well as the first."
    )
    section = "5.1.1 Trainability"  # whose experiment it is a small cousin of
    claims = (falls("vanilla"), falls("dropout"), KEEPS)

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        problem = Supervised(scenario=SCENARIOS.at(order.scale), dataset=Digits())
        model = MLP(width=256, num_hidden=3)
        return (Condition(label="random-label digits", problem=problem, model=model, experiment="quickstart"),)

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        runs = MethodRuns(results.by_method())
        panel = stage_panel(
            "Accuracy on the labels of each stage",
            runs.by_method,
            METRIC,
            stage="stage (labels redrawn at each)",
            y_label="accuracy at the end of the stage",
            band="range",
            levels=(Level(label="chance", value=CHANCE),),
            y_range=(0.0, 1.02),  # room for a marker at 1
        )
        caption = (
            "Training accuracy in evaluation mode at the end of each stage; line: mean over seeds, band: their range."
        )
        table = sample_table(
            "first_and_last",
            "Accuracy at the end of the first and the last stage; mean ± standard deviation over seeds.",
            rows=runs.by_method,
            columns={
                "method": label_of,
                "first stage": lambda method: runs.of(method).first(METRIC),
                "last stage": lambda method: runs.of(method).final(METRIC),
                "change": lambda method: change(runs.of(method)),
                "seeds": lambda method: len(change(runs.of(method))),
            },
        )
        return StudyReport(
            figures=(Figure(name="quickstart", caption=caption, panels=(panel,)),),
            tables=(table,),
            claims=self.decided(runs, order),
            notes=(SETTINGS,),
        )
