"""What decides a sentence of the paper: rules that say themselves what they do. The claims stand beside their studies.

The rules are ours. Each takes a number per seed; "above" and "below" mean that the whole 95% interval of its mean lies
there. Two seeds that came out equal decide nothing: their interval is a point, and rounding alone makes such pairs. A
rule over several conditions (optimizers, networks, games) holds if it holds in each, and fails if it fails in one. "In
most" counts: it holds if more than half of the conditions hold, and fails if half or more fail. "In at least one" is
the mirror of "in each". A verdict that some of the conditions are enough for is decided the more strictly, the more
conditions there are, so that looking often does not make one. Else it is not decided; with nothing to decide it from,
not run.

A precondition that does not hold leaves a claim not decided: without a loss nothing can be done against one. A check is
no claim: nothing is measured in it, only an error of ours can break it.

A method keeps its plasticity if the mean over its last tenth of the stages is less than 0.02 below a fresh vanilla
network of the same seed, optimizer and learning rate, and loses it if it is more than 0.05 below; between the two, and
if the fresh network does not learn (accuracy above 0.15, chance and five points), neither is decided. How far it is
below is its shortfall. The fresh network is a full reset run, or the first stage of the vanilla run if there is none
(method_runs.py). The paper does not say which training accuracy it shows: "by both accuracies" means online and at the
end of a stage, and a claim holds or fails only if both agree. "All eight": both MNIST problems, Adam 1e-3 and 1e-4, SGD
3e-2 and 3e-3. "The three": the CNN on CIFAR-10, ResNet-18 on CIFAR-100, VGG-16 on TinyImageNet; at other scales than
the paper's, what stands in for them. What a scale leaves out counts as not run. A threshold that is a number of the
paper decides at paper scale alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from supple_lab.paper import findings
from supple_lab.paper.compare import label_of
from supple_lab.paper.study import Scale
from supple_lab.report.figure import ClaimRow, Finding, Verdict
from supple_lab.results.results import Sample

# Two points: what two set-ups of one protocol differ by (our supervised CNNs lie up to 1.1 points below the paper's).
KEPT = 0.02
# Five points: the laboratory's bound between two levels of accuracy, and what a figure of the paper shows at a glance.
LOST = 0.05
LEARNED = 0.1 + LOST  # chance among ten classes, and five points: a reference below it has nothing to keep
UNLESS_FRESH = f"Not decided unless the fresh network is above {LEARNED:g}, chance and five points"
NO_REFERENCE = "no fresh reference run, so not decided"
PAPERS_NUMBER = "not decided: the paper's number belongs to the paper's scale"
BEYOND = "Beyond the paper"  # the section of what others claim
# Metrics that are called otherwise than their key.
WORDS = {"srank": "effective rank", "learned_test_accuracy": "test accuracy on the classes learned"}
FRACTIONS = {0.5: "half of ", 0.75: "3/4 of ", 0.9: "nine tenths of ", 1.25: "5/4 of "}
Cases = Callable[[Any], Mapping[str, Any]]  # what a rule is asked of, by name, in the runs that it is given


@dataclass(frozen=True)
class Number:
    """A number a seed: what it is called, and how it is read from a study's runs or from a part of them."""

    stem: str
    of: Callable[[Any], Sample]
    whose: str = ""
    share: str = ""

    @property
    def text(self) -> str:
        return f"{self.share}{self.stem}" + (f" of {self.whose}" if self.whose else "")

    def __sub__(self, other: "Number") -> "Number":
        is_same = self.stem == other.stem and other.whose
        text = f"{self.text} minus " + (f"{other.share}that of {other.whose}" if is_same else other.text)
        return Number(text, lambda runs: self.of(runs).minus(other.of(runs)))

    def __rmul__(self, factor: float) -> "Number":
        def multiple(runs: Any) -> Sample:
            """A claim on a ratio is decided by a difference, which no small denominator blows up."""
            sample = self.of(runs)
            return replace(sample, values=factor * sample.values)

        return replace(self, of=multiple, share=FRACTIONS.get(factor, f"{factor:g} times "))

    def in_seeds_of(self, other: "Number") -> "Number":
        """The same number in the seeds that the other has."""
        return replace(self, of=lambda runs: self.of(runs).of_seeds(other.of(runs).seeds))

    def called(self, text: str) -> "Number":
        return Number(text, self.of)


