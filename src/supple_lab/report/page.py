"""Page: a study on one self-contained HTML file. The curves are SVG in the page itself; a script adds the rest."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from supple_lab.report.about import About
from supple_lab.report.colours import DARK_PAGE, LIGHT_PAGE
from supple_lab.report.figure import ClaimRow, Curve, Drawing, Figure
from supple_lab.report.legend import legend_of
from supple_lab.report.provenance import Provenance
from supple_lab.report.results import Results, RunResult
from supple_lab.report.study_json import dataset_of, strict
from supple_lab.report.svg import PanelShape, panel_shape
from supple_lab.report.tables import ABSENT, show_interval

HERE = Path(__file__).parent
MAX_POINTS = 8_000  # of all curves together; a point takes about 90 bytes of the page, which may have 2 MB
MAX_ROWS = 1_000  # of a list of runs, about 250 bytes each; the JSON beside the page has them all
SCALE_NOTES = {
    "smoke": "Smoke scale: seconds long, to see that everything runs. Its numbers say nothing about the claims.",
    "quick": "Quick scale: smaller than the paper's own protocol, to show the shape of the claim.",
}
VERDICT_SIGNS = {"holds": "✓", "fails": "✕", "not decided": "≈", "not run": ABSENT}


def page(about: About, results: Results, *, drawing: Drawing, provenance: Provenance) -> str:
    """The whole file as text."""
    figures = [_figure_view(figure) for figure in thinned(drawing.figures)]
    return _template().render(
        about=about,
        note=SCALE_NOTES.get(about.scale, ""),
        facts=facts(about, results),
        figures=figures,
        claims=[_claim_view(row) for row in drawing.claims],
        tables=drawing.tables,
        missing=missing_groups(results.missing)[:MAX_ROWS],
        num_missing=len(results.missing),
        runs=[_run_view(run) for run in results.runs[:MAX_ROWS]],
        num_runs=len(results.runs),
        provenance=_provenance_view(about, results, provenance),
        data=_plain_data(figures),
        light_page=LIGHT_PAGE,
        dark_page=DARK_PAGE,
    )


@cache
def _template() -> Template:
    loader = FileSystemLoader(HERE)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html")


def thinned(figures: Sequence[Figure]) -> list[Figure]:
    """The figures with at most so many points in all, evenly left out; pictures and JSON keep every point."""
    curves = [curve for figure in figures for panel in figure.panels for curve in panel.curves]
    num_points = sum(len(curve.x) for curve in curves)
    step = max(1, math.ceil(num_points / MAX_POINTS))
    return list(figures) if step == 1 else [_every(step, figure) for figure in figures]


def _every(step: int, figure: Figure) -> Figure:
    panels = (
        replace(panel, curves=tuple(_every_point(step, curve) for curve in panel.curves)) for panel in figure.panels
    )
    caption = f"{figure.caption} (The page shows one point in {step}.)"
    return replace(figure, caption=caption, panels=tuple(panels))


def _every_point(step: int, curve: Curve) -> Curve:
    kept = slice((len(curve.x) - 1) % step, None, step)  # the last point is always among them
    return replace(curve, x=curve.x[kept], values=curve.values[:, kept])


def facts(about: About, results: Results) -> list[tuple[str, str]]:
    """What a reader wants to know before looking: scale, seeds, runs, time."""
    num_seeds = len({run.spec.seed for run in results.runs})
    return [
        ("scale", about.scale),
        ("seeds", str(num_seeds)),
        ("runs finished", f"{len(results.finished)} of {len(results.runs)}"),
        ("time spent", show_seconds(sum(run.seconds for run in results.runs))),
    ]


def show_seconds(seconds: float) -> str:
    """A duration in the two largest units that matter."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def missing_groups(runs: Sequence[RunResult]) -> list[dict[str, Any]]:
    """Runs that are not done, together where method, dataset, state and reason agree."""
    groups: dict[tuple[str, ...], list[RunResult]] = {}
    for run in runs:
        groups.setdefault((run.spec.method.name, dataset_of(run), run.state, run.reason), []).append(run)
    return [
        {
            "method": method,
            "dataset": dataset,
            "state": "not started" if state == "waiting" else state,
            "reason": reason,
            "seeds": ", ".join(str(seed) for seed in sorted({run.spec.seed for run in members})),
            "num_runs": len(members),
        }
        for (method, dataset, state, reason), members in groups.items()
    ]


def _figure_view(figure: Figure) -> dict[str, Any]:
    looks = legend_of(figure)
    return {
        "figure": figure,
        "legend": [{"label": label, "look": look} for (_, label), look in looks.items()],
        "panels": [panel_shape(panel, looks) for panel in figure.panels],
    }


def _claim_view(row: ClaimRow) -> dict[str, Any]:
    kind = row.verdict.replace(" ", "-")
    return {"row": row, "interval": show_interval(row.interval), "sign": VERDICT_SIGNS[row.verdict], "kind": kind}


def _run_view(run: RunResult) -> dict[str, Any]:
    return {
        "id": run.spec.run_id,
        "method": run.spec.method.name,
        "dataset": dataset_of(run),
        "seed": run.spec.seed,
        "state": run.state,
        "time": show_seconds(run.seconds),
    }


def _provenance_view(about: About, results: Results, provenance: Provenance) -> list[tuple[str, str]]:
    machine = provenance.machine
    gpus = machine.get("gpus")
    hardware = [f"{machine.get('cpu')}", f"{machine.get('cores')} cores", f"{machine.get('memory_gib')} GiB"]
    devices = sorted({run.device for run in results.runs if run.device})
    return [
        ("runs trained on", ", ".join(devices) or ABSENT),
        ("commit", provenance.commit or "not known (installed without its repository)"),
        ("versions", ", ".join(f"{name} {number}" for name, number in provenance.versions.items())),
        (
            "report made on",
            ", ".join([*hardware, *(gpus if isinstance(gpus, list) else []), f"{machine.get('system')}"]),
        ),
    ]


def _plain_data(figures: list[dict[str, Any]]) -> Any:
    return strict([[_panel_data(shape) for shape in figure["panels"]] for figure in figures])


def _panel_data(shape: PanelShape) -> dict[str, Any]:
    digits = shape.axes.decimals + 1
    return {
        "heading": shape.panel.x_label.partition(" (")[0],
        "decimals": shape.axes.decimals,
        "range": shape.axes.x_range,
        "curves": [
            {
                "entry": curve_shape.entry,
                "seeds": len(curve_shape.curve.values),
                "x": curve_shape.curve.x.tolist(),
                "mean": curve_shape.curve.mean.round(digits).tolist(),
                "low": curve_shape.curve.low.round(digits).tolist(),
                "high": curve_shape.curve.high.round(digits).tolist(),
            }
            for curve_shape in shape.curves
        ],
    }
