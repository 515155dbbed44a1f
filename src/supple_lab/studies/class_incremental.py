"""Class incremental (section 5.1.2, Figure 5; appendix G.3): new classes at each stage, all data kept."""

from supple_lab.report.figure import Drawing, Figure
from supple_lab.report.panel import Level, Panel
from supple_lab.report.results import Results
from supple_lab.scenarios.class_incremental import ClassIncremental as Scenario
from supple_lab.studies.base import Study
from supple_lab.studies.chosen import Chosen
from supple_lab.studies.class_incremental_claims import LEARNED, claims, mean_learned
from supple_lab.studies.comparison import Groups, compare, comparison_table, of_the_paper, selection_notes, stage_panels
from supple_lab.studies.condition import Condition
from supple_lab.studies.networks import left_out, networks
from supple_lab.studies.order import Order
from supple_lab.studies.paired import difference_curve
from supple_lab.studies.scale_notes import TINY, scale_notes

BAND = "line: mean over seeds, band: one standard deviation."
SCENARIOS = {
    "smoke": Scenario(num_stages=2, epochs=1, batch_size=20),
    "quick": Scenario(num_stages=5, epochs=30, batch_size=16),
    "paper": Scenario(),
}
QUICK_METHODS = ("vanilla", "full_reset", "dropout", "shrink_perturb", "dash", "aid")


class ClassIncremental(Study):
    """All methods of Table 8 on ResNet-18 and VGG-16."""

    name = "class_incremental"
    title = "Class incremental: new classes at each stage"
    question = (
        "One network learns a few classes, then a few more, and so on, with all data kept. Does it stay ahead of one "
        "that starts from scratch at each stage?"
    )

    def conditions(self, order: Order) -> tuple[Condition, ...]:
        methods = QUICK_METHODS if order.scale == "quick" else ()
        return tuple(
            network.condition(SCENARIOS[order.scale], order=order, experiment="class_incremental", methods=methods)
            for network in networks(order, "resnet18", "vgg16")
        )

    def draw(self, results: Results, order: Order) -> Drawing:
        # After the last stage all classes are learned: both accuracies select the same.
        groups = compare(results, self.conditions(order), order=order)
        absent = dict.fromkeys(left_out(self.conditions(order), "resnet18", "vgg16"), Chosen({}))
        return Drawing(
            figures=(difference_figure(groups), learned_figure(groups), all_figure(groups)),
            tables=(
                comparison_table(
                    groups,
                    mean_learned,
                    name="learned",
                    caption="Test accuracy on the classes learned, mean over stages",
                ),
                comparison_table(
                    groups,
                    lambda runs: runs.final(LEARNED),
                    name="final",
                    caption="Test accuracy after the last stage, on all classes",
                ),
            ),
            claims=claims({**of_the_paper(groups, "class_incremental"), **absent}, SCENARIOS[order.scale].num_stages),
            notes=(
                *scale_notes(
                    order,
                    "class_incremental",
                    quick="5 stages of 30 epochs with 2 classes more at each, batches of 16",
                    left_out="VGG-16, and the methods of Table 8 that are not in the figure",
                    conditions=self.conditions(order),
                    silent=(TINY, "one head for all classes from the start and cross-entropy over all of them"),
                ),
                *selection_notes(groups),
            ),
        )


def difference_figure(groups: Groups) -> Figure:
    """Accuracy on the classes learned, minus full reset's."""
    return Figure(
        name="class_incremental",
        caption="Test accuracy on the classes learned so far, minus full reset's of the same seed, at the end of each "
        f"stage; {BAND}",
        panels=tuple(difference_panel(label, group) for label, group in groups.items()),
    )


def difference_panel(label: str, group: Chosen) -> Panel:
    """One network's differences; full reset is the line at zero."""
    reset = group.of("full_reset")
    curves = (
        difference_curve(runs, reset, LEARNED, method=name)
        for name, runs in group.by_method.items()
        if name != "full_reset"
    )
    return Panel(
        title=label,
        x_label="stage",
        y_label="test accuracy − full reset's",
        curves=tuple(curve for curve in curves if curve is not None),
        levels=(Level(label="full reset", value=0.0),),
    )


def learned_figure(groups: Groups) -> Figure:
    """Accuracy on the classes learned."""
    return Figure(
        name="class_incremental_learned",
        caption=f"Test accuracy on the classes learned so far, at the end of each stage; {BAND}",
        panels=stage_panels(groups, LEARNED, y_label="test accuracy, learned classes"),
    )


def all_figure(groups: Groups) -> Figure:
    """Accuracy on all classes, those to come included."""
    return Figure(
        name="class_incremental_all",
        caption=f"Test accuracy on all classes, at the end of each stage; {BAND}",
        panels=stage_panels(groups, "test_accuracy", y_label="test accuracy, all classes"),
    )