def number(stem: str, method: str, of: Callable[[Any], Sample]) -> Number:
    """A number of one method, read from the runs by method."""
    names = {"vanilla": "vanilla", "dropout": "Dropout", "other": "the other", "each": "each"}
    return Number(stem, of, names.get(method, label_of(method)))


def words_for(metric: str) -> str:
    return WORDS.get(metric, metric.replace("_", " "))


def final(metric: str, method: str) -> Number:
    """The metric after the last stage or epoch."""
    return number(f"final {words_for(metric)}", method, lambda runs: runs.of(method).final(metric))


def last_tenth(method: str, metric: str = "") -> Number:
    """The mean over the last tenth of the stages, by a metric or by that of the case."""
    stem = f"last tenth of {words_for(metric)}" if metric else "last tenth"
    return number(stem, method, lambda runs: runs.end(method, metric))


def shortfall(method: str) -> Number:
    """How far the last tenth is below a fresh vanilla network."""
    return number("shortfall", method, lambda runs: runs.below(method))


FRESH = Number("accuracy of a fresh vanilla network", lambda runs: runs.fresh())


def quarter_mean(metric: str, method: str) -> Number:
    """The metric's mean over the quarter of the stages that a rule is asked of; without one, that of the case."""
    stem = f"quarter-mean {words_for(metric or 'test_accuracy')}"
    return number(stem, method, lambda runs: runs.mean(method, metric))


def lasting_quarter_mean(metric: str, method: str) -> Number:
    """The same; none for a run that diverged at any time: by the rules it lost its seed."""

    def mean(runs: Any) -> Sample:
        own = runs.of(method)
        means, is_done = quarter_mean(metric, method).of(runs), [run.state == "done" for run in own.ended]
        return replace(means, values=np.where(is_done, means.values, np.nan))

    return replace(quarter_mean(metric, method), of=mean)


def declines(metric: str) -> "Below":
    """The last tenth is below nine tenths of the first value, seed by seed."""
    end = Number(f"last tenth of {words_for(metric)}", lambda runs: runs.end("each", metric))
    return Below(end - 0.9 * Number("the first", lambda runs: runs.of("each").first(metric)))


class Rule(ABC):
    """What decides a claim, and how that is said."""

    text: str
    caveats: tuple[str, ...] = ()  # sentences after it

    @abstractmethod
    def decide(self, runs: Any, scale: Scale) -> Finding:
        """What the runs come to by this rule."""


class Above(Rule):
    """The mean over seeds lies above the threshold."""

    side = "above"

    def __init__(self, number: Number, threshold: float = 0.0) -> None:
        self.number, self.threshold = number, threshold
        self.text = f"{number.text}: {self.side} {threshold:g}"

    def decide(self, runs: Any, scale: Scale) -> Finding:
        sample = self.number.of(runs)
        verdict = findings.side_of(sample, self.threshold)
        quantity = f"{self.number.text} ({self.side} {self.threshold:g}?)"
        verdict = verdict if self.side == "above" else findings.opposite(verdict)
        return findings.measured(sample, verdict, quantity, findings.chance_of(sample, self.threshold))


class Below(Above):
    """The mean over seeds lies below the threshold."""

    side = "below"


class Within(Rule):
    """The mean over seeds is zero up to the margin: holds if the interval is inside, fails if it is outside."""

    caveats = ("It fails wholly outside",)

    def __init__(self, number: Number, margin: float) -> None:
        self.number, self.margin = number, margin
        self.text = f"{number.text}: the whole interval within {margin:g} of 0"

    def decide(self, runs: Any, scale: Scale) -> Finding:
        sample = self.number.of(runs)
        sides = findings.side_of(sample, -self.margin), findings.opposite(findings.side_of(sample, self.margin))
        verdict: Verdict = "fails" if "fails" in sides else "holds" if sides == ("holds", "holds") else "not decided"
        chance = max(findings.chance_of(sample, edge) for edge in (-self.margin, self.margin))  # of the nearer edge
        return findings.measured(sample, verdict, f"{self.number.text} (within ±{self.margin:g}?)", chance)


