"""Pre-activation shift (appendix G.1.3): where the inputs of the last hidden units lie after 1, 10, 30 stages."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from supple.metrics.preactivation import PreactivationHistogram, PreactivationQuartiles
from supple_lab.paper.claims import Above, All, AtPaperScale, Below, Claim, Computed, Each, Number, number
from supple_lab.paper.compare import BAND, beside_the_paper, label_of, sample_table, stage_panel
from supple_lab.paper.dropout_fails import DATASETS, network_condition
from supple_lab.paper.method_runs import MethodRuns, method_by_method
from supple_lab.paper.networks import sources
from supple_lab.paper.study import ByScale, Condition, Scale, Study, StudyOptions
from supple_lab.report.figure import Distribution, Figure, Finding, Histogram, Level, StudyReport, Table
from supple_lab.results.results import Results, RunResult, Sample, by_seed
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.spec import Supervised
from supple_lab.store.run_folder import Record

HISTOGRAM = PreactivationHistogram()
FIRST, EARLY, LATE = 1, 10, 30  # stages of the paper's figure and of the claims
SHOWN = ByScale(smoke=(1, 2, 2), quick=(FIRST, EARLY, LATE), paper=(FIRST, EARLY, LATE))
SCENARIOS = ByScale(
    smoke=RandomLabel(num_stages=2, epochs=1, num_images=128),
    quick=RandomLabel(num_stages=LATE, epochs=30, num_images=1400),
    paper=RandomLabel(num_stages=LATE, epochs=100, num_images=1400),
)
FAR = -1250.0  # half of the paper's -2500
BOUNDED = 0.1  # of Dropout's median
NO_DRIFT = f"Dropout's median is not below {FAR:g}, and a tenth of one that did not drift bounds nothing: not decided"
PAPER = Level(label="Dropout in the paper", value=-2500.0)
SCALE_NOTES: Mapping[Scale, tuple[str, ...]] = {
    "quick": (
        "Quick scale, not the paper's protocol: digits of 8x8 pixels in place of MNIST, 7 x 128 hidden units in place "
        "of 7 x 512, 30 epochs a stage in place of 100; how far a median drifts depends on all of these.",
    ),
    "paper": (
        "Where the paper is silent: 8 layers are 7 of 512 hidden units and the output; batches of 64. The run ends at "
        "stage 30, the last that the figure shows.",
    ),
}
MEDIAN = "preactivation_q2"
QUARTILES = ("preactivation_q1", MEDIAN, "preactivation_q3")


def at_stage(results: Results, metric: str, stage: int) -> Sample:
    """The metric at a stage, counted from 1, for the runs that have so many stages."""
    long_enough = results.where(lambda spec: spec.problem.num_records >= stage)
    return long_enough.sample(lambda run: run.by_stage(metric).get(stage - 1, float("nan")))


def early_shift(runs: MethodRuns) -> Sample:
    """|Median of stage 10 - median of stage 1| over stage 1's interquartile range, one number a run."""
    quartiles = [at_stage(runs.of("each"), quartile, FIRST) for quartile in QUARTILES]
    after = at_stage(runs.of("each"), MEDIAN, EARLY)
    return by_seed((*quartiles, after), lambda v: float(abs(v[3] - v[1]) / (v[2] - v[0])))


def growth(method: str) -> Number:
    """By how much further the median has moved since stage 1 at stage 30 than at stage 10."""

    def further(runs: MethodRuns) -> Sample:
        first, early, late = (at_stage(runs.of(method), MEDIAN, stage) for stage in (FIRST, EARLY, LATE))
        return by_seed((first, early, late), lambda v: float(abs(v[2] - v[0]) - abs(v[1] - v[0])))

    return number("|median - median of stage 1| at stage 30 minus at stage 10", method, further)


def room(runs: MethodRuns) -> Sample:
    """How far AID's |median| at stage 30 is below a tenth of Dropout's."""
    medians = [at_stage(runs.of(method), MEDIAN, LATE) for method in ("aid", "dropout")]
    return by_seed(medians, lambda v: float(BOUNDED * abs(v[1]) - abs(v[0])))


DRIFTS = Below(Number("median at stage 30", lambda runs: at_stage(runs.of("dropout"), MEDIAN, LATE)), FAR)
BOUND = Above(Number("a tenth of Dropout's |median| minus AID's, at stage 30", room))


def stays_bounded(runs: MethodRuns) -> Finding:
    """Is AID's median less than a tenth as far from zero as Dropout's, if that drifted?"""
    found = BOUND.decide(runs, "paper")
    if found.verdict == "not run" or DRIFTS.decide(runs, "paper").verdict == "holds":
        return found
    return replace(found, verdict="not decided", remark=NO_DRIFT, chance=1.0)


