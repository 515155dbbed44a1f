"""What the paper claims of the numbers inside the networks of its trainability runs (appendix G.1.2)."""

from collections.abc import Mapping
from dataclasses import dataclass

from supple_lab.report.figure import ClaimRow
from supple_lab.report.results import Results
from supple_lab.report.sample import Sample
from supple_lab.report.verdict import Words, claim_above, claim_below, claim_difference_above, claim_difference_below
from supple_lab.studies.chosen import Chosen
from supple_lab.studies.decide import words_of
from supple_lab.studies.fresh import LOST, VANILLA, claim_lost, ends, fresh_accuracy
from supple_lab.studies.groups import in_each, provided, under_both
from supple_lab.studies.labels import label_of
from supple_lab.studies.over_stages import claim_decline, claims_above
from supple_lab.studies.paired import times
from supple_lab.studies.trainability_claims import HALF

RANDOM, PERMUTED = "random label", "permuted input"
READINGS = {"online accuracy": "online_accuracy", "accuracy at the end of a stage": "train_accuracy"}
OTHERS = ("vanilla", "dropout")


@dataclass(frozen=True)
class Group:
    """One problem's runs to report, and its fresh vanilla networks."""

    runs: Chosen
    references: Results

    def of(self, method: str) -> Results:
        """The method's runs; none where it was not run."""
        return self.runs.of(method)

    def fresh(self, metric: str) -> Sample:
        """What a fresh vanilla network comes to, a number a seed."""
        return fresh_accuracy(self.references, self.of("vanilla"), metric)

    def below(self, method: str, metric: str) -> Sample:
        """How far a method ends below a fresh vanilla network, seed by seed."""
        return self.fresh(metric).minus(ends(self.of(method), metric))


Groups = Mapping[str, Group]  # by problem, as it is called
NOTHING = Group(Chosen({}), Results(()))


def claims(groups: Groups) -> tuple[ClaimRow, ...]:
    """All of them, in the paper's order."""
    return (
        dropout_has_no_effect(groups),
        dropout_helps_permuted_slightly(groups),
        aid_prevents_saturation(groups),
        aid_above_throughout(groups, "sign_entropy", words_of("aid_keeps_sign_entropy")),
        aid_above_throughout(groups, "srank", words_of("aid_keeps_effective_rank")),
        ranks_decline(groups),
    )


def dropout_has_no_effect(groups: Groups) -> ClaimRow:
    """If vanilla has lost its plasticity on random labels: is Dropout less than five points better in each number?"""
    words, group = words_of("dropout_has_no_effect_on_random_labels"), groups.get(RANDOM, NOTHING)
    vanilla, dropout = (group.of(method) for method in OTHERS)
    accuracies = {
        f"{name}, last tenth": ends(dropout, metric).minus(ends(vanilla, metric)) for name, metric in READINGS.items()
    }
    better = {
        **accuracies,
        "saturated share": vanilla.final("saturated_share").minus(dropout.final("saturated_share")),
        "sign entropy": dropout.final("sign_entropy").minus(vanilla.final("sign_entropy")),
    }
    rows = {
        name: claim_below(sample, LOST, quantity=f"{name}, Dropout better than ReLU by", **words)
        for name, sample in better.items()
    }
    losses = {
        f"ReLU has lost its plasticity by {name}": claim_lost(ends(vanilla, metric), group.fresh(metric), **words)
        for name, metric in READINGS.items()
    }
    return provided(in_each(rows, words), losses)


def dropout_helps_permuted_slightly(groups: Groups) -> ClaimRow:
    """If vanilla ends below a fresh network on permuted pixels: does Dropout make up for some of it, but not half?"""
    words, group = words_of("dropout_helps_permuted_only_slightly"), groups.get(PERMUTED, NOTHING)
    below = f"last tenth below {VANILLA}"

    def helps_slightly(metric: str) -> ClaimRow:
        vanilla, dropout = (group.below(method, metric) for method in OTHERS)
        half = times(vanilla, HALF)
        rows = {
            "it helps": claim_difference_above(vanilla, dropout, quantity=f"{below}, ReLU minus Dropout", **words),
            "slightly": claim_difference_above(dropout, half, quantity=f"{below}, Dropout minus half of ReLU", **words),
        }
        loss = claim_above(vanilla.of_seeds(dropout.seeds), 0.0, quantity=f"{below}, ReLU", **words)
        return provided(in_each(rows, words), {"there is a loss": loss})

    return under_both({name: helps_slightly(metric) for name, metric in READINGS.items()}, words)


def aid_prevents_saturation(groups: Groups) -> ClaimRow:
    """Are fewer of AID's units saturated than of each of the other two, on both problems?"""
    words = words_of("aid_prevents_saturation")
    rows = {
        f"{name} against {label_of(other)}": claim_difference_below(
            group.of("aid").final("saturated_share"),
            group.of(other).final("saturated_share"),
            quantity="saturated share, AID minus the other",
            **words,
        )
        for name, group in groups.items()
        for other in OTHERS
    }
    return in_each(rows, words)


def aid_above_throughout(groups: Groups, metric: str, words: Words) -> ClaimRow:
    """The claim that AID's number is above each of the other two in each quarter of the stages, on both problems."""
    rows = {
        f"{name} against {label_of(other)} ({quarter})": row
        for name, group in groups.items()
        for other in OTHERS
        for quarter, row in claims_above(
            group.of("aid"), group.of(other), metric, quantity="AID minus the other", words=words
        ).items()
    }
    return in_each(rows, words)


def ranks_decline(groups: Groups) -> ClaimRow:
    """Do the ranks of vanilla and of Dropout end below nine tenths of what they were after the first stage?"""
    words = words_of("vanilla_and_dropout_ranks_decline")
    rows = {
        f"{label_of(method)} on {name}": claim_decline(
            group.of(method), "srank", quantity="effective rank", words=words
        )
        for name, group in groups.items()
        for method in OTHERS
    }
    return in_each(rows, words)
