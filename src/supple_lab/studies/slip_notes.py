"""Slip notes: which rows of the paper's tables are not run as printed, for the reader of a page."""

from collections.abc import Iterable

from supple_lab.report.results import Results
from supple_lab.studies.condition import Condition
from supple_lab.studies.hyperparameters import slips
from supple_lab.studies.hyperparameters.setting import Slip
from supple_lab.studies.labels import label_of, label_of_optimizer
from supple_lab.studies.order import Order


def slip_notes(order: Order, conditions: Iterable[Condition], results: Results) -> tuple[str, ...]:
    """A sentence for each row with a slip that was asked for; a search does not use the rows."""
    if order.search:
        return ()
    return tuple(
        f"{condition.experiment.replace('_', ' ')}: {_sentence(slip, order)}"
        for condition in conditions
        for slip in slips(condition.experiment, condition.case)
        if slip.meant.method in [run.spec.method for run in condition.of(results, order).runs]
    )


def _sentence(slip: Slip, order: Order) -> str:
    method = label_of(slip.meant.method.name)
    printed, meant = label_of_optimizer(slip.printed.optimizer), label_of_optimizer(slip.meant.optimizer)
    if order.as_printed:
        return f"{method} in the block of {meant} is run with {printed}, as printed ({slip.reason})."
    return f"{method} is run with {meant}, not {printed} as printed: {slip.reason}."
