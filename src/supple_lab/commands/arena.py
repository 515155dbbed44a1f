"""supple arena: methods on the same problems, tuned alike, and placed beside the published runs of the others."""

import math
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from supple.methods.base import Method
from supple_lab import registry
from supple_lab.arena.contest import BUDGETS, Contest, ContestResult, play
from supple_lab.arena.entries import BASELINE, REFERENCE, entries_of, every_entry, own_methods
from supple_lab.arena.page import page
from supple_lab.arena.problems import PROBLEMS, ArenaProblem, Scale
from supple_lab.arena.published import Board, made_here, published, seconds_by_problem, to_json
from supple_lab.arena.repeat import repeat
from supple_lab.arena.score import Cell, Standing, agreement, standings
from supple_lab.commands.base import DONE, BadUsage, Command, Device, check_device
from supple_lab.commands.messages import print_damage, print_failures, print_notes, print_older
from supple_lab.commands.report import MEANINGLESS
from supple_lab.commands.run import check_data
from supple_lab.commands.terminal import print_note, print_table
from supple_lab.data.files import use_folder
from supple_lab.files import atomic_write
from supple_lab.provenance import hardware_of
from supple_lab.run.check import check_suitable
from supple_lab.scenarios.base import Unsuitable
from supple_lab.spec import RunSpec
from supple_lab.store.store import Store
from supple_lab.sweep.executor import Executor, SweepOptions
from supple_lab.sweep.sweep import failures
from supple_lab.sweep.view import in_words

ALL, MISSING = registry.RESERVED["method"]


