"""Pre-activation shift (appendix G.1.3): where the inputs of the last hidden units lie after 1, 10, 30 stages."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from supple.metrics.preactivation import PreactivationHistogram, PreactivationQuartiles
from supple_lab.paper.claims import at_paper_scale, beside_the_paper, words_of
from supple_lab.paper.compare import label_of, shown, stage_curves
from supple_lab.paper.dropout_fails import DATASETS, MODELS
from supple_lab.paper.groups import by_seed, in_each
from supple_lab.paper.notes import sources
from supple_lab.paper.study import Condition, Study, StudyOptions
from supple_lab.report.figure import ClaimRow, Distribution, Figure, Histogram, Level, Panel, StudyReport, Table
from supple_lab.report.verdict import claim_above, claim_below, claim_difference_above
from supple_lab.results.results import Results, RunResult, Sample
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.spec import Supervised
from supple_lab.store.reading import Record

HISTOGRAM = PreactivationHistogram()
FIRST, EARLY, LATE = 1, 10, 30  # stages of the paper's figure and of the claims
SHOWN = {"smoke": (1, 2, 2), "quick": (FIRST, EARLY, LATE), "paper": (FIRST, EARLY, LATE)}
SCENARIOS = {
    "smoke": RandomLabel(num_stages=2, epochs=1, num_images=128),
    "quick": RandomLabel(num_stages=LATE, epochs=30, num_images=1400),
    "paper": RandomLabel(num_stages=LATE, epochs=100, num_images=1400),
}
FAR = -1250.0  # half of the paper's -2500
BOUNDED = 0.1  # of Dropout's median
NO_DRIFT = f"Dropout's median is not below {FAR:g}, and a tenth of one that did not drift bounds nothing: not decided"
PAPER = Level(label="Dropout in the paper", value=-2500.0)
SCALE_NOTES = {
    "smoke": ("Smoke scale: a tiny network for a few steps shows that everything runs; the numbers mean nothing.",),
    "quick": (
        "Quick scale, not the paper's protocol: digits of 8x8 pixels in place of MNIST, 7 x 128 hidden units in place "
        "of 7 x 512, 30 epochs a stage in place of 100; how far a median drifts depends on all of these.",
    ),
    "paper": (
        "Where the paper is silent: 8 layers are 7 of 512 hidden units and the output; batches of 64. The run ends at "
        "stage 30, the last that the figure shows.",
    ),
}
Methods = Mapping[str, Results]


class PreactivationShift(Study):
    """Quartiles and histograms of the penultimate pre-activations under Dropout and AID."""

    name = "preactivation_shift"
    title = "Do pre-activations drift away under Dropout?"
    question = (
        "With every new set of labels the inputs of the hidden units move. How far do they drift from zero, where a "
        "unit can still switch, under Dropout and under AID?"
    )

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        problem = Supervised(
            scenario=SCENARIOS[order.scale],
            dataset=DATASETS[order.scale],
            metrics=(PreactivationQuartiles(), HISTOGRAM),
        )
        return (
            Condition(
                label="random labels, 8 layers",
                problem=problem,
                model=MODELS[order.scale],
                experiment="preactivation_shift",
                case="mlp",
            ),
        )

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        (condition,) = self.conditions(order)
        by_method: Methods = condition.of(results, order).group_by("method")  # a store may hold runs of other versions
        return StudyReport(
            figures=(shift_figure(by_method, order), median_figure(by_method)),
            tables=(beside_the_paper(quartile_table(by_method, SHOWN[order.scale]), order),),
            claims=(
                shifts_early(by_method),
                dropout_shift_grows(by_method),
                at_paper_scale(dropout_drifts(by_method), order),
                aid_stays(by_method),
            ),
            notes=(*SCALE_NOTES[order.scale], *sources(order, "preactivation_shift")),
        )


def shift_figure(by_method: Methods, order: StudyOptions) -> Figure:
    """The first two stages of each method, then the last of all."""
    first, early, late = SHOWN[order.scale]
    shifts = tuple(distribution(label_of(method), {method: runs}, (first, early)) for method, runs in by_method.items())
    last = distribution(f"stage {late}", by_method, (late,))
    return Figure(
        name="preactivation_shift",
        caption="Pre-activations of the last hidden layer over all images and units, in evaluation mode, with their "
        "quartiles; histograms and quartiles are means over seeds.",
        panels=(*shifts, replace(last, y_scale="symlog", levels=(PAPER,) if order.scale == "paper" else ())),
    )


def distribution(title: str, by_method: Methods, stages: tuple[int, ...]) -> Distribution:
    """Histograms side by side, stage after stage."""
    histograms = (histogram(method, runs, stage) for stage in stages for method, runs in by_method.items())
    return Distribution(
        title=title,
        x_label="",
        y_label="pre-activation",
        histograms=tuple(one for one in histograms if one is not None),
    )


def histogram(method: str, results: Results, stage: int) -> Histogram | None:
    """How a method's pre-activations are spread at a stage, or None where no run has come so far."""
    records = [found for run in results.drawn if (found := record_of(run, stage)) is not None]
    if not records:
        return None
    edges, shares = mean_histogram(records)
    q1, q2, q3 = (float(np.mean([record[f"preactivation_q{n}"] for record in records])) for n in (1, 2, 3))
    return Histogram(
        method=method,
        label=label_of(method),
        position=f"stage {stage}",
        edges=edges,
        shares=shares,
        quartiles=(q1, q2, q3),
        n=len(records),
    )


