"""MethodRuns: the runs of a condition by method, beside fresh vanilla networks, and the numbers that claims rest on.

How far a method ends below a fresh vanilla network decides the claims on trainability. The reference is a vanilla
network that starts afresh at each stage (full reset), with the seed, the optimizer and the learning rate of the block.
Kept and Lost (claims.py) say which distances count, the same for all methods, problems and accuracies. Not the first
tenth minus the last: that falls the less, the earlier a network collapses, and one that never learned falls not at all.

Stage k is a draw of one law that depends on (seed, k) alone (scenarios/base.py). So the reference needs no more than a
tenth of the stages, and if it was not run the first stage of the vanilla run of that seed stands in for it: a fresh
vanilla network too, one draw in place of many. The noise of that one draw is part of the interval over seeds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from supple.methods import FullReset
from supple.metrics.base import Metric
from supple_lab.paper.compare import label_of
from supple_lab.paper.study import Condition, StudyOptions
from supple_lab.paper.tables import EXPERIMENTS, Setting, best
from supple_lab.report.figure import NO_EPOCHS, NOTHING_YET
from supple_lab.results.results import Key, Results, RunResult, Sample
from supple_lab.results.select import Rule, select
from supple_lab.scenarios.base import Scenario
from supple_lab.spec import Supervised

NO_RUNS = Results(())


@dataclass(frozen=True)
class MethodRuns:
    """The runs of one condition by method, in the study's order, and what was selected how."""

    by_method: Mapping[str, Results] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    num_stages: int = 8  # of what was not run, any number that has four quarters
    stages: slice = field(default_factory=lambda: slice(None))  # that a claim is about
    metric: str = "test_accuracy"  # likewise
    references: Results = NO_RUNS  # fresh vanilla networks

    def of(self, method: str) -> Results:
        """The method's runs; none if it was not run."""
        return self.by_method.get(method, NO_RUNS)

    def called(self, **methods: str) -> "MethodRuns":
        """The same runs, those of some methods under other names, too."""
        return replace(self, by_method={**self.by_method, **{name: self.of(own) for name, own in methods.items()}})

    def by_quarter(self) -> "dict[str, MethodRuns]":
        parts = enumerate(quarters(self.num_stages), start=1)
        return {f"quarter {place}": replace(self, stages=part) for place, part in parts}

    def fresh(self, metric: str = "") -> Sample:
        """What a fresh vanilla network comes to, a number a seed: the reference's, or the vanilla run's first stage."""
        metric = metric or self.metric
        own, stand_in = self.references.stage_mean(metric), self.of("vanilla").first(metric)
        others = stand_in.of_seeds(set(stand_in.seeds) - set(own.seeds))
        values = np.concatenate((own.values, others.values))
        return Sample(values=values, seeds=own.seeds + others.seeds, runs=own.runs + others.runs)

    def end(self, method: str, metric: str = "") -> Sample:
        """The mean over the last tenth of the stages, a number a run that ended."""
        return ends(self.of(method), metric or self.metric)

    def mean(self, method: str, metric: str = "") -> Sample:
        """The mean over the stages that a claim is about, a number a run that ended."""
        return self.of(method).stage_mean(metric or self.metric, self.stages)

    def stage_mean(self, method: str) -> Sample:
        return self.of(method).stage_mean(self.metric)

    def below(self, method: str) -> Sample:
        """How far a method ends below a fresh vanilla network, seed by seed."""
        return self.fresh().minus(self.end(method))


Groups = Mapping[str, MethodRuns]  # by network, problem or game, as it is called


def chosen(
    results: Results,
    condition: Condition,
    *,
    order: StudyOptions,
    metric: str,
    rule: Rule,
    key: Key = lambda spec: spec.method.name,
) -> MethodRuns:
    """What to report of a condition: everything, or the best of each method's search; the key says what a method is."""
    by_method: dict[str, Results] = condition.of(results, order).group_by(key)
    scenario = getattr(condition.problem, "scenario", None)
    found = MethodRuns(by_method, num_stages=scenario.num_stages if isinstance(scenario, Scenario) else 1)
    if not order.search:
        return found
    selections = {name: select(runs, metric, rule=rule) for name, runs in by_method.items()}
    notes = tuple(
        f"{condition.label}, {label_of(name)}: {selection.words()}"
        for name, selection in selections.items()
        if selection.num_configurations > 1
    )
    return replace(found, by_method={name: selection.chosen for name, selection in selections.items()}, notes=notes)


