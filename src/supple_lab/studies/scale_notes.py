"""Scale notes: what a reader of a study must know first: how its runs differ from the paper's."""

from collections.abc import Iterable

from supple_lab.studies.condition import Condition
from supple_lab.studies.hyperparameters import find
from supple_lab.studies.order import Order

SMOKE = "Smoke scale: tiny networks on 40 digits for a few steps show that everything runs; the numbers mean nothing."
QUICK = "Quick scale, not the paper's protocol: slim networks on 200 digits, {how}."
NO_EVIDENCE = (
    "of this scale were chosen by looking at test accuracies on these very digits (one seed): a verdict here shows the "
    "shape of a claim and is no evidence for it."
)
LOOKED_AT = f"Rates, p and lengths {NO_EVIDENCE}"
ONE_RATE = "All methods share one learning rate, 0.001 on the slim CNN and 0.003 on the slim ResNet-18"
SETTINGS = (
    f"{ONE_RATE}; on the latter AID and DropReLU have p = 0.95 and Dropout 0.05. All other settings are the paper's. "
    f"{LOOKED_AT}"
)
SEARCHED = f"{ONE_RATE}. All other settings are those that the paper searched. Rates and lengths {NO_EVIDENCE}"
SILENT = ("no augmentation", "images normalised by channel", "no hidden layer in ResNet-18's head")
TINY = "TinyImageNet's validation split as its test set"
PARTIAL = "An incomplete TinyImageNet was allowed: its numbers are not the paper's."


def scale_notes(
    order: Order,
    *experiments: str,
    quick: str,
    left_out: str = "",
    silent: tuple[str, ...] = (TINY,),
    settings: str = "",
) -> tuple[str, ...]:
    """How the runs differ from the paper's: by scale, by where settings come from, by what the paper leaves open."""
    if order.scale == "smoke":
        return (SMOKE,)
    if order.scale == "quick":
        missing = (f"Left out at quick scale: {left_out}.",) if left_out else ()
        told = settings or (SEARCHED if order.search else SETTINGS)
        return (QUICK.format(how=quick), told, *missing, *sources(order, *experiments))
    partial = (PARTIAL,) if order.allow_partial else ()
    return (f"Where the paper is silent: {', '.join((*SILENT, *silent))}.", *sources(order, *experiments), *partial)


def unsearched(order: Order, conditions: Iterable[Condition]) -> tuple[str, ...]:
    """What a search leaves as it is, for the paper tried nothing else there."""
    labels = [condition.label for condition in conditions if not condition.has_search]
    return (f"Not searched, for the paper tried nothing else: {'; '.join(labels)}.",) if order.search and labels else ()


def sources(order: Order, *experiments: str) -> tuple[str, ...]:
    """Where settings come from that the paper does not print; a search needs none."""
    unprinted = [experiment for experiment in map(find, experiments) if not experiment.printed]
    used = [experiment for experiment in unprinted if experiment.search is None or not order.search]
    return tuple(dict.fromkeys(f"Settings: {experiment.source}." for experiment in used))
