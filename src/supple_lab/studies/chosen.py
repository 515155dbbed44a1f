"""Chosen: each method's runs to report, after the paper's rule has selected among those of a search."""

from dataclasses import dataclass

from supple_lab.report.panel import NO_EPOCHS, NOTHING_YET
from supple_lab.report.results import Key, Results
from supple_lab.report.select import Rule, select
from supple_lab.studies.condition import Condition
from supple_lab.studies.labels import label_of
from supple_lab.studies.order import Order


@dataclass(frozen=True)
class Chosen:
    """The runs of one condition by method, in the study's order, and what was selected how."""

    by_method: dict[str, Results]
    notes: tuple[str, ...] = ()

    def of(self, method: str) -> Results:
        """The method's runs; none where it was not run."""
        return self.by_method.get(method, Results(()))


def chosen(
    results: Results, condition: Condition, *, order: Order, metric: str, rule: Rule, key: Key = "method"
) -> Chosen:
    """What to report of a condition: everything, or the best of each method's search; the key says what a method is."""
    by_method: dict[str, Results] = condition.of(results, order).group_by(key)
    if not order.search:
        return Chosen(by_method)
    selections = {name: select(runs, metric, rule=rule) for name, runs in by_method.items()}
    notes = tuple(
        f"{condition.label}, {label_of(name)}: {selection.words()}"
        for name, selection in selections.items()
        if selection.num_configurations > 1
    )
    return Chosen({name: selection.chosen for name, selection in selections.items()}, notes)


def nothing_over_epochs(*groups: Chosen) -> str:
    """What a panel over epochs says where it has no curves: nothing is finished, or what is has no log of epochs."""
    finished = any(runs.finished for group in groups for runs in group.by_method.values())
    return NO_EPOCHS if finished else NOTHING_YET
