"""The page of a study: one file, from the templates beside this one. All that is filled in is escaped."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from supple_lab.provenance import Provenance
from supple_lab.report.colours import DARK_PAGE, LIGHT_PAGE
from supple_lab.report.draw import cells
from supple_lab.report.figure import Figure, HeatMap, Panel, StudyReport, Verdict, legend_of
from supple_lab.report.panel_values import tip_of, values_of
from supple_lab.report.picture import inline_svg
from supple_lab.report.remarks import (
    STATES,
    missing_groups,
    missing_words,
    origin_of,
    remarks,
    show_seconds,
    version_of,
)
from supple_lab.report.study_json import ReportInfo, strict
from supple_lab.report.tables import ABSENT, caption_of, ends_of, minus, show_interval
from supple_lab.results.results import Results, dataset_of
from supple_lab.results.select import distinctions

MAX_POINTS = 6_000  # of all curves together, in each of which 9 have markers
MAX_ROWS = 500  # of a list of runs, about 300 bytes each; the JSON beside the page has them all
MAX_PARTS = 60  # of a claim, about 200 bytes each
LIMITS = {
    "max_rows": MAX_ROWS,
    "max_parts": MAX_PARTS,
    "max_ids": 100,  # of a claim's runs; the JSON has them all
    "max_open_notes": 3,  # more are folded away: a reader came for the figures
}
SCALE_NOTES = {
    "smoke": "smoke: not the paper's protocol: seconds long, to see that everything runs. "
    "Its numbers say nothing about the claims.",
    "quick": "quick: not the paper's protocol: smaller in data, networks, stages or seeds, "
    "to show the shape of the claims.",
}
VERDICT_SIGNS: dict[Verdict, str] = {"holds": "✓", "fails": "✕", "not decided": "≈", "not run": ABSENT}
FULL_WIDTH, COLUMN_GAP, PHONE_WIDTH = 960.0, 24.0, 358.0  # pixels, as page.css has them
COLOUR_BAR = 56.0  # pixels in height
View = dict[str, Any]


@cache
def template(name: str) -> Template:
    files = FileSystemLoader(Path(__file__).parent)
    made = Environment(loader=files, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.globals |= {**LIMITS, "light_page": LIGHT_PAGE, "dark_page": DARK_PAGE, "states": STATES}
    made.filters |= {
        "minus": minus,
        "interval": lambda interval: minus(show_interval(interval)),
        "ends": lambda cell: minus(" to ".join(ends_of(cell) or ())),
        "caption": caption_of,
        "sign": VERDICT_SIGNS.__getitem__,
        "kind": lambda verdict: verdict.replace(" ", "-"),  # the verdict's class, which decides its colour
        "dataset": dataset_of,
        "duration": show_seconds,
        "version": lambda run: version_of(run, "supple"),
    }
    return made.get_template(name)


def thinned(figures: Sequence[Figure]) -> list[Figure]:
    """The figures with at most MAX_POINTS in all, evenly left out."""
    curves = [len(curve.x) for one in figures for panel in one.panels for curve in getattr(panel, "curves", ())]
    step = max(1, math.ceil(sum(curves) / MAX_POINTS))
    return list(figures) if step == 1 else [_every(step, figure) for figure in figures]


def _every(step: int, figure: Figure) -> Figure:
    if not any(isinstance(panel, Panel) for panel in figure.panels):
        return figure
    panels = (
        replace(panel, curves=tuple(curve.every(step) for curve in panel.curves)) if isinstance(panel, Panel) else panel
        for panel in figure.panels
    )
    return replace(figure, caption=f"{figure.caption} (The page shows one point in {step}.)", panels=tuple(panels))


def page(info: ReportInfo, results: Results, *, report: StudyReport, provenance: Provenance) -> str:
    missing = missing_groups(results)
    figures = [_figure_view(figure) for figure in thinned(report.figures)]
    return template("page.html").render(
        info=info,
        banner=SCALE_NOTES.get(info.scale, "") if results.runs else "",
        notes=(*info.notes, *report.notes),
        remarks=remarks(results, versions=provenance.versions),
        facts=facts(info, results),
        claims=report.claims,
        tables=report.tables,
        missing=missing[:MAX_ROWS],
        num_more_missing=max(0, len(missing) - MAX_ROWS),
        missing_words=missing_words(results),
        runs=results.runs[:MAX_ROWS],
        num_runs=len(results.runs),
        settings=distinctions(results),
        provenance=_provenance_view(results, provenance),
        command=info.command.split(" "),
        figures=figures,
        data=strict([[panel["data"] for panel in view["panels"]] for view in figures]),
    )


def facts(info: ReportInfo, results: Results) -> list[tuple[str, str]]:
    """What a reader wants to know before looking: scale, seeds, runs, time."""
    if not results.runs:
        return [("scale", info.scale), ("runs", "none: nothing is trained")]
    ordered, ran = ({run.spec.seed for run in runs} for runs in (results.runs, results.ended))
    return [
        ("scale", info.scale),
        ("seeds", str(len(ran)) if ran == ordered else f"{len(ran)} of {len(ordered)}"),
        ("runs finished", f"{len(results.finished)} of {len(results.runs)}"),
        ("time spent", show_seconds(sum(run.seconds for run in results.runs))),
    ]


def _figure_view(figure: Figure) -> View:
    columns = max(1, min(figure.columns, len(figure.panels)))
    return {
        "figure": figure,
        "legend": [{"label": label, "look": look} for (_, label), look in legend_of(figure).items()],
        "has_lines": any(isinstance(panel, Panel) for panel in figure.panels),
        "panels": [_panel_view(figure, place, columns) for place in range(len(figure.panels))],
        "columns": columns,
    }


def _panel_view(figure: Figure, place: int, columns: int) -> View:
    """The panel drawn for a desktop and for a phone, so that letters keep their size; once if both are as wide."""
    panel, looks = figure.panels[place], legend_of(figure)
    wide = (FULL_WIDTH - COLUMN_GAP * (columns - 1)) / columns
    alike = 0.8 < PHONE_WIDTH / wide < 1.25
    widths = {"": math.sqrt(wide * PHONE_WIDTH)} if alike else {"wide": wide, "narrow": PHONE_WIDTH}
    tips = [tip_of(panel, cell) for cell in cells(panel)] if isinstance(panel, HeatMap) else ()
    drawn = {}
    for use, width in widths.items():
        height = 272.0 if len(figure.panels) > 1 else 460.0 if width > PHONE_WIDTH else 310.0
        height = (height + COLOUR_BAR * isinstance(panel, HeatMap)) * (width / wide if alike else 1.0)
        salt = f"{figure.name} {place} {use}"
        drawn[use] = inline_svg(panel, looks, pixels=(width, height), salt=salt, tips=tips)
    first = next(iter(drawn.values()))
    values = values_of(panel, looks, x_range=first.x_range, y_range=first.y_range)
    return {
        "panel": panel,
        "x_label": "" if isinstance(panel, HeatMap) else panel.x_label,  # drawn above its colour bar
        "drawn": drawn,
        "summary": values.summary,
        "numbers": values.numbers,
        "data": {**values.data, "boxes": [svg.box for svg in drawn.values()]},
    }


def _provenance_view(results: Results, provenance: Provenance) -> list[tuple[str, str]]:
    """Where the runs come from as they say themselves, and where the report does."""
    machine, origin = provenance.machine, origin_of(results.runs)
    if results.runs and not origin["runs trained on"]:
        origin["runs trained on"] = ABSENT
    gpus = machine.get("gpus")
    hardware = [f"{machine.get('cpu')}", f"{machine.get('cores')} cores"]
    hardware += [f"{machine['memory_gib']} GiB"] if "memory_gib" in machine else []
    made_on = [*hardware, *(gpus if isinstance(gpus, list) else []), f"{machine.get('system')}"]
    return [
        *((term, value) for term, value in origin.items() if value),
        ("commit", provenance.commit or "not known (installed without its repository)"),
        ("versions", ", ".join(f"{name} {number}" for name, number in provenance.versions.items())),
        ("report made on", ", ".join(made_on)),
    ]
