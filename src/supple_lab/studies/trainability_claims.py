"""What the paper claims of trainability (section 5.1.1, appendix G.1.1), decided on its grid.

The paper does not say which accuracy its figures show. What it says of named methods has a verdict for each accuracy;
what it says of eight conditions, both problems under four optimizers, is decided only where both accuracies agree.
"""

from collections.abc import Callable, Sequence

from supple_lab.report.figure import ClaimRow
from supple_lab.report.verdict import Words, claim_above, claim_difference_above
from supple_lab.studies.decide import words_of
from supple_lab.studies.fresh import claim_kept, claim_lost, something_to_keep
from supple_lab.studies.groups import in_each, in_most, in_one, provided, under_both
from supple_lab.studies.labels import label_of
from supple_lab.studies.paired import times
from supple_lab.studies.trainability_grid import (
    END_OF_STAGE,
    HIGH_RATES,
    LOW_RATES,
    ONLINE,
    OPTIMIZERS,
    RANDOM_LABEL,
    RANDOM_ONLINE,
    READINGS,
    Grid,
    Place,
    View,
    places,
)

NAMED = ("drop_relu", "aid")  # with a high accuracy in all settings
DESIGNED = ("fourier", "crelu", "redo", "cbp")  # methods made against the loss of plasticity
Views = tuple[View, ...]
HALF = 0.5  # of what the vanilla network lost: a method that leaves more of it does not mitigate the loss


def claims(grid: Grid) -> tuple[ClaimRow, ...]:
    """All of them, in the paper's order."""
    return (
        vanilla_falls(grid),
        named_methods_keep("drop_relu_and_aid_keep_random_label_online", grid, RANDOM_ONLINE),
        named_methods_keep("drop_relu_and_aid_keep_random_label", grid, RANDOM_LABEL),
        named_methods_keep("drop_relu_and_aid_keep_permuted_online", grid, ONLINE),
        named_methods_keep("drop_relu_and_aid_keep_permuted_at_end", grid, END_OF_STAGE),
        designed_methods_beat_vanilla(grid),
        designed_methods_fall_somewhere(grid),
        shrink_and_l2_init_fail(grid),
        dropout_does_not_help(grid),
        identity_keeps(grid),
        stochastic_activations_keep(grid),
    )


def by_reading(decide: Callable[[Views], ClaimRow], words: Words) -> ClaimRow:
    """What the function decides from the online accuracies, and from those at the end of a stage: both must agree."""
    return under_both({reading: decide(views) for reading, views in READINGS.items()}, words)


def vanilla_falls(grid: Grid) -> ClaimRow:
    """Does the vanilla network end below a fresh one under both optimizers of Figure 3, on both problems?"""
    words = words_of("vanilla_falls")

    def falls(place: Place) -> ClaimRow:
        below, fresh = grid.below("vanilla", place), grid.fresh(place)
        row = claim_above(below, 0.0, quantity="last tenth below a fresh vanilla network", **words)
        return something_to_keep(row, fresh.of_seeds(below.seeds), words)

    return by_reading(
        lambda views: in_each({place.label: falls(place) for place in places(views, HIGH_RATES)}, words), words
    )


def keeps(grid: Grid, methods: Sequence[str], where: Sequence[Place], words: Words) -> ClaimRow:
    """Do the methods keep their plasticity in each of the places?"""
    rows = {
        f"{label_of(method)} on {place.label}": claim_kept(grid.end(method, place), grid.fresh(place), **words)
        for method in methods
        for place in where
    }
    return in_each(rows, words)


def named_methods_keep(key: str, grid: Grid, view: View) -> ClaimRow:
    """Do DropReLU and AID keep their plasticity with each of the four optimizers, by one accuracy?"""
    return keeps(grid, NAMED, places((view,), OPTIMIZERS), words_of(key))


def stochastic_activations_keep(grid: Grid) -> ClaimRow:
    """Do RReLU and DropReLU keep their plasticity in all eight?"""
    words = words_of("stochastic_activations_keep")
    return by_reading(lambda views: keeps(grid, ("rrelu", "drop_relu"), places(views, OPTIMIZERS), words), words)


def designed_methods_beat_vanilla(grid: Grid) -> ClaimRow:
    """Is each designed method above the vanilla network in most of all eight?"""
    words = words_of("designed_methods_beat_vanilla")

    def beats(method: str, place: Place) -> ClaimRow:
        ours, vanilla = grid.mean(method, place), grid.mean("vanilla", place)
        return claim_difference_above(ours, vanilla, quantity="stage mean minus vanilla's", **words)

    def each_in_most(views: Views) -> ClaimRow:
        eight = places(views, OPTIMIZERS)
        rows = {
            label_of(method): in_most({place.label: beats(method, place) for place in eight}, words)
            for method in DESIGNED
        }
        return in_each(rows, words)

    return by_reading(each_in_most, words)


def designed_methods_fall_somewhere(grid: Grid) -> ClaimRow:
    """Does each designed method lose its plasticity in at least one of all eight?"""
    words = words_of("designed_methods_fall_somewhere")

    def loses(method: str, place: Place) -> ClaimRow:
        return claim_lost(grid.end(method, place), grid.fresh(place), **words)

    def each_in_one(views: Views) -> ClaimRow:
        eight = places(views, OPTIMIZERS)
        rows = {
            label_of(method): in_one({place.label: loses(method, place) for place in eight}, words)
            for method in DESIGNED
        }
        return in_each(rows, words)

    return by_reading(each_in_one, words)


def shrink_and_l2_init_fail(grid: Grid) -> ClaimRow:
    """Do S&P and L2 Init lose their plasticity at the low learning rates?"""
    words = words_of("shrink_and_l2_init_fail_at_low_rates")

    def in_most_places(views: Views) -> ClaimRow:
        rows = {
            f"{label_of(method)} on {place.label}": claim_lost(grid.end(method, place), grid.fresh(place), **words)
            for method in ("shrink_perturb", "l2_init")
            for place in places(views, LOW_RATES)
        }
        return in_most(rows, words)

    return by_reading(in_most_places, words)


def dropout_does_not_help(grid: Grid) -> ClaimRow:
    """Does Dropout leave more than half of what the vanilla network lost, in most of all eight?"""
    words = words_of("dropout_does_not_help")

    def helps_not(place: Place) -> ClaimRow:
        dropout, vanilla = grid.below("dropout", place), grid.below("vanilla", place)
        quantity = "below a fresh vanilla network in the last tenth, Dropout minus half of vanilla"
        row = claim_difference_above(dropout, times(vanilla, HALF), quantity=quantity, **words)
        there_is_a_loss = claim_above(vanilla.of_seeds(dropout.seeds), 0.0, quantity="that of vanilla", **words)
        return provided(row, {"vanilla ends below a fresh network": there_is_a_loss})

    return by_reading(
        lambda views: in_most({place.label: helps_not(place) for place in places(views, OPTIMIZERS)}, words),
        words,
    )


def identity_keeps(grid: Grid) -> ClaimRow:
    """Does the deep linear network end no lower than a fresh one of its kind, in all eight?"""
    words = words_of("identity_keeps_plasticity")

    def keeps_its_level(place: Place) -> ClaimRow:
        first, end = grid.first("identity", place), grid.end("identity", place)
        return claim_kept(end, first, than="its own first stage", **words)

    return by_reading(
        lambda views: in_each({place.label: keeps_its_level(place) for place in places(views, OPTIMIZERS)}, words),
        words,
    )