CLAIMS = (
    Claim(
        key="aid_shifts_early_too",
        paper="From the first to the tenth task AID's pre-activations shift as significantly as Dropout's.",
        claim="Early on, AID's pre-activations shift as Dropout's do.",
        rule=Each(
            "for Dropout and AID",
            lambda runs: method_by_method({"": runs}, "dropout", "aid", name="{method}"),
            Above(
                Number("|median of stage 10 - median of stage 1| over stage 1's interquartile range", early_shift), 1.0
            ),
        ),
    ),
    Claim(
        key="dropout_shift_grows",
        paper="Over the course of training Dropout's shift becomes more severe than AID's; it is unbounded.",
        claim="Dropout's pre-activations go on shifting, and further than AID's.",
        rule=All({"Dropout": Above(growth("dropout")), "Dropout minus AID": Above(growth("dropout") - growth("aid"))}),
    ),
    Claim(
        key="dropout_median_drifts",
        paper="By the 30th task the median of Dropout's pre-activations approaches -2500.",
        claim="Dropout's pre-activations drift far below zero.",
        rule=AtPaperScale(DRIFTS),
    ),
    Claim(
        key="aid_median_stays_bounded",
        paper="At the 30th task AID's distribution is much closer to zero than Dropout's.",
        claim="AID's pre-activations stay bounded.",
        rule=Computed(
            f"{BOUND.text}. Not decided unless Dropout's median is below {FAR:g}, because a tenth of one that did not "
            "drift bounds nothing",
            stays_bounded,
        ),
    ),
)


class PreactivationShift(Study):
    """Quartiles and histograms of the penultimate pre-activations under Dropout and AID."""

    name = "preactivation_shift"
    title = "Do pre-activations drift away under Dropout?"
    question = (
        "With every new set of labels the inputs of the hidden units move. How far do they drift from zero, where a "
        "unit can still switch, under Dropout and under AID?"
    )
    section = "G.1.3 Analysis on Preactivation Distribution Shift of Dropout and AID"
    claims = CLAIMS

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        problem = Supervised(
            scenario=SCENARIOS.at(order.scale),
            dataset=DATASETS.at(order.scale),
            metrics=(PreactivationQuartiles(), HISTOGRAM),
        )
        return (replace(network_condition(order), problem=problem, experiment="preactivation_shift"),)

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        runs = MethodRuns(results.by_method())
        median = stage_panel(
            "Median over the stages", runs.by_method, MEDIAN, y_label="median pre-activation", y_scale="symlog"
        )
        caption = f"Median of the same pre-activations at the end of each stage; {BAND}"
        return StudyReport(
            figures=(
                shift_figure(runs, order),
                Figure(name="preactivation_median", caption=caption, panels=(median,)),
            ),
            tables=(beside_the_paper(quartile_table(runs, SHOWN.at(order.scale)), order),),
            claims=self.decided(runs, order),
            notes=(*SCALE_NOTES.get(order.scale, ()), *sources(order, "preactivation_shift")),
        )


def shift_figure(runs: MethodRuns, order: StudyOptions) -> Figure:
    """The first two stages of each method, then the last of all."""
    first, early, late = SHOWN.at(order.scale)
    shifts = tuple(distribution(label_of(method), runs, (method,), (first, early)) for method in runs.by_method)
    last = distribution(f"stage {late}", runs, tuple(runs.by_method), (late,))
    return Figure(
        name="preactivation_shift",
        caption="Pre-activations of the last hidden layer over all images and units, in evaluation mode, with their "
        "quartiles; histograms and quartiles are means over seeds.",
        panels=(*shifts, replace(last, y_scale="symlog", levels=(PAPER,) if order.scale == "paper" else ())),
    )


def distribution(title: str, runs: MethodRuns, methods: tuple[str, ...], stages: tuple[int, ...]) -> Distribution:
    """Histograms side by side, stage after stage; none of what no run has come to."""
    found = (
        (method, stage, [record for run in runs.of(method).drawn for record in records_at(run, stage)])
        for stage in stages
        for method in methods
    )
    return Distribution(
        title=title,
        x_label="",
        y_label="pre-activation",
        histograms=tuple(histogram(method, stage, records) for method, stage, records in found if records),
    )


def records_at(run: RunResult, stage: int) -> list[Record]:
    """The record of a stage, counted from 1, if it has finite pre-activations."""
    found = (record for record in run.records if record.get("stage") == stage - 1)
    return [record for record in found if np.isfinite(record.get("preactivation_low", np.nan))][:1]


def histogram(method: str, stage: int, records: list[Record]) -> Histogram:
    edges, shares = mean_histogram(records)
    q1, q2, q3 = (float(np.mean([record[quartile] for record in records])) for quartile in QUARTILES)
    return Histogram(
        method=method,
        label=label_of(method),
        position=f"stage {stage}",
        edges=edges,
        shares=shares,
        quartiles=(q1, q2, q3),
        n=len(records),
    )


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


def quartile_table(runs: MethodRuns, stages: tuple[int, ...]) -> Table:

    def printed(method: str, stage: int) -> str:
        return "about \N{MINUS SIGN}2500" if (method, stage) == ("dropout", LATE) else "not printed"

    q1, q2, q3 = (
        lambda method, stage, quartile=quartile: at_stage(runs.of(method), quartile, stage) for quartile in QUARTILES
    )
    return sample_table(
        "quartiles",
        "Quartiles of the penultimate pre-activations; mean ± standard deviation over seeds.",
        rows=[(method, stage) for method in runs.by_method for stage in dict.fromkeys(stages)],
        columns={
            "method": lambda method, stage: label_of(method),
            "stage": lambda method, stage: stage,
            "Q1": q1,
            "Q2 (median)": q2,
            "Q3": q3,
            "Q2 in the paper": printed,
            "n": lambda method, stage: len(q2(method, stage)),
        },
    )