def learns(fresh: Number) -> dict[str, Rule]:
    """The precondition that a fresh network learns, or there is nothing to keep."""
    return {"a fresh network learns": Above(fresh.called("its accuracy"), LEARNED)}


class Kept(Rule):
    """A method keeps its plasticity: holds if it is kept, fails if it is lost, not decided between the two."""

    caveats = (f"It fails more than {LOST:g} below", UNLESS_FRESH)

    def __init__(self, end: Number, fresh: Number, than: str = "a fresh vanilla network") -> None:
        self.end, self.fresh = end, fresh
        quantity = f"last tenth below {than}"
        self.rule: Above = Below((fresh - end).called(f"{quantity}, lost above {LOST:g}"), KEPT)
        self.mirror = Above((fresh - end).called(f"{quantity}, kept below {KEPT:g}"), LOST)
        self.text = f"{end.text}: less than {KEPT:g} below {than}, seed by seed"

    def decide(self, runs: Any, scale: Scale) -> Finding:
        end = self.end.of(runs)
        if len(end) and not len(self.fresh.of(runs)):
            return replace(
                findings.NOT_RUN, measured=NO_REFERENCE, n=len(end), verdict="not decided", chance=1.0, runs=end.runs
            )
        found, against = self.rule.decide(runs, scale), self.mirror.decide(runs, scale)
        if found.verdict == "fails":  # by the bound of the mirror
            found = replace(found, chance=against.chance) if against.verdict == "holds" else findings.undecided(found)
        guards = learns(self.fresh.in_seeds_of(self.end))
        return findings.provided(found, {name: guard.decide(runs, scale) for name, guard in guards.items()})


class Lost(Kept):
    """A method loses its plasticity: the mirror of Kept."""

    caveats = (f"It fails less than {KEPT:g} below", UNLESS_FRESH)

    def __init__(self, end: Number, fresh: Number, than: str = "a fresh vanilla network") -> None:
        super().__init__(end, fresh, than)
        self.rule, self.mirror = self.mirror, self.rule
        self.text = f"{end.text}: more than {LOST:g} below {than}, seed by seed"


class Each(Rule):
    """Holds if the rule holds in each case, fails if it fails in one; or several rules, by what they add to a name."""

    def __init__(self, where: str, cases: Cases, rule: Rule | Mapping[str, Rule]) -> None:
        self.cases, self.rules = cases, {"": rule} if isinstance(rule, Rule) else rule
        self.text = ", ".join(filter(None, ("; and ".join(one.text for one in self.rules.values()), where)))
        self.caveats = tuple(words for one in self.rules.values() for words in one.caveats)

    def found(self, runs: Any, scale: Scale) -> dict[str, Finding]:
        pairs = ((name, case, more) for name, case in self.cases(runs).items() for more in self.rules)
        return {f"{name}{more}": self.rules[more].decide(case, scale) for name, case, more in pairs}

    def num_needed(self, number: int) -> int:
        return number

    def decide(self, runs: Any, scale: Scale) -> Finding:
        found = self.found(runs, scale)
        return findings.in_at_least(self.num_needed(len(found)), found)


class All(Each):
    """Holds if each of several rules holds, fails if one fails."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        super().__init__("", lambda runs: {"": runs}, rules)


class Most(Each):
    """Holds if more than half of the cases hold, fails if half or more fail."""

    def num_needed(self, number: int) -> int:
        return number // 2 + 1


class Some(Each):
    """Holds if at least one case holds, fails if all fail."""

    def num_needed(self, number: int) -> int:
        return 1


class Agree(Each):
    """Holds if it holds under each reading of the paper, fails if it fails under each."""

    def decide(self, runs: Any, scale: Scale) -> Finding:
        return findings.agreed(self.found(runs, scale))


class OnlyIf(Rule):
    """The rule if each precondition holds; else not decided, because the claim is about nothing."""

    def __init__(self, guards: Mapping[str, Rule], rule: Rule) -> None:
        self.guards, self.rule, self.text = guards, rule, rule.text
        words = " and ".join(f"{name} ({guard.text})" for name, guard in guards.items())
        self.caveats = *rule.caveats, f"Not decided unless {words}"

    def decide(self, runs: Any, scale: Scale) -> Finding:
        found = self.rule.decide(runs, scale)
        return findings.provided(found, {name: guard.decide(runs, scale) for name, guard in self.guards.items()})


class AtPaperScale(Rule):
    """The rule at the paper's scale; at others it says only what was measured."""

    def __init__(self, rule: Rule) -> None:
        self.rule, self.text = rule, rule.text
        self.caveats = *rule.caveats, "At paper scale alone, because the number belongs to it"

    def decide(self, runs: Any, scale: Scale) -> Finding:
        found = self.rule.decide(runs, scale)
        return found if scale == "paper" or found.verdict == "not run" else findings.undecided(found, PAPERS_NUMBER)


