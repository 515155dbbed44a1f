"""Makes published reports again from their own runs, for instance after a rule has changed.

    python tools/remake_report.py supervised trainability

Runs that the study would not order today, because their method has changed since, count as not run. A report has no
logs of epochs: panels that need them are drawn again from the numbers in the published page.
"""

import json
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
from publish_report import RESULTS, bring, publish
from store_from_report import read_report, store_from_reports

from supple_lab import registry
from supple_lab.commands.report import make_report
from supple_lab.paper.study import Study
from supple_lab.report.colours import LOOKS
from supple_lab.report.figure import NO_EPOCHS, AnyPanel, Line, Panel, StudyReport

FIGURE = re.compile(r'<figure id="(.*?)".*?</figure>', re.DOTALL)
ENTRY = re.compile(r"<button [^>]*--ink-light:(#\w+)[^>]*>.*?</svg>(.*?)</button>", re.DOTALL)
PANEL = re.compile(r'<h2>(.*?)</h2>\s*<p class="y-label">(.*?)</p>')
DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)
NO_LOGS = re.compile(r'(<p class="notice remark">)[^<>]*epochs\.jsonl is not there[^<]*')
INSTEAD = r"\1What is drawn over epochs comes from logs that are not part of this report."
Place = tuple[str, str, str]  # of a panel: the figure's name, its own title, and that of its vertical axis


def main() -> None:
    for name in sys.argv[1:]:
        remake(RESULTS / name)


def remake(results: Path) -> None:
    """Make the report in the folder again, from its own JSON and page."""
    study, page = registry.find(Study, results.name)(), results / f"{results.name}.html"
    known = dict(curves_in(page.read_text("utf-8")))
    draw = study.draw
    study.draw = lambda *given: with_curves(draw(*given), known)  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        store_from_reports([read_report(results / f"{study.name}.json")], out)
        bring(study.name, results, out)
        make_report(study, out)
        publish(out, study.name, results)
    page.write_text(NO_LOGS.sub(INSTEAD, page.read_text("utf-8")), "utf-8")


def curves_in(page: str) -> Iterator[tuple[Place, tuple[Line, ...]]]:
    """The curves of each panel of a page, from the numbers that it shows under the pointer."""
    (data,) = DATA.findall(page)
    for figure, panels in zip(FIGURE.finditer(page), json.loads(data), strict=True):
        legend = [(ink, unescape(label).strip()) for ink, label in ENTRY.findall(figure[0])]
        for (title, y_label), panel in zip(PANEL.findall(figure[0]), panels, strict=True):
            told = sorted(panel.get("curves", ()), key=lambda curve: curve["entry"])  # or the legend changes its order
            place = (unescape(figure[1]), unescape(title), unescape(y_label))
            yield place, tuple(curve_of(curve, *legend[curve["entry"]]) for curve in told)


def curve_of(told: dict[str, Any], ink: str, label: str) -> Line:
    """A curve as it was drawn; its colour says which method it is of."""
    names = ("x", "middle", "low", "high", "lower", "upper")
    numbers = {name: np.array(told[name], dtype=float) for name in names if name in told}
    nothing = np.full(len(numbers["x"]), np.nan)
    return Line(
        method=next(method for method, look in LOOKS.items() if look.light == ink),
        label=label,
        x=numbers["x"],
        middle=numbers["middle"],
        low=numbers.get("low", nothing),
        high=numbers.get("high", nothing),
        n=told["n"],
        statistic=told["line"],
        band_words=told["band"],
        resampled=np.array((numbers["lower"], numbers["upper"])) if "lower" in numbers else None,
    )


def with_curves(report: StudyReport, known: dict[Place, tuple[Line, ...]]) -> StudyReport:
    """The report with known curves in the panels that would be drawn from logs."""

    def filled(panel: AnyPanel, figure: str) -> AnyPanel:
        curves = known.get((figure, panel.title, panel.y_label), ())
        return replace(panel, curves=curves) if isinstance(panel, Panel) and panel.nothing == NO_EPOCHS else panel

    figures = (
        replace(figure, panels=tuple(filled(panel, figure.name) for panel in figure.panels))
        for figure in report.figures
    )
    return replace(report, figures=tuple(figures))


if __name__ == "__main__":
    main()
