"""What the paper claims of trainability (section 5.1.1, appendix G.1.1), decided on its grid."""

from collections.abc import Sequence

from supple_lab.report.figure import ClaimRow
from supple_lab.report.verdict import claim_above, claim_difference_above, claim_difference_below
from supple_lab.studies.decide import words_of
from supple_lab.studies.fall import FIVE_POINTS, LEARNED, claim_kept, claim_lost
from supple_lab.studies.groups import in_each, in_most, in_one
from supple_lab.studies.labels import label_of
from supple_lab.studies.trainability_grid import (
    ALL_EIGHT,
    END_OF_STAGE,
    HIGH_RATES,
    LOW_RATES,
    ONLINE,
    OPTIMIZERS,
    RANDOM_LABEL,
    WITHOUT_MASKS,
    Grid,
    Place,
    places,
)

NAMED = ("drop_relu", "aid")  # with a high accuracy in all settings
DESIGNED = ("fourier", "crelu", "redo", "cbp")  # methods made against the loss of plasticity
POINT = 0.01


def claims(grid: Grid) -> tuple[ClaimRow, ...]:
    """All of them, in the paper's order."""
    return (
        vanilla_falls(grid),
        keep_at_a_high_level("drop_relu_and_aid_keep_random_label", grid, NAMED, places((RANDOM_LABEL,), OPTIMIZERS)),
        keep_at_a_high_level("drop_relu_and_aid_keep_permuted_online", grid, NAMED, places((ONLINE,), OPTIMIZERS)),
        keep_at_a_high_level(
            "drop_relu_and_aid_keep_permuted_at_end", grid, NAMED, places((END_OF_STAGE,), OPTIMIZERS)
        ),
        designed_methods_beat_vanilla(grid),
        designed_methods_fall_somewhere(grid),
        shrink_and_l2_init_fail(grid),
        dropout_does_not_help(grid),
        keeps("identity_keeps_plasticity", grid, "identity", ALL_EIGHT),
        keep_at_a_high_level("stochastic_activations_keep", grid, ("rrelu", "drop_relu"), ALL_EIGHT),
    )


def vanilla_falls(grid: Grid) -> ClaimRow:
    """Does the vanilla network fall under both optimizers of Figure 3, on both problems?"""
    words = words_of("vanilla_falls")
    rows = {
        place.label: claim_above(grid.fall("vanilla", place), 0.0, quantity="fall", **words)
        for place in places((ONLINE, RANDOM_LABEL), HIGH_RATES)
    }
    return in_each(rows, words)


def keeps(key: str, grid: Grid, method: str, where: Sequence[Place]) -> ClaimRow:
    """Does the method keep its plasticity in each of the places?"""
    words = words_of(key)
    rows = {place.label: claim_kept(grid.fall(method, place), grid.fall("vanilla", place), **words) for place in where}
    return in_each(rows, words)


def keep_at_a_high_level(key: str, grid: Grid, methods: Sequence[str], where: Sequence[Place]) -> ClaimRow:
    """Do the methods keep their plasticity, and end no lower than the vanilla network began, above chance?"""
    words = words_of(key)
    something = {
        f"something to keep on {place.label}": claim_above(
            grid.beginning("vanilla", place), LEARNED, quantity="vanilla's first tenth", **words
        )
        for place in where
    }

    def levels(method: str, place: Place) -> ClaimRow:
        ours, vanilla = grid.end(method, place), grid.beginning("vanilla", place)
        return claim_difference_above(ours, vanilla, -FIVE_POINTS, quantity="last tenth minus vanilla's first", **words)

    def falls(method: str, place: Place) -> ClaimRow:
        return claim_kept(grid.fall(method, place), grid.fall("vanilla", place), **words)

    rows = {
        f"{name} of {label_of(method)} on {place.label}": decide(method, place)
        for name, decide in (("fall", falls), ("level", levels))
        for method in methods
        for place in where
    }
    return in_each({**something, **rows}, words)


def designed_methods_beat_vanilla(grid: Grid) -> ClaimRow:
    """Is each designed method above the vanilla network in most of all eight?"""
    words = words_of("designed_methods_beat_vanilla")

    def beats(method: str, place: Place) -> ClaimRow:
        ours, vanilla = grid.mean(method, place), grid.mean("vanilla", place)
        return claim_difference_above(ours, vanilla, quantity="stage mean minus vanilla's", **words)

    rows = {
        label_of(method): in_most({place.label: beats(method, place) for place in ALL_EIGHT}, words)
        for method in DESIGNED
    }
    return in_each(rows, words)


def designed_methods_fall_somewhere(grid: Grid) -> ClaimRow:
    """Does each designed method fall in at least one of all eight?"""
    words = words_of("designed_methods_fall_somewhere")

    def falls_somewhere(method: str) -> ClaimRow:
        rows = {
            place.label: claim_lost(grid.fall(method, place), grid.fall("vanilla", place), **words)
            for place in ALL_EIGHT
        }
        return in_one(rows, words)

    return in_each({label_of(method): falls_somewhere(method) for method in DESIGNED}, words)


def shrink_and_l2_init_fail(grid: Grid) -> ClaimRow:
    """Do S&P and L2 Init fall at the low learning rates?"""
    words = words_of("shrink_and_l2_init_fail_at_low_rates")
    rows = {
        f"{label_of(method)} on {place.label}": claim_lost(
            grid.fall(method, place), grid.fall("vanilla", place), **words
        )
        for method in ("shrink_perturb", "l2_init")
        for place in places((ONLINE, RANDOM_LABEL), LOW_RATES)
    }
    return in_most(rows, words)


def dropout_does_not_help(grid: Grid) -> ClaimRow:
    """Is Dropout less than a point above the vanilla network in most of all eight, measured without its masks?"""
    words = words_of("dropout_does_not_help")

    def helps_not(place: Place) -> ClaimRow:
        ours, vanilla = grid.mean("dropout", place), grid.mean("vanilla", place)
        return claim_difference_below(ours, vanilla, POINT, quantity="stage mean minus vanilla's", **words)

    return in_most({place.label: helps_not(place) for place in WITHOUT_MASKS}, words)
