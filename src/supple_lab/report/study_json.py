"""STUDY.json: a study's runs, numbers and verdicts for programs. Strict JSON: what is not a finite number is null."""

import json
import math
from collections.abc import Iterable
from dataclasses import asdict
from functools import cache
from typing import Any

from supple_lab.provenance import Provenance
from supple_lab.report.about import About
from supple_lab.report.distinctions import distinctions
from supple_lab.report.figure import Drawing
from supple_lab.report.results import Results, RunResult
from supple_lab.report.run_lists import precision_of
from supple_lab.report.spec_fields import dataset_of

Json = dict[str, Any]
STRICT = json.JSONEncoder(ensure_ascii=False, allow_nan=False)  # json.dumps makes one anew for each value


def study_json(about: About, results: Results, *, drawing: Drawing, provenance: Provenance) -> str:
    """The whole file as text: a line for each run, each run's points and each claim."""
    settings = distinctions(results)
    parts = {
        "study": encoded(about.study),
        "scale": encoded(about.scale),
        "command": encoded(about.command),
        "commit": encoded(provenance.commit),
        "versions": encoded(provenance.versions),
        "machine": encoded(provenance.machine),
        "notes": encoded([*about.notes, *drawing.notes]),
        "runs": lines(_run(run) for run in results.runs),
        "series": "[" + ",\n".join(points for points in map(_series, results.runs) if points) + "]",
        "claims": lines(asdict(claim) for claim in drawing.claims),
        "missing": lines(_missing(run, settings[run.spec.run_id]) for run in results.missing),
    }
    return "{\n" + ",\n".join(f'"{name}": {text}' for name, text in parts.items()) + "\n}\n"


def lines(items: Iterable[Json]) -> str:
    """A list with an item a line. (json.dumps can indent, too, but only its slow encoder does.)"""
    return "[" + ",\n".join(encoded(item) for item in items) + "]"


def encoded(value: Any) -> str:
    """The value as strict JSON."""
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


def _run(run: RunResult) -> Json:
    return {
        **_identity(run),
        "spec": run.written or run.spec.to_dict(),
        "seconds": run.seconds,
        "device": run.device,
        **run.facts,
        "precision": precision_of(run),
    }


def _missing(run: RunResult, settings: str) -> Json:
    return {**_identity(run), "settings": settings, "reason": run.reason}


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
    """A run's points, one after the other. (Written by hand: over thousands of runs, half the encoder's time.)"""
    head = f'{{"run": "{run.spec.run_id}", "metric": '
    return ", ".join(
        f'{head}{_name(metric)}, "stage": {stage}, "value": {_rounded(value)}}}'
        for record in run.records
        for stage in [_number(record.get("stage"))]
        for metric, value in record.items()
        if metric != "stage"
    )


@cache
def _name(metric: str) -> str:
    return encoded(metric)


def _rounded(value: Any) -> str:
    """A point's value to six significant digits. (15 runs of 800 stages: 4.7 MB for 5.1, packed 0.32 for 0.48.)"""
    return f"{value:.6g}" if type(value) is float and math.isfinite(value) else _number(value)


def _number(value: Any) -> str:
    is_plain = type(value) is int or (type(value) is float and math.isfinite(value))
    return repr(value) if is_plain else encoded(value)