@dataclass(frozen=True, kw_only=True)
class Arena(Command):
    """Run methods on the same problems, tuned alike, and place them among the published runs of the others.

    Without --methods and --plugin the published standings are shown.
    """

    name = "arena"
    methods: tuple[str, ...] = ()
    """Methods to run, or chains such as l2_init+redo; all: every one there is; missing: what is not published.
    Default: those of the plugin."""
    scale: Scale = "quick"
    """smoke: seconds; quick: digits, seconds a run on a core; full: MNIST and CIFAR, on a GPU."""
    problems: tuple[str, ...] = ()
    """Problems to run them on. Default: all."""
    out: Path = Path("out") / "arena"
    """Folder of the runs; the page goes to OUT/report."""
    engine: str = "process"
    """inline: in this process, for a debugger; process: several on this machine; packed: several in threads of this
    process that share a GPU; ray, slurm: a cluster's."""
    device: Device = "auto"
    """Where the runs compute. auto: on a CUDA GPU if torch sees one, else on the CPU."""
    jobs: int | None = None
    """Runs at once. Default: one per processor core or place on a GPU."""
    per_gpu: int = 1
    """Runs at once on each GPU."""
    data: Path | None = None
    """Folder of the datasets, at full scale. Default: $SUPPLE_DATA, then the cache folder."""
    minutes: float | None = None
    """Stop after so long; the same command goes on. Default: when all is done."""
    retry_failed: bool = False
    """Try runs again that failed or diverged before."""
    quiet: bool = False
    """Show no progress."""

    def run(self) -> int:
        if self.minutes is not None and not self.minutes > 0.0:
            raise BadUsage(f"--minutes must be above 0; got {self.minutes:g}.")
        check_device(self.device)
        if self.jobs is not None and self.jobs < 1:
            raise BadUsage(f"--jobs must be at least 1; got {self.jobs}.")
        self.chosen_problems()  # refuses a name that is none
        if self.data is not None:
            use_folder(self.data)
        board = published(self.scale)
        names = self.methods or tuple(own_methods())
        wanted = self.wanted(names, board) if names or board is None else []
        if not wanted and board is not None:
            self.show(board, board.results, run_here=())
            return DONE
        registry.find(Executor, self.engine).check_installed()
        contests, remarks = suitable(wanted, device=self.device)
        remarks += [
            f"Of {name} the learning rate alone is tuned: it has no class attribute `space` that says what else may be."
            for name in own_methods()
            if not hasattr(registry.find(Method, name), "space") and name in names
        ]
        lacking = [problem.name for problem in self.chosen_problems() if missing(problem, board)]
        if board is not None and not has_every(names) and lacking:
            remarks.append(f"Not published: {', '.join(lacking)}; {REFERENCE} and {BASELINE} are run there besides.")
        check_data(contest.draws[0] for contest in contests)
        self.print_plan(contests, remarks, board)
        store, started = Store.create(self.out), time.monotonic()
        if board is not None and ALL not in names:
            found = repeat(board, self.chosen_problems(), store, self.executor(store))
            if found is not None:
                print(found, flush=True)
                remarks.append(found)
        print_older(store, specs_of(contests, store))
        earlier = set() if self.retry_failed else {one.spec for one in failures(store, specs_of(contests, store))}
        num_done = 0

        def note(contest: Contest) -> None:
            nonlocal num_done
            num_done += 1
            if not self.quiet:
                left = (time.monotonic() - started) * (len(contests) - num_done) / num_done
                print(
                    f"{num_done} of {len(contests)}: {contest.problem.name}, {contest.entry.name}; "
                    f"{in_words(left)} left",
                    flush=True,
                )

        try:
            until = math.inf if self.minutes is None else started + 60 * self.minutes
            could_not = play(contests, self.executor(store), note=note, until=until)
        finally:  # also of what was interrupted: the contests that are whole
            self.write(contests, store, board, remarks)
        if num_done < len(contests):
            print(f"Time is up: {num_done} of {len(contests)} contests are whole; the same command goes on.")
        specs = specs_of(contests, store)
        print_damage(store, specs)
        print_notes(store, specs)
        failed = [replace(one, before=one.spec in earlier) for one in failures(store, specs)]
        return print_failures(could_not + failed)

    def write(self, contests: Sequence[Contest], store: Store, board: Board | None, remarks: Sequence[str]) -> None:
        """Write what the runs came to, and show them among those that were published."""
        own = [result for contest in contests if (result := contest.result(store)) is not None]
        made = made_here(self.scale, own, machine=hardware_of(torch.device(self.device)))
        (self.out / "report").mkdir(exist_ok=True)
        atomic_write(self.out / "report" / "arena.json", to_json(made).encode())
        ran = {(one.problem, one.entry) for one in own}
        taken = [one for one in board.results if (one.problem, one.entry) not in ran] if board else []
        unplaced = [
            f"{one.entry.name} has no place on {one.problem.name}: each of its draws diverged or failed."
            for one in contests
            if one.came_to_nothing(store)
        ]
        self.show(
            made,
            [*own, *taken],
            run_here={one.entry for one in own},
            taken=board if taken else None,
            remarks=[*remarks, *unplaced],
        )
        for sentence in unplaced:
            print_note(sentence)

    def wanted(self, names: Sequence[str], board: Board | None) -> list[Contest]:
        """Entry after entry, so that what is cut off leaves entries on all problems."""
        entries = every_entry() if has_every(names) else entries_of([REFERENCE, BASELINE, *names])
        contests = [Contest(problem, entry, self.scale) for entry in entries for problem in self.chosen_problems()]
        if not has_every(names):  # the reference and the baseline besides, if there are no published runs of them
            return [one for one in contests if one.entry.name in (*names, *missing(one.problem, board))]
        if MISSING in names and board is not None:
            ended = {run.id for result in board.results for run in result.draws}
            return [one for one in contests if any(spec.run_id not in ended for spec in one.draws)]
        return contests

    def chosen_problems(self) -> list[ArenaProblem]:
        known = {problem.name: problem for problem in PROBLEMS}
        for name in self.problems:
            if name not in known:
                raise registry.UnknownName(registry.no_such("problem of the arena", name, known))
        return [problem for problem in PROBLEMS if not self.problems or problem.name in self.problems]

    def executor(self, store: Store) -> Executor:
        engine = registry.find(Executor, self.engine)
        options = SweepOptions(per_gpu=self.per_gpu, retry_failed=self.retry_failed)
        jobs = self.jobs or engine.default_jobs(1000, device=self.device, options=options)
        return engine(store, device=self.device, jobs=jobs, options=options)

    def print_plan(self, contests: Sequence[Contest], remarks: Sequence[str], board: Board | None) -> None:
        """Say how many runs there are and how long they take, before the first."""
        for remark in remarks:
            print_note(remark)
        (num_draws, num_seeds), unit = BUDGETS[self.scale], "GPU" if self.device == "cuda" else "core"
        num_entries, num_problems = (
            len({getattr(one, part).name for one in contests}) for part in ("entry", "problem")
        )
        measured = seconds_by_problem(board) if board else {}
        seconds = sum(measured.get(one.problem.name, one.problem.seconds[self.scale]) for one in contests)
        duration = in_words((num_draws + num_seeds) * seconds)
        print(
            f"{len(contests) * (num_draws + num_seeds):,} runs: {num_entries} "
            f"{'entry' if num_entries == 1 else 'entries'}, {num_problems} "
            f"{'problem' if num_problems == 1 else 'problems'}, "
            f"{num_draws} draws and {num_seeds} seeds each; about {duration} of one {unit}.",
            flush=True,
        )

    def show(
        self,
        board: Board,
        results: Sequence[ContestResult],
        *,
        run_here: Collection[str],
        taken: Board | None = None,
        remarks: Sequence[str] = (),
    ) -> None:
        counted = {one.problem for one in (taken.results if taken else results)}
        if not (order := standings(results, scale=self.scale, counted=counted)):
            print_note(f"no problem has runs of {REFERENCE} that have all ended, and scores are beside those.")
            return
        apart = [name for name in problems_in(order) if name not in counted]
        found = self.agreements(order)
        if apart:
            found.append(f"Mean ranks are without {', '.join(apart)}: the published entries were not run there.")
        (reference,) = (one.cells for one in order if one.entry == REFERENCE)
        if blank := [name for name in problems_in(order) if math.isnan(reference[name].relative)]:
            found.append(f"Mean ranks are without {', '.join(blank)}: {REFERENCE} learned nothing, so cells are blank.")
        title = f"Arena, {board.scale} scale: 0 is chance, 1 a fresh network tuned alike"
        print_standings(order, title=f"{title}. {MEANINGLESS}" if board.scale == "smoke" else title)
        (path := self.out / "report" / "arena.html").parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, page(order, board, run_here=run_here, taken=taken, remarks=[*remarks, *found]).encode())
        print(*found, f"page: {path.resolve()}", sep="\n")

    def agreements(self, order: Sequence[Standing]) -> list[str]:
        """How far the ranks of the other scale agree, if its runs are published."""
        other = None if self.scale == "smoke" else published("full" if self.scale == "quick" else "quick")
        found = agreement(order, standings(other.results, scale=other.scale)) if other else None
        if other is None or found is None:
            return []
        return [f"Rank correlation (Spearman) with {other.scale} scale: {found[0]:.2f} over {found[1]} entries."]


