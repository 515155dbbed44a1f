"""Scale notes: what a reader of a study must know first: how its runs differ from the paper's."""

from collections.abc import Iterable
from dataclasses import astuple

from supple.methods.base import Method
from supple_lab.paper.compare import label_of, label_of_optimizer
from supple_lab.paper.networks import SLIM_RESNET
from supple_lab.paper.study import Condition, StudyOptions
from supple_lab.paper.tables import Slip, find, slips
from supple_lab.results.results import Results

SMOKE = "Smoke scale: tiny networks on 40 digits for a few steps show that everything runs; the numbers mean nothing."
QUICK = "Quick scale, not the paper's protocol: slim networks on 200 digits, {how}."
NO_EVIDENCE = (
    "of this scale were chosen by looking at test accuracies on these very digits (one seed): a verdict here shows the "
    "shape of a claim and is no evidence for it."
)
LOOKED_AT = f"Rates, p and lengths {NO_EVIDENCE}"
SLIM = {"cnn": "slim CNN", "resnet18": "slim ResNet-18"}
SILENT = ("no augmentation", "images normalised by channel", "no hidden layer in ResNet-18's head")
TINY = "TinyImageNet's validation split as its test set"
PARTIAL = "An incomplete TinyImageNet was allowed: its numbers are not the paper's."


def scale_notes(
    order: StudyOptions,
    *experiments: str,
    quick: str,
    left_out: str = "",
    silent: tuple[str, ...] = (TINY,),
    conditions: Iterable[Condition] = (),
    settings: str = "",
) -> tuple[str, ...]:
    """How the runs differ from the paper's: by scale, by where settings come from, by what the paper leaves open.

    The settings of quick scale are told as the conditions have them, or in words of the study's own.
    """
    if order.scale == "smoke":
        return (SMOKE,)
    if order.scale == "quick":
        missing = (f"Left out at quick scale: {left_out}.",) if left_out else ()
        told = settings or slim_settings(order, conditions)
        return (QUICK.format(how=quick), told, *missing, *sources(order, *experiments))
    partial = (PARTIAL,) if order.allow_partial else ()
    return (f"Where the paper is silent: {', '.join((*SILENT, *silent))}.", *sources(order, *experiments), *partial)


def slim_settings(order: StudyOptions, conditions: Iterable[Condition]) -> str:
    """What the slim networks of quick scale are trained with: those that are there, and the methods that they have."""
    settings = [
        (condition.model.name, setting)
        for condition in conditions
        if condition.model.name in SLIM
        for setting in condition.settings(order)
    ]
    rates = dict.fromkeys(f"{optimizer.learning_rate:g} on the {SLIM[name]}" for name, (_, optimizer) in settings)
    one_rate = f"All methods share one learning rate, {' and '.join(rates)}"
    if order.search:
        return f"{one_rate}. All other settings are those that the paper searched. Rates and lengths {NO_EVIDENCE}"
    own = own_p(method for name, (method, _) in settings if name == "resnet18")
    return f"{one_rate}{own}. All other settings are the paper's. {LOOKED_AT}"


def own_p(methods: Iterable[Method]) -> str:
    """Those of the slim ResNet-18's methods that have another p than the paper's, with it; empty if none has."""
    values = {method: ", ".join(f"{p:g}" for p in astuple(method)) for method in methods if method in SLIM_RESNET}
    told = ", ".join(f"{label_of(method.name)} has p = {p}" for method, p in values.items())
    return f"; on the {SLIM['resnet18']} {told}" if told else ""


def unsearched(order: StudyOptions, conditions: Iterable[Condition]) -> tuple[str, ...]:
    """What a search leaves as it is, for the paper tried nothing else there."""
    labels = [condition.label for condition in conditions if not condition.has_search]
    return (f"Not searched, for the paper tried nothing else: {'; '.join(labels)}.",) if order.search and labels else ()


def sources(order: StudyOptions, *experiments: str) -> tuple[str, ...]:
    """Where settings come from that the paper does not print; a search needs none."""
    unprinted = [experiment for experiment in map(find, experiments) if not experiment.printed]
    used = [experiment for experiment in unprinted if experiment.search is None or not order.search]
    return tuple(dict.fromkeys(f"Settings: {experiment.source}." for experiment in used))


def slip_notes(order: StudyOptions, conditions: Iterable[Condition], results: Results) -> tuple[str, ...]:
    """A sentence for each row with a slip that was asked for; a search does not use the rows."""
    if order.search:
        return ()
    return tuple(
        f"{condition.experiment.replace('_', ' ')}: {_sentence(slip, order)}"
        for condition in conditions
        for slip in slips(condition.experiment, condition.case)
        if slip.meant.method in [run.spec.method for run in condition.of(results, order).runs]
    )


def _sentence(slip: Slip, order: StudyOptions) -> str:
    method = label_of(slip.meant.method.name)
    printed, meant = label_of_optimizer(slip.printed.optimizer), label_of_optimizer(slip.meant.optimizer)
    if order.as_printed:
        return f"{method} in the block of {meant} is run with {printed}, as printed ({slip.reason})."
    return f"{method} is run with {meant}, not {printed} as printed: {slip.reason}."
