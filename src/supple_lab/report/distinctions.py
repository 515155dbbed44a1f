"""Distinctions: the settings by which a run differs from others of its method under the same condition, in words."""

from collections.abc import Hashable, Iterable

from supple_lab.report.results import Results, RunResult
from supple_lab.report.select import in_words, settings_of
from supple_lab.runs.spec import RunSpec


def distinctions(results: Results) -> dict[str, str]:
    """What sets each run apart, by its id; empty for one whose method has one configuration there."""
    groups: dict[Hashable, list[RunResult]] = {}
    for run in results.runs:
        groups.setdefault((run.condition, run.spec.method.name), []).append(run)
    return {name: words for runs in groups.values() for name, words in _within(runs)}


def _within(runs: list[RunResult]) -> Iterable[tuple[str, str]]:
    """Each run's id and words, among runs of one method under one condition."""
    specs = {_configuration(run.spec): run.spec for run in runs}  # few: encoding every run's takes time
    settings = {key: settings_of(spec) for key, spec in specs.items()}
    every, names = list(settings.values()), dict.fromkeys(name for own in settings.values() for name in own)
    differing = [name for name in names if any(own.get(name) != every[0].get(name) for own in every)]
    words = {
        key: ", ".join(_in_words(name, own[name]) for name in differing if name in own) for key, own in settings.items()
    }
    return ((run.spec.run_id, words[_configuration(run.spec)]) for run in runs)


def _configuration(spec: RunSpec) -> Hashable:
    return spec.method, spec.optimizer, spec.precision


def _in_words(name: str, value: object) -> str:
    part, _, field = name.rpartition(".")
    return in_words(part if field == "kind" else field or part, value)
