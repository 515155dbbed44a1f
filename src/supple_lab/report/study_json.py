"""STUDY.json, and the sentences that a page and it share: what was run, where, and what is missing."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import torch

from supple_lab.precision import Numerics
from supple_lab.provenance import Provenance
from supple_lab.report.figure import StudyReport
from supple_lab.report.remarks import counted, version_of
from supple_lab.results.results import Results, RunResult, Standing, dataset_of
from supple_lab.results.select import distinctions


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


STATES: dict[Standing, str] = {  # in the order of a bar; what a reader calls them
    "done": "finished",
    "diverged": "diverged",
    "damaged": "damaged",
    "failed": "failed",
    "running": "running",
    "interrupted": "interrupted",
    "waiting": "not started",
}
ROUNDINGS = {"fp32": "float32 (fp32)", "tf32": "TensorFloat-32 (tf32)", "bf16": "bfloat16 under autocast (bf16)"}
View = dict[str, Any]


def show_seconds(seconds: float) -> str:
    """A duration in the two largest units that matter."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def run_view(run: RunResult, settings: str) -> View:
    """A row of the list of runs."""
    return {
        "id": run.spec.run_id,
        "method": run.called,
        "settings": settings,
        "condition": run.condition,
        "dataset": dataset_of(run.spec),
        "seed": run.spec.seed,
        "state": STATES[run.state],
        "time": show_seconds(run.seconds),
        "version": version_of(run, "supple"),
    }


def short_of(results: Results) -> str:
    """How many runs are not there, in a clause."""
    missing, damaged = len(results.missing), sum(run.state == "damaged" for run in results.runs)
    number = f"{missing} of {counted(len(results.runs))}"
    if damaged and damaged == missing:
        return f"{number} {'is' if damaged == 1 else 'are'} damaged"
    return f"{number} did not finish{' or are damaged' if damaged else ''}"


def missing_words(results: Results) -> str:
    """How many runs are not there, and for what they count."""
    diverged = sum(run.state == "diverged" for run in results.runs)
    others = len(results.missing) - diverged
    it_has = "it counts up to there and has" if diverged == 1 else "they count up to there and have"
    lost = f"{diverged} diverged: {it_has} no value after: curves break there, claims on later stages stay undecided."
    alone, several = ("The other is", "The others are") if diverged else ("It is", "They are")
    left_out = (
        f"{alone if others == 1 else several} in no table or verdict above, and in a curve only where nothing of its "
        "method has ended yet."
    )
    return " ".join((f"{short_of(results)}.", *([lost] if diverged else []), *([left_out] if others else [])))


def missing_groups(results: Results) -> list[View]:
    """Runs that are not done, together if they differ in nothing but the seed."""
    groups: dict[tuple[tuple[str, str], ...], list[RunResult]] = {}
    settings = distinctions(results)
    for run in results.missing:
        words = {
            "method": run.called,
            "settings": settings[run.spec.run_id],
            "place": f", {run.condition}" if run.condition else f" on {dataset_of(run.spec)}",
            "state": STATES[run.state],
            "reason": run.reason,
        }
        groups.setdefault(tuple(words.items()), []).append(run)
    return [
        {
            **dict(words),
            "seeds": ", ".join(map(str, sorted({run.spec.seed for run in members}))),
            "num_runs": len(members),
        }
        for words, members in groups.items()
    ]


def progress_bars(results: Results) -> list[View]:
    """How the runs of each method on each dataset stand, if not all are done."""
    bars = []
    for (_, dataset), group in results.group_by(lambda spec: (spec.method.name, dataset_of(spec))).items():
        counts = {state: sum(run.state == state for run in group.runs) for state in STATES}
        parts = [
            {"state": state, "percent": round(100 * number / len(group.runs), 2)}
            for state, number in counts.items()
            if number
        ]
        words = ", ".join(f"{number} {STATES[state]}" for state, number in counts.items() if number)
        if group.missing:
            bars.append({"name": f"{group.runs[0].called} on {dataset}", "parts": parts, "words": words})
    return bars


def trained_on(runs: Sequence[RunResult]) -> str:
    """The devices and the hardware that the runs name, most used first."""
    named = [(run.device, str(run.facts.get("hardware", ""))) for run in runs if run.device]
    places = Counter(": ".join(filter(None, place)) for place in named).most_common()
    return "; ".join(f"{place} ({counted(number)})" if len(places) > 1 else place for place, number in places)


def precision_of(run: RunResult) -> str:
    """What the run's matrix products were rounded to; empty if neither it nor its device tells."""
    if told := run.facts.get("precision"):
        return str(told)
    if run.device or run.spec.precision != "default":  # runs of older versions do not say it
        device = torch.device("cuda" if run.device == "cuda" else "cpu")
        return Numerics.choose(device, run.spec.precision).precision
    return ""


def precisions_of(runs: Sequence[RunResult]) -> str:
    """The precisions of the runs, most used first; more than one is counted."""
    found = Counter(precision for run in runs if (precision := precision_of(run))).most_common()
    counts = {name: f", {counted(number)}" if len(found) > 1 else "" for name, number in found}
    return "; ".join(f"{ROUNDINGS.get(name, name)}{count}" for name, count in counts.items())


def commits_of(runs: Sequence[RunResult]) -> str:
    """The commits that the runs name; more than one is said."""
    commits = Counter(str(run.facts["commit"]) for run in runs if run.facts.get("commit"))
    several = f"{len(commits)} different ones: " if len(commits) > 1 else ""
    return several + ", ".join(commit for commit, _ in commits.most_common())


def versions_of(runs: Sequence[RunResult]) -> str:
    """The versions that the runs name, by package; more than one of a package is said."""
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        versions = run.facts.get("versions")
        for package, number in versions.items() if isinstance(versions, dict) else ():
            found.setdefault(package, {})[str(number)] = None
    return ", ".join(f"{package} {' and '.join(numbers)}" for package, numbers in found.items())


Json = dict[str, Any]
STRICT = json.JSONEncoder(ensure_ascii=False, allow_nan=False)  # json.dumps makes one anew for each value


def study_json(info: ReportInfo, results: Results, *, report: StudyReport, provenance: Provenance) -> str:
    """The whole file as text: a line for each run, each run's points and each claim."""
    settings = distinctions(results)
    parts = {
        "study": encoded(info.study),
        "scale": encoded(info.scale),
        "command": encoded(info.command),
        "commit": encoded(provenance.commit),
        "versions": encoded(provenance.versions),
        "machine": encoded(provenance.machine),
        "notes": encoded([*info.notes, *report.notes]),
        "runs": lines(_run(run) for run in results.runs),
        "series": "[" + ",\n".join(points for points in map(_series, results.runs) if points) + "]",
        "claims": lines(asdict(claim) for claim in report.claims),
        "missing": lines(
            {**_identity(run), "settings": settings[run.spec.run_id], "reason": run.reason} for run in results.missing
        ),
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
    name = cache(encoded)
    return ", ".join(
        f'{head}{name(metric)}, "stage": {stage}, "value": {_rounded(value)}}}'
        for record in run.records
        for stage in [_number(record.get("stage"))]
        for metric, value in record.items()
        if metric != "stage"
    )


def _rounded(value: Any) -> str:
    """A point's value to six significant digits. (15 runs of 800 stages: 4.7 MB for 5.1, packed 0.32 for 0.48.)"""
    return f"{value:.6g}" if type(value) is float and math.isfinite(value) else _number(value)


def _number(value: Any) -> str:
    is_plain = type(value) is int or (type(value) is float and math.isfinite(value))
    return repr(value) if is_plain else encoded(value)
