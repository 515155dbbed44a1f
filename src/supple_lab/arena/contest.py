"""Contest: one entry on one problem, tuned by its draws on the tuning seed, then run on fresh seeds.

The rule of the choice, set before there were any runs: the draw with the highest mean score over the stages after the
first. A run that diverged or failed is worse than every other; of equal draws the first is chosen. All draws have the
same seed, so that they differ in their settings alone, and no seed of the score is among the tuning seeds.
"""

import heapq
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any, NamedTuple

from supple_lab.arena.entries import Entry, space_of
from supple_lab.arena.problems import ArenaProblem, Scale
from supple_lab.codec import encode
from supple_lab.run.network import methods_in
from supple_lab.spec import RunSpec
from supple_lab.store.lock import LockWatch, RunIsBusy
from supple_lab.store.reading import SETTLED, State, read_run
from supple_lab.store.store import Store
from supple_lab.sweep.executor import Executor
from supple_lab.sweep.sweep import Failure, error_of

TUNING_SEED = 1000
NUM_DIGITS = 4  # of published scores
WORST = -math.inf
SECONDS_BETWEEN_LOOKS = 1.0


class Budget(NamedTuple):
    num_draws: int
    num_seeds: int


BUDGETS: dict[Scale, Budget] = {"smoke": Budget(2, 2), "quick": Budget(12, 5), "full": Budget(12, 5)}