def record_of(run: RunResult, stage: int) -> Record | None:
    """The record of a stage, counted from 1, if it has finite pre-activations."""
    found = (record for record in run.records if record.get("stage") == stage - 1 and "preactivation_low" in record)
    return next((record for record in found if np.isfinite(record["preactivation_low"])), None)


def mean_histogram(records: list[Record]) -> tuple[np.ndarray, np.ndarray]:
    """Histograms of different ranges as one: their mean distribution on common bins, values even within each bin."""
    low = min(record["preactivation_low"] for record in records)
    high = max(record["preactivation_high"] for record in records)
    edges = np.linspace(low, max(high, np.nextafter(low, np.inf)), HISTOGRAM.num_bins + 1)
    return edges, np.mean([np.diff(cumulative(record, edges)) for record in records], axis=0)


def cumulative(record: Record, edges: np.ndarray) -> np.ndarray:
    """The share of a record's values below each edge."""
    shares = [record[f"preactivation_bin_{place:02d}"] for place in range(HISTOGRAM.num_bins)]
    own = np.linspace(record["preactivation_low"], record["preactivation_high"], HISTOGRAM.num_bins + 1)
    return np.interp(edges, own, np.concatenate([[0.0], np.cumsum(shares)]))


def median_figure(by_method: Methods) -> Figure:
    """The median over all stages."""
    panel = Panel(
        title="Median over the stages",
        x_label="stage",
        y_label="median pre-activation",
        curves=stage_curves(by_method, "preactivation_q2"),
        y_scale="symlog",
    )
    return Figure(
        name="preactivation_median",
        caption="Median of the same pre-activations at the end of each stage; line: mean over seeds, band: one "
        "standard deviation.",
        panels=(panel,),
    )


def quartile_table(by_method: Methods, stages: tuple[int, ...]) -> Table:
    """Quartiles at each stage shown."""
    rows = tuple(
        (
            label_of(method),
            str(stage),
            *(shown(at_stage(runs, f"preactivation_q{number}", stage)) for number in (1, 2, 3)),
            "about \N{MINUS SIGN}2500" if (method, stage) == ("dropout", LATE) else "not printed",
            str(len(at_stage(runs, "preactivation_q2", stage))),
        )
        for method, runs in by_method.items()
        for stage in dict.fromkeys(stages)
    )
    return Table(
        name="quartiles",
        caption="Quartiles of the penultimate pre-activations; mean ± standard deviation over seeds.",
        header=("method", "stage", "Q1", "Q2 (median)", "Q3", "Q2 in the paper", "n"),
        rows=rows,
    )


