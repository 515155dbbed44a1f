"""Why AID: which part of it does the work, the slopes on both sides, the noise, its form, or the average pools?

Not one of the paper's studies. AID stands beside what is left of it if one part is taken away or replaced, and beside
what has a part of it. Every entry is tuned alike, on a seed of its own:

    supple run why_aid --scale full --search    # every setting of every entry, on the tuning seed
    python tools/choose_settings.py OUT         # writes the best of each entry into why_aid.json
    supple run why_aid --scale full             # what was chosen, on five other seeds

The rule of choice, set before any data existed: the highest score on the tuning seed, by the score that is reported; a
setting that diverged comes last.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from supple_lab.codec import encode
from supple_lab.models.cnn import CNN
from supple_lab.paper.claims import Above, Cases, Claim, Each, Most, Number, OnlyIf, Rule, number
from supple_lab.paper.compare import bar, label_of, label_of_optimizer, mean_of, sample_table
from supple_lab.paper.method_runs import NO_RUNS
from supple_lab.paper.study import Condition, Scale, Study, StudyOptions
from supple_lab.paper.why_aid_entries import POOLS, PROTOCOLS, Pool, arms
from supple_lab.report.figure import Bars, Figure, Line, StudyReport, Table
from supple_lab.report.tables import ABSENT
from supple_lab.results.intervals import mean_interval
from supple_lab.results.results import Results, Sample
from supple_lab.results.select import Selection, select, setting_in_words
from supple_lab.spec import RunSpec

NOTHING = NO_RUNS.final("test_accuracy")
Cells = Mapping[str, Sample]  # scores by entry
Groups = Mapping[str, Cells]  # by the label of an arm


def groups_of(results: Results, order: StudyOptions) -> dict[str, Cells]:
    return {
        arm.label: {entry: arm.protocol.score(runs) for entry, runs in arm.runs(results, order).items()}
        for arm in arms(order.scale)
    }


def score(entry: str) -> Number:
    return number("score", entry, lambda cells: cells.get(entry, NOTHING))


def pooled(entry: str, pool: Pool) -> Number:
    text = f"score of {label_of(entry)} with {pool} pools"
    return Number(text, lambda arms: arms[pool].get(entry, NOTHING))


def with_entries(*entries: str) -> Cases:
    """Each protocol that has these entries; with average pools, which come with AID."""

    def cases(groups: Groups) -> dict[str, Cells]:
        found = [protocol for protocol in PROTOCOLS if set(entries) <= set(protocol.entries)]
        return {one.name: groups.get(f"{one.name}, average pools", groups.get(one.name, {})) for one in found}

    return cases


def with_pools(groups: Groups) -> dict[str, dict[Pool, Cells]]:
    """The two arms of each protocol whose network has pools."""
    names = [one.name for one in PROTOCOLS if isinstance(one.tasks["full"].model, CNN)]
    return {name: {pool: groups.get(f"{name}, {pool} pools", {}) for pool in POOLS} for name in names}


NOT_ASKED = "The paper does not ask."
PAPERS = "The paper replaces max-pools by average pools beside AID, and does not say what this alone does."


def beats(one: str, other: str, *, key: str, claim: str) -> Claim:
    cases = with_entries(one, other)
    where = f"in most of the {len(cases({}))} protocols, with average pools if the network has pools"
    return Claim(
        key=f"why_aid_{key}", paper=NOT_ASKED, claim=claim, rule=Most(where, cases, Above(score(one) - score(other)))
    )


def pools_help(entry: str) -> Claim:
    return Claim(
        key=f"why_aid_pools_help_{entry}",
        paper=PAPERS,
        claim=f"Average pools are better than max-pools beside {label_of(entry)}.",
        rule=Each(
            "on each of the three with the CNN", with_pools, Above(pooled(entry, "average") - pooled(entry, "max"))
        ),
    )


LEAD = pooled("aid", "average") - pooled("vanilla", "max")
HALF_IS_POOLS = OnlyIf(
    {"AID with average pools is above ReLU with max-pools": Above(LEAD)},
    Above(
        (pooled("vanilla", "average") - pooled("vanilla", "max") - 0.5 * LEAD).called(
            "what average pools add to ReLU minus half of what AID with average pools adds to ReLU with max-pools"
        )
    ),
)
GAIN = score("aid") - score("vanilla")
HALF_BY_SLOPES: Rule = OnlyIf(
    {"AID is above ReLU": Above(GAIN)},
    Above(
        (score("leaky_relu") - score("vanilla") - 0.5 * GAIN).called(
            "what a leaky ReLU adds to ReLU minus half of what AID adds"
        )
    ),
)
CLAIMS = (
    beats(
        "aid_mean",
        "vanilla",
        key="slopes",
        claim="AID's slopes alone, its mean without the noise, are better than ReLU.",
    ),
    beats("aid", "aid_mean", key="noise", claim="AID is better than its own mean: the noise matters."),
    beats("aid", "aid_gauss", key="form", claim="AID is better than its Gaussian twin: the form of the noise matters."),
    beats("aid", "aid_per_unit", key="grain", claim="AID is better with a mask for each element than for each unit."),
    beats("aid", "leaky_dropout", key="leaky_dropout", claim="AID is better than Dropout after a leaky ReLU."),
    beats("aid", "leaky_relu", key="leaky_relu", claim="AID is better than a plain leaky ReLU."),
    Claim(
        key="why_aid_leaky_relu_keeps_up",
        paper=NOT_ASKED,
        claim="A plain leaky ReLU has at least half of what AID adds to ReLU's trainability.",
        rule=Each(
            "on random labels and on permuted inputs",
            lambda groups: {name: groups.get(name, {}) for name in ("random labels", "permuted inputs")},
            HALF_BY_SLOPES,
        ),
    ),
    pools_help("vanilla"),
    pools_help("aid"),
    Claim(
        key="why_aid_pools_are_half",
        paper=PAPERS,
        claim="Average pools are at least half of AID's lead over ReLU.",
        rule=Each("on each of the three with the CNN", with_pools, HALF_IS_POOLS),
    ),
)
HOW = (
    "Not one of the paper's studies. Entries are tuned alike: {number} settings each, on one seed that is not scored; "
    "the best by the score itself is run with other seeds. The score is the accuracy at the end of a stage on its own "
    "images in evaluation mode, mean over the stages (random labels, permuted inputs), or the final test accuracy (all "
    "others). Strengths of AID's forms and of slopes are matched: AID of p has the counterpart (1 - p) / p."
)
SCALE_NOTES: Mapping[Scale, tuple[str, ...]] = {
    "quick": (
        HOW.format(number="4"),
        "Quick scale: 1,600 digits under random labels, 3 x 128 units; 200 digits in 5 parts, a slim CNN. The other "
        "protocols are left out and count as not run, so that no claim over most of them can hold.",
    ),
    "full": (
        HOW.format(number="8 (4 in the warm start and on MNIST, where the rate is 1e-3 for all)"),
        "Shorter than the paper's streams: 25 labellings of 50 epochs (200 of 100), 300 permutations (800), 5 parts of "
        "25 and 30 epochs (10 of 100), 60 epochs (200), a warm start of 300 epochs and 30 on all data (1,000 and 100).",
    ),
}


class WhyAID(Study):
    """AID beside what is left of it without one of its parts."""

    name = "why_aid"
    title = "Which part of AID does the work?"
    question = (
        "AID has slopes on both sides, noise of a certain form, and average pools in place of max-pools. Which of "
        "these keeps a network able to learn, and would a leaky ReLU, Dropout after it, or another noise do as well?"
    )
    claims = CLAIMS
    scales = ("smoke", "quick", "full")

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        return tuple(arm.condition(order) for arm in arms(order.scale))

    def reason_to_refuse(self, order: StudyOptions) -> str:
        if order.scale in self.scales and not order.search and not any(arm.chosen() for arm in arms(order.scale)):
            return (
                f"the settings of why_aid at {order.scale} scale are not chosen yet. Try them: supple run why_aid "
                f"--scale {order.scale} --search; then choose: python tools/choose_settings.py OUT."
            )
        return super().reason_to_refuse(order)

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        if order.search:
            return StudyReport(
                figures=(),
                tables=(choice_table(results, order),),
                claims=self.decided({}, order),
                notes=(*SCALE_NOTES.get(order.scale, ()), "These are the tuning runs; no claim rests on them."),
            )
        groups = groups_of(results, order)
        return StudyReport(
            figures=(effect_figure(groups),),
            tables=(score_table(groups, results, order),),
            claims=self.decided(groups, order),
            notes=SCALE_NOTES.get(order.scale, ()),
        )


def selections(results: Results, order: StudyOptions) -> dict[tuple[str, str], Selection]:
    """What the tuning runs choose, by the label of an arm and the entry."""
    return {
        (arm.label, entry): select(runs, arm.protocol.metric, rule=arm.protocol.rule)
        for arm in arms(order.scale)
        for entry, runs in arm.runs(results, order).items()
    }


def choice_table(results: Results, order: StudyOptions) -> Table:
    return sample_table(
        "chosen",
        "The best setting of each entry on the tuning seed.",
        rows=selections(results, order).items(),
        columns={
            "protocol": lambda place, _: place[0],
            "entry": lambda place, _: label_of(place[1]),
            "chosen": lambda _, selection: selection.settings or ABSENT,
            "score": lambda _, selection: f"{selection.score:.4f}" if selection.num_compared else ABSENT,
            "settings": lambda _, selection: f"{selection.num_compared} of {selection.num_configurations}",
        },
    )


def effect(groups: Groups, label: str, entry: str) -> Sample:
    """The entry's score minus ReLU's, with max-pools if there are pools, seed by seed."""
    name = label.partition(",")[0]
    relu = groups.get(f"{name}, max pools", groups[label])
    return groups[label].get(entry, NOTHING).minus(relu.get("vanilla", NOTHING))


def effect_figure(groups: Groups) -> Figure:
    """Entries from the best to the worst, a panel a protocol; ReLU with max-pools is zero."""
    panels: dict[str, dict[tuple[str, str], Cells]] = {}
    for label, cells in groups.items():
        name, _, pools = label.partition(", ")
        bars = ("vanilla", pools) if pools == "max pools" else ("dropout", "average pools, or none")
        panels.setdefault(name, {})[bars] = {label_of(entry): effect(groups, label, entry) for entry in cells}
    return Figure(
        name="why_aid",
        caption="Score of each entry minus that of ReLU (with max-pools) of the same seed, the best first; mean and "
        "its 95% interval.",
        panels=tuple(effect_panel(name, effects) for name, effects in panels.items()),
        columns=2,
    )


def effect_panel(title: str, effects: Mapping[tuple[str, str], Cells]) -> Bars:
    """What is added to ReLU, by the look and the label of its bars; the best of the last set first."""
    *_, last = effects.values()
    ranked = sorted(last, key=lambda name: -np.nan_to_num(mean_of(last[name]), nan=-np.inf))
    return Bars(
        title=title,
        x_label="",
        y_label="score − ReLU's",
        positions=tuple(ranked),
        bars=tuple(
            interval_bar(look, label, [own.get(name, NOTHING) for name in ranked])
            for (look, label), own in effects.items()
            if any(map(len, own.values()))
        ),
    )


def interval_bar(look: str, label: str, samples: Sequence[Sample]) -> Line:
    """Means with their 95% intervals; nothing if a run diverged or none ended."""
    ends = [mean_interval(sample.values) or (np.nan, np.nan) for sample in samples]
    low, high = np.array(ends, dtype=float).T
    edges = ("95% from", "95% to")
    return replace(bar(look, label, samples), low=low, high=high, band_words="95% interval", edges=edges)


def score_table(groups: Groups, results: Results, order: StudyOptions) -> Table:
    settings = {
        (arm.label, entry): words_for(runs.runs[0].spec)
        for arm in arms(order.scale)
        for entry, runs in arm.runs(results, order).items()
    }
    return sample_table(
        "scores",
        "Score of each entry at its chosen setting, and minus that of ReLU (with max-pools) of the same seed; mean ± "
        "standard deviation over seeds.",
        rows=settings,
        columns={
            "protocol": lambda label, entry: label,
            "entry": lambda label, entry: label_of(entry),
            "setting": lambda label, entry: settings[label, entry],
            "score": lambda label, entry: groups[label][entry],
            "minus ReLU": partial(effect, groups),
            "n": lambda label, entry: len(groups[label][entry]),
        },
    )


def words_for(spec: RunSpec) -> str:
    own = {name: value for name, value in encode(spec.method).items() if name not in ("kind", "revision")}
    return ", ".join((*(setting_in_words(*one) for one in own.items()), label_of_optimizer(spec.optimizer)))
