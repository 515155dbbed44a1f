"""STUDY.json: what was run, by what, and what came out. Its keys are a contract."""

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from supple_lab.provenance import Provenance
from supple_lab.report.figure import StudyReport
from supple_lab.report.remarks import precision_of
from supple_lab.results.results import Results, RunResult, dataset_of
from supple_lab.results.select import distinctions

Json = dict[str, Any]
STRICT = json.JSONEncoder(ensure_ascii=False, allow_nan=False)  # json.dumps makes one for each value


@dataclass(frozen=True, kw_only=True)
class ReportInfo:
    """Which study was run, at which scale, by which command."""

    study: str  # its name, also the stem of its page and its JSON file
    title: str
    question: str
    scale: str
    command: str  # typed again, it gives the same runs
    notes: tuple[str, ...] = ()  # what sets these runs apart from the paper's protocol

    def stem(self, name: str) -> str:
        """A figure's or table's file name without its ending: studies in one folder do not overwrite each other."""
        return name if name == self.study or name.startswith(f"{self.study}_") else f"{self.study}_{name}"


def study_json(info: ReportInfo, results: Results, *, report: StudyReport, provenance: Provenance) -> str:
    """The whole file as text: a line for each run, each run's points and each claim."""
    settings = distinctions(results)
    runs = [
        {
            **_identity(run),
            "spec": run.written or run.spec.to_dict(),
            "seconds": run.seconds,
            "device": run.device,
            **run.facts,
            "precision": precision_of(run),
        }
        for run in results.runs
    ]
    missing = [
        {**_identity(run), "settings": settings[run.spec.run_id], "reason": run.reason} for run in results.missing
    ]
    parts = {
        "study": encoded(info.study),
        "scale": encoded(info.scale),
        "command": encoded(info.command),
        "commit": encoded(provenance.commit),
        "versions": encoded(provenance.versions),
        "machine": encoded(provenance.machine),
        "notes": encoded([*info.notes, *report.notes]),
        "runs": _lines(map(encoded, runs)),
        "series": _lines(filter(None, map(_series, results.runs))),
        "claims": _lines(encoded(asdict(claim)) for claim in report.claims),
        "missing": _lines(map(encoded, missing)),
    }
    return "{\n" + ",\n".join(f'"{name}": {text}' for name, text in parts.items()) + "\n}\n"


def _lines(items: Iterable[str]) -> str:
    """A list with an item a line. (json.dumps can indent, too, but only its slow encoder does.)"""
    return "[" + ",\n".join(items) + "]"


def encoded(value: Any) -> str:
    try:
        return STRICT.encode(value)
    except ValueError:
        return STRICT.encode(strict(value))


def strict(value: Any) -> Any:
    """The value with null in place of NaN and infinities, which JSON does not know."""
    if isinstance(value, dict):
        return {key: strict(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _identity(run: RunResult) -> Json:
    return {
        "id": run.spec.run_id,
        "method": run.spec.method.name,
        "dataset": dataset_of(run.spec),
        "seed": run.spec.seed,
        "status": run.state,
        "condition": run.condition,
    }


def _series(run: RunResult) -> str:
    """A run's points, one after the other, to six significant digits, which packs a third smaller.

    (Written by hand: over thousands of runs, half the encoder's time.)
    """
    name = cache(encoded)
    return ", ".join(
        f'{{"run": "{run.spec.run_id}", "metric": {name(metric)}, "stage": {stage}, "value": {number}}}'
        for record in run.records
        for stage in [encoded(record.get("stage"))]
        for metric, value in record.items()
        if metric != "stage"
        for number in [f"{value:.6g}" if type(value) is float and math.isfinite(value) else encoded(value)]
    )
