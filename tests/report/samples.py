"""Small made drawings and results for the report's tests."""

import numpy as np

from supple.methods import UseAID, Vanilla
from supple_lab.data.digits import Digits
from supple_lab.models.mlp import MLP
from supple_lab.optimizer import Adam
from supple_lab.provenance import Provenance
from supple_lab.report.figure import (
    Bars,
    ClaimRow,
    Distribution,
    Figure,
    HeatMap,
    Histogram,
    Level,
    Line,
    Panel,
    StudyReport,
    Table,
)
from supple_lab.report.study_json import ReportInfo
from supple_lab.results.results import Results, RunResult
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.spec import RunSpec, Supervised

INFO = ReportInfo(
    study="sample", title="A title", question="Who learns?", scale="quick", command="supple run sample --scale quick"
)
PROVENANCE = Provenance(
    commit="0123abcd",
    versions={"python": "3.11", "torch": "2.13"},
    machine={"system": "Linux", "cpu": "a cpu", "cores": 2, "memory_gib": 4.0, "gpus": []},
)


def curve(method="aid", label="AID", *, num_seeds=3, num_positions=6, seed=0, first=1, band="range"):
    values = np.random.default_rng(seed).uniform(0.2, 0.9, size=(num_seeds, num_positions))
    return Line.over_seeds(
        method=method, label=label, x=np.arange(first, num_positions + first), values=values, band=band
    )


def panel(*curves, title="Accuracy"):
    return Panel(
        title=title,
        x_label="stage (labels redrawn)",
        y_label="accuracy",
        curves=curves,
        levels=(Level(label="chance", value=0.1),),
        y_range=(0.0, 1.0),
    )


def figure(*panels, name="accuracy"):
    return Figure(name=name, caption="A caption.", panels=panels)


def bars():
    return Bars(
        title="First and last",
        x_label="stage",
        y_label="accuracy",
        positions=("first", "last"),
        bars=(
            curve("vanilla", "ReLU", num_positions=2, first=0),
            curve("aid", "AID", num_positions=2, first=0, seed=1),
        ),
    )


def histogram(method="dropout", label="Dropout", *, position="stage 1", centre=0.0):
    values = np.random.default_rng(0).normal(centre, 1.0 + abs(centre) / 4, size=10_000)
    counts, edges = np.histogram(values, bins=20)
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    return Histogram(
        method=method,
        label=label,
        position=position,
        edges=edges,
        shares=counts / counts.sum(),
        quartiles=(low, median, high),
    )


def distribution():
    return Distribution(
        title="Pre-activations",
        x_label="stage",
        y_label="pre-activation",
        histograms=(
            histogram(),
            histogram("aid", "AID"),
            histogram(position="stage 30", centre=-2500.0),
            histogram("aid", "AID", position="stage 30", centre=-3.0),
        ),
        y_scale="symlog",
    )


def heat_map():
    spread, nothing = 0.012 * np.array([-1.0, 0.0, 1.0]), np.zeros(0)
    means = ((0.41, 0.52, 0.55), (0.38, None, 0.47))
    return HeatMap(
        title="Sensitivity",
        x_label="p",
        y_label="learning rate",
        columns=("0.7", "0.8", "0.9"),
        rows=("1e-3", "1e-4"),
        samples=tuple(tuple(nothing if mean is None else mean + spread for mean in row) for row in means),
        reference=Level(label="full reset", value=0.5),
        value_label="test accuracy",
    )


TABLE = Table(
    name="ends",
    caption="First and last; mean.",
    header=("method", "first", "last"),
    rows=(("AID", "0.9 ± 0.1", "0.9"), ("ReLU", "1.0", "-0.1")),
)
CLAIM = ClaimRow(
    claim="AID keeps learning.", paper="it does", measured="0.9", interval=(0.8, 0.95), n=3, verdict="holds"
)


def study_report(*figures, tables=(TABLE,), claims=(CLAIM,)):
    return StudyReport(figures=figures, tables=tables, claims=claims)


def spec(method, seed):
    return RunSpec(
        problem=Supervised(scenario=RandomLabel(num_stages=2, epochs=1), dataset=Digits()),
        model=MLP(width=8, num_hidden=1),
        method=method,
        optimizer=Adam(),
        seed=seed,
    )


def run(method=None, *, seed=0, state="done", reason="", records=None, **more):
    records = (
        ({"stage": 0, "train_accuracy": 0.5}, {"stage": 1, "train_accuracy": 0.75}) if records is None else records
    )
    return RunResult(
        spec=spec(method or UseAID(), seed),
        state=state,
        seconds=61.0,
        reason=reason,
        records=tuple(records),
        device="cpu",
        **more,
    )


RESULTS = Results(
    (
        run(seed=0),
        run(seed=1),
        run(
            Vanilla(),
            seed=0,
            state="diverged",
            reason="the loss became nan in epoch 3 of stage 1.",
            records=({"stage": 0, "train_accuracy": 0.5},),
        ),
        run(Vanilla(), seed=1, state="waiting", records=()),
    )
)
