"""Distinctions: the settings by which a run differs from others of its method under the same condition, in words."""

import dataclasses
import json
import math
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from supple_lab.results.results import Results, RunResult
from supple_lab.spec import RunSpec, encode


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
        key: ", ".join(_setting(name, own[name]) for name in differing if name in own) for key, own in settings.items()
    }
    return ((run.spec.run_id, words[_configuration(run.spec)]) for run in runs)


def _configuration(spec: RunSpec) -> Hashable:
    return spec.method, spec.optimizer, spec.precision


def _setting(name: str, value: object) -> str:
    part, _, field = name.rpartition(".")
    return setting_in_words(part if field == "kind" else field or part, value)


Rule = Literal["final", "stage_mean"]
REPORTED_SEEDS = "the very seeds reported"  # in a note: what was selected there looks better than it is
RULES: dict[Rule, str] = {"final": "the last stage", "stage_mean": "the mean over stages"}


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What was chosen, from how many, by what, and whether the reported seeds had a say in it."""

    chosen: Results  # the runs to report; none where no configuration has a finished run
    settings: str  # those of the chosen configuration that set it apart
    score: float
    num_configurations: int
    num_compared: int  # fewer where some have not run as many seeds as others
    rule: Rule
    metric: str
    selection_seeds: tuple[int, ...]
    on_reported_seeds: bool

    def words(self) -> str:
        """The selection in a sentence, for the notes of a page."""
        if self.num_configurations < 2:
            return "one configuration was run; nothing was selected."
        held = REPORTED_SEEDS if self.on_reported_seeds else "other seeds than those reported"
        of = "1 configuration" if self.num_compared == 1 else f"{self.num_compared} configurations"
        left = self.num_configurations - self.num_compared
        have, were = ("has", "was") if left == 1 else ("have", "were")
        unready = f" ({left} more {have} fewer finished runs and {were} not compared)" if left else ""
        return (
            f"{self.settings or 'no configuration'}: the best of {of}{unready} by "
            f"{in_words(self.metric)} at {RULES[self.rule]}, selected on {held} (n = {len(self.selection_seeds)})."
        )


def select(
    results: Results, metric: str, *, rule: Rule = "final", selection_seeds: Collection[int] | None = None
) -> Selection:
    """The best configuration of one method on one problem.

    With selection_seeds, those seeds choose and all others are reported; without, all seeds do both. Only the
    configurations with the most ended runs are compared; one with a diverged run comes last.
    """
    configurations = _configurations(results)
    choosing = {
        name: runs if selection_seeds is None else runs.where(lambda spec: spec.seed in selection_seeds)
        for name, runs in configurations.items()
    }
    most = max((len(runs.ended) for runs in choosing.values()), default=0)
    scores = {name: _score(runs, metric, rule) for name, runs in choosing.items() if len(runs.ended) == most > 0}
    best = max(scores, key=lambda name: scores[name]) if scores else None
    chosen = configurations[best] if best is not None else Results(())
    reported = chosen if selection_seeds is None else chosen.where(lambda spec: spec.seed not in selection_seeds)
    return Selection(
        chosen=reported,
        settings=_distinction(best, list(configurations)) if best is not None else "",
        score=scores[best] if best is not None else math.nan,
        num_configurations=len(configurations),
        num_compared=len(scores),
        rule=rule,
        metric=metric,
        selection_seeds=tuple(sorted({run.spec.seed for runs in choosing.values() for run in runs.ended})),
        on_reported_seeds=selection_seeds is None,
    )


def _score(results: Results, metric: str, rule: Rule) -> float:
    mean = float(np.mean(results.final(metric) if rule == "final" else results.stage_mean(metric)))
    return mean if math.isfinite(mean) else -math.inf


def _configurations(results: Results) -> dict[str, Results]:
    """The runs by all of their spec but the seed."""
    kinds = {(spec.problem, spec.model, spec.method.name) for spec in (run.spec for run in results.runs)}
    if len(kinds) > 1:
        raise ValueError(
            "a selection is among configurations of one method on one problem with one model; "
            f"got {len(kinds)} such kinds. Narrow the results down with where() or group_by()."
        )
    alike = results.group_by(lambda spec: (spec.method, spec.optimizer, spec.precision))  # or each run's is encoded
    return {json.dumps(settings_of(runs.runs[0].spec), sort_keys=True): runs for runs in alike.values()}


def settings_of(spec: RunSpec) -> dict[str, object]:
    """All that a method is tuned by, flat: "method.relu_prob", "optimizer.learning_rate"."""
    fields = [field.name for field in dataclasses.fields(spec) if field.name not in ("seed", "problem", "model")]
    parts = {name: encode(getattr(spec, name)) for name in fields}
    return {
        f"{name}.{key}" if isinstance(part, dict) else name: value
        for name, part in parts.items()
        for key, value in (part.items() if isinstance(part, dict) else [("", part)])
    }


def _distinction(chosen: str, configurations: list[str]) -> str:
    """The chosen one's settings that differ between configurations."""
    ours, all_settings = json.loads(chosen), [json.loads(text) for text in configurations]
    differing = {name: value for name, value in ours.items() if any(other.get(name) != value for other in all_settings)}
    return ", ".join(setting_in_words(name.rpartition(".")[2], value) for name, value in differing.items())


def setting_in_words(name: str, value: Any) -> str:
    """A setting as a reader says it: a part by its kind and its fields, a switch by its name."""
    if isinstance(value, dict):
        fields = ", ".join(setting_in_words(inner, part) for inner, part in value.items() if inner != "kind")
        kind = in_words(str(value.get("kind", "")))
        return " ".join(part for part in (in_words(name), kind, f"({fields})" if fields else "") if part)
    if isinstance(value, list):
        return f"{in_words(name)} {' and '.join(map(str, value)) or 'none'}"
    if isinstance(value, bool) or value is None:
        return f"{'with' if value else 'without'} {in_words(name)}"
    return f"{in_words(name)} {in_words(value) if isinstance(value, str) else value}"


def in_words(name: str) -> str:
    """A field's name as words."""
    return name.replace("_", " ")
