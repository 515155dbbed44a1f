"""Remarks: what is odd about the runs that a report rests on, in sentences a reader must not miss."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from supple_lab.results.results import Results, RunResult
from supple_lab.run.recorder import NOT_CAPTURED

PACKAGES = ("supple", "torch")  # whose versions decide a run's numbers
MAX_NAMED = 5  # of a kind; the rest is counted


def remarks(results: Results, *, versions: Mapping[str, str]) -> list[str]:
    """Damaged runs and logs, folders that count for nothing, runs not captured, other versions and different commits.

    To be asked after the drawing, which reads the logs of epochs.
    """
    return [
        *_damaged(results.runs),
        *_without_epochs(results.runs),
        *listed([run.words() for run in results.misplaced], "folders of the store"),
        *_not_captured(results.runs),
        *(remark for package in PACKAGES for remark in _other_versions(results.runs, package, versions.get(package))),
        *_other_commits(results.runs),
    ]


def _damaged(runs: Sequence[RunResult]) -> Iterator[str]:
    damaged = [run for run in runs if run.state == "damaged"]
    if damaged:
        alone = len(damaged) == 1
        are = "1 run is damaged and counts" if alone else f"{len(damaged)} runs are damaged and count"
        yield (
            f"{are} for nothing here: what lies in the folder is not what was written. "
            f"The command that made the runs sets the damage aside and runs {'it' if alone else 'them'} again."
        )


def _without_epochs(runs: Sequence[RunResult]) -> Iterator[str]:
    found: dict[str, list[str]] = {}
    for run in runs:
        for said in run.complaints:
            found.setdefault(said, []).append(run.spec.run_id)
    for said, names in found.items():
        more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        who, its, it_is = ("Run", "its", "It is") if len(names) == 1 else ("Runs", "their", "They are")
        told = f"{who} {', '.join(names[:MAX_NAMED])}{more}: {its} {said}"
        yield f"{told} {it_is} left out of all that is drawn over epochs."


def _not_captured(runs: Sequence[RunResult]) -> list[str]:
    found = Counter(str(told) for run in runs if (told := run.facts.get("not_captured")))
    words = [f"In {counted(number)} {NOT_CAPTURED.format(told)}" for told, number in found.most_common()]
    return listed(words, "reasons")


def _other_versions(runs: Sequence[RunResult], package: str, own: str | None) -> Iterator[str]:
    found = Counter(version for run in runs if (version := version_of(run, package)))
    if set(found) <= {own} or (own is None and len(found) < 2):
        return
    told = ", ".join(f"{version} ({counted(number)})" for version, number in found.most_common())
    mixed = "different versions" if len(found) > 1 else "another version"
    report = f" This report was made with {own}." if own else ""
    yield f"The runs were made by {mixed} of {package}: {told}.{report}"


def _other_commits(runs: Sequence[RunResult]) -> Iterator[str]:
    found: dict[str, Counter[str]] = {}
    for run in runs:
        if commit := run.facts.get("commit"):
            found.setdefault(version_of(run, "supple"), Counter())[str(commit)] += 1
    for version, commits in found.items():
        if len(commits) > 1:
            told = ", ".join(f"{commit} ({counted(number)})" for commit, number in commits.most_common())
            named = f"supple {version}" if version else "supple"
            yield f"The runs were made by different commits of {named}: {told}."


def version_of(run: RunResult, package: str) -> str:
    """The version of a package that the run names; empty if it names none."""
    versions = run.facts.get("versions")
    return str(versions.get(package, "")) if isinstance(versions, dict) else ""


def counted(number: int) -> str:
    """So many runs, in words."""
    return "1 run" if number == 1 else f"{number:,} runs"


def listed(words: Sequence[str], what: str) -> list[str]:
    """The first few, and how many more there are."""
    more = len(words) - MAX_NAMED
    return [*words[:MAX_NAMED], *([f"{more} more {what} of this kind."] if more > 0 else [])]