class ArenaRun(NamedTuple):
    """What one run came to."""

    id: str
    state: str
    score: tuple[float, ...]  # a stage each
    train: float | None  # accuracy on the training images, mean of the later stages; None in games
    seconds: float

    @property
    def tuning_score(self) -> float:
        """The mean after the first stage; equal means are equal numbers, whatever the order of their sums."""
        return round(fmean(self.score[1:]), 2 * NUM_DIGITS) if self.state == "done" else WORST

    @property
    def later_score(self) -> float:
        """The mean of the later half of the stages, by which entries are compared."""
        return fmean(self.score[len(self.score) // 2 :]) if self.state == "done" else WORST


@dataclass(frozen=True, kw_only=True)
class ContestResult:
    """As it is published, field by field."""

    problem: str
    entry: str
    settings: tuple[dict[str, Any], ...]  # of each draw
    chosen: int
    draws: tuple[ArenaRun, ...]
    seeds: tuple[ArenaRun, ...]


@dataclass(frozen=True)
class Contest:
    problem: ArenaProblem
    entry: Entry
    scale: Scale

    @cached_property
    def budget(self) -> Budget:
        return BUDGETS[self.scale]

    def spec(self, index: int, seed: int) -> RunSpec:
        problem, model = self.problem.tasks[self.scale]
        method, optimizer = self.entry.setting(self.problem.name, index, number=self.budget.num_draws)
        return RunSpec(problem=problem, model=model, method=method, optimizer=optimizer, seed=seed)

    @cached_property
    def draws(self) -> list[RunSpec]:
        return [self.spec(index, TUNING_SEED) for index in range(self.budget.num_draws)]

    def seeds(self, chosen: int) -> list[RunSpec]:
        return [self.spec(chosen, seed) for seed in range(self.budget.num_seeds)]

    def chosen(self, store: Store) -> int | None:
        """By the rule; None if no draw came to its end."""
        return choose([self.read(spec, store) for spec in self.draws])

    def came_to_nothing(self, store: Store) -> bool:
        """Whether all draws have ended, each by diverging or failing, so that none is chosen."""
        draws = [self.read(spec, store) for spec in self.draws]
        return all(run.state in SETTLED for run in draws) and choose(draws) is None

    def specs(self, store: Store) -> list[RunSpec]:
        """All its runs, as far as the choice is made."""
        chosen = self.chosen(store)
        return [*self.draws, *([] if chosen is None else self.seeds(chosen))]

    def read(self, spec: RunSpec, store: Store) -> ArenaRun:
        run = read_run(store.folder(spec).path)
        score = [record[self.problem.score] for record in run.records]
        train = [record["train_accuracy"] for record in run.records if "train_accuracy" in record]
        return ArenaRun(
            id=spec.run_id,
            state=run.state,
            score=tuple(round(value, NUM_DIGITS) for value in score),
            train=round(fmean(train[len(train) // 2 :]), NUM_DIGITS) if train else None,
            seconds=round(run.seconds, 2),
        )

    def result(self, store: Store) -> ContestResult | None:
        """None unless all its runs have come to an end."""
        draws = tuple(self.read(spec, store) for spec in self.draws)
        if any(run.state not in SETTLED for run in draws) or (chosen := choose(draws)) is None:
            return None
        seeds = tuple(self.read(spec, store) for spec in self.seeds(chosen))
        if any(run.state not in SETTLED for run in seeds):
            return None
        return ContestResult(
            problem=self.problem.name,
            entry=self.entry.name,
            settings=tuple(setting_of(spec) for spec in self.draws),
            draws=draws,
            chosen=chosen,
            seeds=seeds,
        )


def choose(draws: Sequence[ArenaRun]) -> int | None:
    """The draw that the rule chooses; None if none came to its end."""
    scores = [run.tuning_score for run in draws]
    return None if max(scores) == WORST else scores.index(max(scores))


def setting_of(spec: RunSpec) -> dict[str, Any]:
    drawn = [(method, name) for method in methods_in(spec.method) for name in space_of(type(method))]
    fields = {f"{method.name}.{name}": encode(getattr(method, name)) for method, name in drawn}
    return {"learning_rate": spec.optimizer.learning_rate, **fields}


def play(
    contests: Iterable[Contest],
    executor: Executor,
    *,
    note: Callable[[Contest], None] = lambda contest: None,
    until: float = math.inf,
) -> list[Failure]:
    """Bring the contests to their end in their order, as many runs at once as the executor has places.

    The seeds of a contest follow its last draw at once, before later contests: what is cut off leaves whole contests.
    Runs that have come to an end are not run again, those of other processes are waited for. What could not be run is
    returned with the reason. At ``until``, by time.monotonic, what is unfinished is left for a later call.
    """
    store, waiting, could_not = executor.store, deque(enumerate(contests)), list[Failure]()
    begun: dict[int, Contest] = {}
    left: Counter[int] = Counter()
    heap: list[tuple[int, int, RunSpec]] = []  # in the order of contests; draws and seeds are numbered on
    futures: dict[Future[State], tuple[int, int, RunSpec]] = {}
    elsewhere: list[tuple[tuple[int, int, RunSpec], LockWatch]] = []  # other processes are at work on them

    def add(place: int, specs: Sequence[RunSpec], *, first: int) -> None:
        left[place] = len(specs)
        for number, spec in enumerate(specs, first):
            heapq.heappush(heap, (place, number, spec))

    def end(place: int, *, seeds_too: bool) -> None:
        left[place] -= 1
        if left[place]:
            return
        contest = begun[place]
        chosen = None if seeds_too else contest.chosen(store)
        if chosen is None:
            note(begun.pop(place))
        else:
            add(place, contest.seeds(chosen), first=contest.budget.num_draws)

    with executor:
        while (heap or futures or waiting or elsewhere) and time.monotonic() < until:
            while len(futures) < 2 * executor.jobs and (heap or waiting):
                if not heap:
                    place, contest = waiting.popleft()
                    begun[place] = contest
                    add(place, contest.draws, first=0)
                place, number, spec = heapq.heappop(heap)
                if store.folder(spec).state() in executor.options.settled:
                    end(place, seeds_too=spec.seed != TUNING_SEED)
                else:
                    futures[executor.submit(spec)] = place, number, spec
            for future in wait(futures, timeout=SECONDS_BETWEEN_LOOKS, return_when=FIRST_COMPLETED).done:
                place, number, spec = futures.pop(future)
                if isinstance(error := error_of(future, store, spec), RunIsBusy):
                    elsewhere.append(((place, number, spec), LockWatch(store.folder(spec).path)))
                    continue
                if error is not None:
                    could_not.append(Failure(spec, str(error) or type(error).__name__))
                end(place, seeds_too=spec.seed != TUNING_SEED)
            for free in [one for one in elsewhere if one[1].broke()]:
                elsewhere.remove(free)
                heapq.heappush(heap, free[0])
            if elsewhere and not futures and not heap:
                time.sleep(SECONDS_BETWEEN_LOOKS)
    return could_not