def at_stage(results: Results, metric: str, stage: int) -> Sample:
    """The metric at a stage, counted from 1, for the runs that have so many stages."""

    def value(run: RunResult) -> float:
        return next((r[metric] for r in run.records if r.get("stage") == stage - 1 and metric in r), float("nan"))

    long_enough = results.where(lambda spec: num_stages(spec.problem) >= stage)
    return long_enough.sample(value)


def num_stages(problem: object) -> int:
    """How many stages a problem has."""
    return problem.scenario.num_stages if isinstance(problem, Supervised) else 0


def shifts_early(by_method: Methods) -> ClaimRow:
    """Do the medians of both move by more than the first interquartile range up to stage 10?"""
    words = words_of("aid_shifts_early_too")
    rows = {
        label_of(method): claim_above(
            early_shift(by_method.get(method, Results(()))), 1.0, quantity="shift over interquartile range", **words
        )
        for method in ("dropout", "aid")
    }
    return in_each(rows, words)


def early_shift(results: Results) -> Sample:
    """|Median of stage 10 - median of stage 1| over stage 1's interquartile range, one number a run."""
    q1, before, q3 = (at_stage(results, f"preactivation_q{number}", FIRST) for number in (1, 2, 3))
    after = at_stage(results, "preactivation_q2", EARLY)
    if not len(after):
        return after
    return by_seed((q1, before, q3, after), lambda v: float(abs(v[3] - v[1]) / (v[2] - v[0])))


def dropout_shift_grows(by_method: Methods) -> ClaimRow:
    """Does the shift since stage 1 grow from stage 10 to stage 30 under Dropout, and more than under AID?"""
    words = words_of("dropout_shift_grows")
    dropout, aid = (late_shift(by_method.get(method, Results(()))) for method in ("dropout", "aid"))
    quantity = "shift since stage 1, at stage 30 minus at stage 10"
    rows = {
        "Dropout": claim_above(dropout, 0.0, quantity=quantity, **words),
        "Dropout minus AID": claim_difference_above(dropout, aid, quantity=quantity, **words),
    }
    return in_each(rows, words)


def late_shift(results: Results) -> Sample:
    """|Median - median of stage 1| at stage 30 minus the same at stage 10, one number a run."""
    first, early, late = (at_stage(results, "preactivation_q2", stage) for stage in (FIRST, EARLY, LATE))
    if not len(late):
        return late
    return by_seed((first, early, late), lambda v: float(abs(v[2] - v[0]) - abs(v[1] - v[0])))


def dropout_drifts(by_method: Methods) -> ClaimRow:
    """Is Dropout's median at stage 30 beyond half of the paper's?"""
    late = at_stage(by_method.get("dropout", Results(())), "preactivation_q2", LATE)
    return claim_below(late, FAR, quantity="median at stage 30", **words_of("dropout_median_drifts"))


def aid_stays(by_method: Methods) -> ClaimRow:
    """Is AID's median at stage 30 less than a tenth as far from zero as Dropout's, where that drifted?"""
    aid, dropout = (
        at_stage(by_method.get(method, Results(())), "preactivation_q2", LATE) for method in ("aid", "dropout")
    )
    room = by_seed((aid, dropout), lambda v: float(BOUNDED * abs(v[1]) - abs(v[0])))
    quantity = "a tenth of Dropout's |median| minus AID's, at stage 30"
    row = claim_above(room, 0.0, quantity=quantity, **words_of("aid_median_stays_bounded"))
    if row.verdict == "not run" or dropout_drifts(by_method).verdict == "holds":
        return row
    return replace(row, verdict="not decided", remark=NO_DRIFT, chance=1.0)