def specs_of(contests: Iterable[Contest], store: Store) -> list[RunSpec]:
    return [spec for contest in contests for spec in contest.specs(store)]


def has_every(names: Sequence[str]) -> bool:
    return not names or ALL in names or MISSING in names


def missing(problem: ArenaProblem, board: Board | None) -> list[str]:
    """Which of the reference and the baseline have no published runs on a problem."""
    known = {one.entry for one in board.results if one.problem == problem.name} if board else set()
    return [name for name in (REFERENCE, BASELINE) if name not in known]


def suitable(contests: Iterable[Contest], *, device: str) -> tuple[list[Contest], list[str]]:
    """The contests that can be held, and a sentence for each that cannot."""
    held, left_out = [], []
    for contest in contests:
        try:
            check_suitable(contest.draws[0], device=device)
            held.append(contest)
        except Unsuitable as error:
            left_out.append(f"{contest.entry.name} is left out of {contest.problem.name}: {error}")
    return held, left_out


def format_cell(cell: Cell | None) -> str:
    """The relative score; nothing if the entry was not run, or the reference learned nothing."""
    return "" if cell is None or math.isnan(cell.relative) else f"{cell.relative:.2f}{' *' if cell.leads else ''}"


def problems_in(order: Sequence[Standing]) -> list[str]:
    return [problem.name for problem in PROBLEMS if any(problem.name in one.cells for one in order)]


def format_ranks(one: Standing) -> list[str]:
    """The mean rank and its range; dashes if the entry has none."""
    if one.mean_rank is None or one.without is None:
        return ["–", "–"]
    return [f"{one.mean_rank:.1f}", f"{one.without[0]:.1f} to {one.without[1]:.1f}"]


def print_standings(order: Sequence[Standing], *, title: str) -> None:
    names = problems_in(order)
    rows = [[one.entry, *format_ranks(one), *(format_cell(one.cells.get(name)) for name in names)] for one in order]
    print_table(["entry", "mean rank", "less a problem", *names], rows, title=title)
    print("* no entry is better on the problem, by the intervals of the differences")
    if order[-1].mean_rank is None and order[0].mean_rank is not None:
        print("– not on all problems; mean ranks are among the others")