class Computed(Rule):
    """A rule of its own: a function of the runs, and its words."""

    def __init__(self, text: str, function: Callable[[Any], Finding], caveats: tuple[str, ...] = ()) -> None:
        self.text, self.function, self.caveats = text, function, caveats

    def decide(self, runs: Any, scale: Scale) -> Finding:
        return self.function(runs)


class Beats(Rule):
    """A method is above each other one, full reset included, seed by seed.

    Each rival has an interval of its own: a noisy one may be the best without coming closest. All must be below, and
    one that is above fails the claim if it would after as many looks as there are rivals. A rival lost the seeds in
    which it diverged. The finding shows the closest; the others stand in its sentence by name.
    """

    caveats = ("A rival lost the seeds in which it diverged, and fails the claim only if it diverged in none",)

    def __init__(self, method: str, number: Callable[[str], Number]) -> None:
        self.method, self.number = method, number  # by method
        self.text = f"{number(method).text} minus that of every other method: above 0, each by its own interval"

    def decide(self, runs: Any, scale: Scale) -> Finding:
        own = self.number(self.method)
        rivals = {label_of(name): self.number(name) for name in runs.by_method if name != self.method}
        quantity = f"{own.stem}, {own.whose} minus the other"
        found = {name: self.against(own.of(runs), rival.of(runs), quantity) for name, rival in rivals.items()}
        result = findings.in_at_least(len(found), found)
        distances = {name: findings.known_mean(own.of(runs).minus(rival.of(runs))) for name, rival in rivals.items()}
        closest = min(distances, key=lambda name: distances[name], default="")
        if not closest or np.isinf(distances[closest]):
            return replace(result, measured=result.listed, parts=())
        lost = findings.divergence({name: rival.of(runs) for name, rival in rivals.items()})
        words = "; ".join(filter(None, (f"closest, {closest}: {found[closest].measured}", result.listed, lost)))
        return replace(result, measured=words, interval=found[closest].interval, parts=())

    @staticmethod
    def against(own: Sample, other: Sample, quantity: str) -> Finding:
        """One that diverged in every seed lost all; one that diverged in some can be below, but not above."""
        pairs, ended = own.minus(other), other.where_known()
        if len(pairs) and not len(ended):
            is_won = len(pairs) > 1 and bool(np.isfinite(own.values).all())
            found = replace(
                findings.NOT_RUN, n=len(pairs), runs=pairs.runs, measured="the other diverged in every seed"
            )
            return replace(found, verdict="holds") if is_won else findings.undecided(found)
        found = Above(Number(quantity, lambda runs: own.minus(ended))).decide(None, "paper")
        if found.verdict != "fails" or len(ended) == len(other):
            return found
        return findings.undecided(found, "the other is above where it ended, but diverged elsewhere, so not decided")


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One sentence of the paper and the rule that decides it; it stands in the study whose runs it is about."""

    key: str
    paper: str  # what it says, with its numbers
    claim: str
    rule: Rule
    section: str = ""  # of the paper, number and title; empty: the study's
    is_check: bool = False  # of our formulas against themselves: an error of ours can break it, no measurement can

    @property
    def is_papers(self) -> bool:  # and decided by runs
        return not self.is_check and self.section != BEYOND

    @property
    def text(self) -> str:
        words = self.rule.text
        return f"{'. '.join((words[:1].upper() + words[1:], *dict.fromkeys(self.rule.caveats)))}."

    def row(self, runs: Any, *, study: str, scale: Scale) -> ClaimRow:
        found = findings.contents_of(self.rule.decide(runs, scale))
        return ClaimRow(claim=self.claim, paper=self.paper, section=self.section, study=study, rule=self.text, **found)