def selection_notes(*groups: Groups) -> tuple[str, ...]:
    return tuple(note for group in groups for one in group.values() for note in one.notes)


def methods_of(groups: Groups) -> list[str]:
    return list(dict.fromkeys(name for group in groups.values() for name in group.by_method))


def of_the_paper(groups: Groups, experiment: str) -> dict[str, MethodRuns]:
    """The methods of the experiment's table alone: what an order adds is drawn, but decides no claim of the paper."""
    names = {setting.method.name for case in EXPERIMENTS[experiment].best for setting in best(experiment, case)}
    return {
        label: replace(group, by_method={name: runs for name, runs in group.by_method.items() if name in names})
        for label, group in groups.items()
    }


def method_by_method(groups: Groups, *methods: str, name: str, role: str = "each") -> dict[str, MethodRuns]:
    """Each of the methods in each group, for a rule that calls it by its role; name has {method} and {group}."""
    return {
        name.format(method=label_of(method), group=label): group.called(**{role: method})
        for label, group in groups.items()
        for method in methods
    }


def in_quarters(groups: Groups, *, measured: str = "") -> dict[str, MethodRuns]:
    """The runs of each group for each quarter of its stages, or of those at which AID's metric was measured."""

    def parts(group: MethodRuns) -> dict[str, MethodRuns]:
        number = (len(group.of("aid").stages(measured)) or 4) if measured else group.num_stages
        return replace(group, num_stages=number).by_quarter()

    return {f"{label} ({quarter})": part for label, group in groups.items() for quarter, part in parts(group).items()}


def quarters(num_stages: int, *, start: int = 0) -> list[slice]:
    """The stages from the start on in four parts; fewer if there are fewer stages."""
    parts = [part for part in np.array_split(np.arange(start, num_stages), 4) if len(part)]
    return [slice(int(part[0]), int(part[-1]) + 1) for part in parts]


def nothing_over_epochs(*groups: MethodRuns) -> str:
    """What a panel over epochs says if it has no curves: nothing is finished, or what is has no log of epochs."""
    finished = any(runs.finished for group in groups for runs in group.by_method.values())
    return NO_EPOCHS if finished else NOTHING_YET


def ends(results: Results, metric: str) -> Sample:
    """The mean over the last tenth of the stages, one at least, a number a run that ended."""

    def last_tenth(run: RunResult) -> float:
        values = run.values(metric)
        return float(values[-tenth(len(values)) :].mean()) if len(values) else float("nan")

    return results.sample(last_tenth)


def tenth(number: int) -> int:
    """How many stages are a tenth, one at least."""
    return max(1, round(number / 10))


def reference(condition: Condition, order: StudyOptions, *, metrics: tuple[Metric, ...] = ()) -> Condition:
    """A vanilla network that starts afresh at each stage, for a tenth of the condition's stages."""
    problem = condition.problem
    assert isinstance(problem, Supervised)
    optimizer = next(row.optimizer for row in condition.rows(order) if row.method.name == "vanilla")
    scenario = replace(problem.scenario, num_stages=tenth(problem.scenario.num_stages))  # type: ignore[type-var]
    return replace(
        condition,
        label=f"{condition.label}, fresh reference",
        problem=Supervised(scenario=scenario, dataset=problem.dataset, metrics=metrics),
        given=(Setting(FullReset(), optimizer),),
    )


def stand_in_notes(groups: Groups) -> tuple[str, ...]:
    """Where the first stage of a vanilla run stands in for a reference run, for the page."""

    def seeds_of(results: Results) -> set[int]:
        return {run.spec.seed for run in results.ended}

    missing = {name: seeds_of(group.of("vanilla")) - seeds_of(group.references) for name, group in groups.items()}
    found = [f"{name}, seed {', '.join(map(str, sorted(seeds)))}" for name, seeds in missing.items() if seeds]
    words = "No fresh reference run, so the first stage of the vanilla run stands in for it"
    return (f"{words}: {'; '.join(found)}.",) if found else ()
