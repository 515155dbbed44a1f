"""Words about the runs that a report rests on: where they come from, how they stand, what is missing or odd."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from supple_lab.precision import Numerics
from supple_lab.results.results import Results, RunResult, Standing, dataset_of
from supple_lab.results.select import distinctions
from supple_lab.run.recorder import NOT_CAPTURED

PACKAGES = ("supple", "torch")  # whose versions decide a run's numbers
MAX_NAMED = 5  # of a kind; the rest is counted
STATES: dict[Standing, str] = {  # what a reader calls them
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


def remarks(results: Results, *, versions: Mapping[str, str]) -> list[str]:
    """Sentences that a reader must not miss. Ask after the drawing, which reads the logs of epochs."""
    eager = Counter(str(reason) for run in results.runs if (reason := run.facts.get("not_captured")))
    return [
        *_damaged(results.runs),
        *_without_epochs(results.runs),
        *listed([f"In {counted(n)} {NOT_CAPTURED.format(why)}" for why, n in eager.most_common()], "reasons"),
        *(remark for package in PACKAGES for remark in _other_versions(results.runs, package, versions.get(package))),
    ]


def _damaged(runs: Sequence[RunResult]) -> Iterator[str]:
    if number := sum(run.state == "damaged" for run in runs):
        yield (
            f"Damaged: {counted(number)}. What lies in the folder is not what was written, and counts for nothing "
            "here. The command that made the runs sets the damage aside and runs them again."
        )


def _without_epochs(runs: Sequence[RunResult]) -> Iterator[str]:
    found: dict[str, list[str]] = {}
    for run in runs:
        for said in run.complaints:
            found.setdefault(said, []).append(run.spec.run_id)
    for said, names in found.items():
        more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        yield f"Left out of all that is drawn over epochs: {', '.join(names[:MAX_NAMED])}{more}, whose {said}"


def _other_versions(runs: Sequence[RunResult], package: str, own: str | None) -> Iterator[str]:
    found = Counter(version for run in runs if (version := version_of(run, package)))
    if not set(found) <= {own} and (own is not None or len(found) > 1):
        mixed = "different versions" if len(found) > 1 else "another version"
        report = f" This report was made with {own}." if own else ""
        each = ", ".join(f"{name} ({counted(number)})" for name, number in found.most_common())
        yield f"The runs were made by {mixed} of {package}: {each}.{report}"


def version_of(run: RunResult, package: str) -> str:
    """The version of a package that the run names; empty if it names none."""
    versions = run.facts.get("versions")
    return str(versions.get(package, "")) if isinstance(versions, dict) else ""


def counted(number: int) -> str:
    return "1 run" if number == 1 else f"{number:,} runs"


def listed(words: Sequence[str], what: str) -> list[str]:
    """The first few, and how many more there are."""
    more = len(words) - MAX_NAMED
    return [*words[:MAX_NAMED], *([f"{more} more {what} of this kind."] if more > 0 else [])]


def origin_of(runs: Sequence[RunResult]) -> dict[str, str]:
    """Where the runs come from as they say themselves; empty if none does."""
    commits = Counter(str(run.facts["commit"]) for run in runs if run.facts.get("commit"))
    versions: dict[str, dict[str, None]] = {}
    for run in runs:
        named = run.facts.get("versions")
        for package, number in named.items() if isinstance(named, dict) else ():
            versions.setdefault(package, {})[str(number)] = None
    return {
        "runs trained on": _most_used(
            ": ".join(filter(None, (run.device, str(run.facts.get("hardware", ""))))) for run in runs if run.device
        ),
        "matrix products in": _most_used(ROUNDINGS.get(name := precision_of(run), name) for run in runs),
        "commit of the runs": (f"{len(commits)} different ones: " if len(commits) > 1 else "")
        + ", ".join(commit for commit, _ in commits.most_common()),
        "versions of the runs": ", ".join(f"{name} {' and '.join(numbers)}" for name, numbers in versions.items()),
    }


def _most_used(names: Iterable[str]) -> str:
    """The names, most used first; more than one are counted."""
    found = Counter(filter(None, names)).most_common()
    return "; ".join(f"{name}, {counted(number)}" if len(found) > 1 else name for name, number in found)


def precision_of(run: RunResult) -> str:
    """What the run's matrix products were rounded to; empty if neither it nor its device says so."""
    if named := run.facts.get("precision"):
        return str(named)
    if run.device or run.spec.precision != "default":  # runs of older versions do not say it
        device = torch.device("cuda" if run.device == "cuda" else "cpu")
        return Numerics.choose(device, run.spec.precision).precision
    return ""


def show_seconds(seconds: float) -> str:
    """A duration in the two largest units that matter."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def missing_words(results: Results) -> str:
    """How many runs did not finish, and how they stand; empty if all did."""
    found = Counter(run.state for run in results.missing)
    counts = ", ".join(f"{found[state]} {words}" for state, words in STATES.items() if found[state])
    return f"{len(results.missing)} of {counted(len(results.runs))} did not finish: {counts}." if counts else ""


def missing_groups(results: Results) -> list[View]:
    """Runs that are not done, together if they differ in nothing but the seed."""
    groups: dict[tuple[tuple[str, str], ...], list[int]] = {}
    settings = distinctions(results)
    for run in results.missing:
        words = {
            "method": run.called,
            "settings": settings[run.spec.run_id],
            "place": f", {run.condition}" if run.condition else f" on {dataset_of(run.spec)}",
            "state": STATES[run.state],
            "reason": run.reason,
        }
        groups.setdefault(tuple(words.items()), []).append(run.spec.seed)
    return [
        {**dict(words), "seeds": ", ".join(map(str, sorted(set(seeds)))), "num_runs": len(seeds)}
        for words, seeds in groups.items()
    ]
