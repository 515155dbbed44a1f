"""Selection of hyperparameters, and the settings that set a run apart from others of its method, in words."""

import dataclasses
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from supple_lab.results.results import Results
from supple_lab.spec import RunSpec, encode

Settings = dict[str, object]


def distinctions(results: Results) -> dict[str, str]:
    """What sets each run apart from others of its method under the same condition, by its id."""
    groups: dict[Hashable, list[RunSpec]] = {}
    for run in results.runs:
        groups.setdefault((run.condition, run.spec.method.name), []).append(run.spec)
    found: dict[str, str] = {}
    for specs in groups.values():
        different = {_configuration(spec): spec for spec in specs}  # few: encoding every run's takes time
        words = dict(zip(different, _distinctions([settings_of(spec) for spec in different.values()]), strict=True))
        found |= {spec.run_id: words[_configuration(spec)] for spec in specs}
    return found


def _configuration(spec: RunSpec) -> Hashable:
    return spec.method, spec.optimizer, spec.precision


def _distinctions(every: Sequence[Settings]) -> list[str]:
    """Of each configuration, the settings in which they differ."""
    names = dict.fromkeys(name for settings in every for name in settings)
    differing = [name for name in names if any(other.get(name) != every[0].get(name) for other in every)]
    shown = {name: name.removesuffix(".kind").rpartition(".")[2] for name in differing}  # a part by its own name
    return [", ".join(setting_in_words(shown[name], own[name]) for name in differing if name in own) for own in every]


Rule = Literal["final", "stage_mean"]
REPORTED_SEEDS = "the very seeds reported"  # in a note: what was selected there looks better than it is
RULES: dict[Rule, str] = {"final": "the last stage", "stage_mean": "the mean over stages"}


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What was chosen, from how many, by what, and whether the reported seeds had a say in it."""

    chosen: Results  # the runs to report; none if no configuration has a finished run
    settings: str  # those of the chosen configuration that set it apart
    score: float
    num_configurations: int
    num_compared: int  # fewer if some have not run as many seeds as others
    rule: Rule
    metric: str
    seeds: tuple[int, ...]  # that chose, and are reported

    def words(self) -> str:
        """The selection in a sentence, for the notes of a page."""
        of = "1 configuration" if self.num_compared == 1 else f"{self.num_compared} configurations"
        left = self.num_configurations - self.num_compared
        have, were = ("has", "was") if left == 1 else ("have", "were")
        unready = f" ({left} more {have} fewer finished runs and {were} not compared)" if left else ""
        return (
            f"{self.settings or 'no configuration'}: the best of {of}{unready} by "
            f"{in_words(self.metric)} at {RULES[self.rule]}, selected on {REPORTED_SEEDS} (n = {len(self.seeds)})."
        )


def select(results: Results, metric: str, *, rule: Rule = "final") -> Selection:
    """The best configuration of one method on one problem, by the very seeds that are reported.

    Only the configurations with the most ended runs are compared; one with a diverged run comes last.
    """
    configurations = list(results.group_by(_configuration).values())
    most = max((len(runs.ended) for runs in configurations), default=0)
    scores = {i: _score(runs, metric, rule) for i, runs in enumerate(configurations) if len(runs.ended) == most > 0}
    best = max(scores, key=lambda place: scores[place]) if scores else None
    settings = _distinctions([settings_of(runs.runs[0].spec) for runs in configurations])
    return Selection(
        chosen=configurations[best] if best is not None else Results(()),
        settings=settings[best] if best is not None else "",
        score=scores[best] if best is not None else math.nan,
        num_configurations=len(configurations),
        num_compared=len(scores),
        rule=rule,
        metric=metric,
        seeds=tuple(sorted({run.spec.seed for runs in configurations for run in runs.ended})),
    )


def _score(results: Results, metric: str, rule: Rule) -> float:
    mean = float(np.mean(results.final(metric) if rule == "final" else results.stage_mean(metric)))
    return mean if math.isfinite(mean) else -math.inf


def settings_of(spec: RunSpec) -> Settings:
    """All that a method is tuned by, flat: "method.relu_prob", "optimizer.learning_rate"."""
    fields = [field.name for field in dataclasses.fields(spec) if field.name not in ("seed", "problem", "model")]
    parts = {name: encode(getattr(spec, name)) for name in fields}
    return {
        f"{name}.{key}" if isinstance(part, dict) else name: value
        for name, part in parts.items()
        for key, value in (part.items() if isinstance(part, dict) else [("", part)])
    }


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
