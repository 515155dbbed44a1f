"""Paired: the difference of two arms over the stages, seed by seed: same data, same initialisation."""

from dataclasses import replace

import numpy as np

from supple_lab.report.panel import Curve
from supple_lab.report.results import Results, RunResult
from supple_lab.report.sample import Sample
from supple_lab.studies.labels import label_of

Table = dict[int, float]  # a metric by stage


def difference_curve(one: Results, other: Results, metric: str, *, method: str) -> Curve | None:
    """One minus the other at each stage, or None where no seed has both."""
    ours, theirs = tables_by_seed(one, metric), tables_by_seed(other, metric)
    seeds = [seed for seed in ours if seed in theirs]
    stages = sorted({stage for seed in seeds for stage in ours[seed].keys() & theirs[seed].keys()})
    if not stages:
        return None
    rows = [[value_at(ours[seed], stage) - value_at(theirs[seed], stage) for stage in stages] for seed in seeds]
    return Curve(
        method=method,
        label=label_of(method),
        x=np.array(stages) + 1,
        values=np.array(rows, dtype=float),
        band="deviation",
    )


def tables_by_seed(results: Results, metric: str) -> dict[int, Table]:
    """Each drawn run's metric by stage, under its seed."""
    return {run.spec.seed: table_of(run, metric) for run in results.drawn}


def table_of(run: RunResult, metric: str) -> Table:
    """The metric at each stage that recorded it."""
    return {record["stage"]: record[metric] for record in run.records if metric in record}


def value_at(table: Table, stage: int) -> float:
    """The value of a stage; not a number where there is none."""
    return table.get(stage, float("nan"))


def mean_of_stages(results: Results, metric: str, stages: slice) -> Sample:
    """The metric's mean over some of the stages, one number an ended run."""

    def mean(run: RunResult) -> float:
        values = run.values(metric)[stages]
        return float(values.mean()) if len(values) else float("nan")

    return results.sample(mean)


def times(sample: Sample, factor: float) -> Sample:
    """A multiple of each value: a claim on a ratio is decided by a difference, which no small denominator blows up."""
    return replace(sample, values=factor * sample.values)


def where_ended(sample: Sample) -> Sample:
    """The seeds that have a value, one run each: without those that diverged."""
    kept = np.flatnonzero(np.isfinite(sample.values))
    return Sample(
        values=sample.values[kept],
        seeds=tuple(sample.seeds[place] for place in kept),
        runs=tuple(sample.runs[place] for place in kept),
    )
