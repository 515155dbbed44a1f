"""STUDY.json: a study's runs, numbers and verdicts for programs. Strict JSON: what is not a finite number is null."""

import json
import math
from dataclasses import asdict
from typing import Any

from supple_lab.report.about import About
from supple_lab.report.figure import ClaimRow
from supple_lab.report.provenance import Provenance
from supple_lab.report.results import Results, RunResult
from supple_lab.runs.problem import Supervised

Json = dict[str, Any]


def study_json(about: About, results: Results, *, claims: tuple[ClaimRow, ...], provenance: Provenance) -> str:
    """The whole file as text."""
    content = {
        "study": about.study,
        "scale": about.scale,
        "command": about.command,
        "commit": provenance.commit,
        "versions": provenance.versions,
        "machine": provenance.machine,
        "runs": [_run(run) for run in results.runs],
        "series": [point for run in results.runs for point in _series(run)],
        "claims": [asdict(claim) for claim in claims],
        "missing": [_missing(run) for run in results.missing],
    }
    return json.dumps(strict(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def dataset_of(run: RunResult) -> str:
    """The dataset's name; for a problem without one, the problem's."""
    problem = run.spec.problem
    return problem.dataset.name if isinstance(problem, Supervised) else problem.name


def strict(value: Any) -> Any:
    """The value with null in place of NaN and infinities, which JSON does not know."""
    if isinstance(value, dict):
        return {key: strict(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _run(run: RunResult) -> Json:
    return {**_identity(run), "spec": run.spec.to_dict()}


def _missing(run: RunResult) -> Json:
    return {**_identity(run), "reason": run.reason}


def _identity(run: RunResult) -> Json:
    return {
        "id": run.spec.run_id,
        "method": run.spec.method.name,
        "dataset": dataset_of(run),
        "seed": run.spec.seed,
        "status": run.state,
    }


def _series(run: RunResult) -> list[Json]:
    return [
        {"run": run.spec.run_id, "metric": metric, "stage": record.get("stage"), "value": value}
        for record in run.records
        for metric, value in record.items()
        if metric != "stage"
    ]
