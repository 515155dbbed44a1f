"""Slip notes: which rows of the paper's tables are not run as printed, for the reader of a page."""

from supple_lab.studies.hyperparameters import slips
from supple_lab.studies.hyperparameters.setting import Slip
from supple_lab.studies.labels import label_of, label_of_optimizer
from supple_lab.studies.order import Order


def slip_notes(order: Order, *experiments: str) -> tuple[str, ...]:
    """A sentence for each row with a slip; a search does not use the rows."""
    if order.search:
        return ()
    return tuple(f"{name.replace('_', ' ')}: {_sentence(slip, order)}" for name in experiments for slip in slips(name))


def _sentence(slip: Slip, order: Order) -> str:
    method = label_of(slip.meant.method.name)
    printed, meant = label_of_optimizer(slip.printed.optimizer), label_of_optimizer(slip.meant.optimizer)
    if order.as_printed:
        return f"{method} in the block of {meant} was run with {printed}, as printed ({slip.reason})."
    return f"{method} was run with {meant}, not {printed} as printed: {slip.reason}."
