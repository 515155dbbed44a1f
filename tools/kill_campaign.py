"""Kill campaign: kills runs at random, and says whether each, resumed, equals the run that nothing happened to.

    PYTHONPATH=tests python tools/kill_campaign.py --kills 500 --seed 1   # --only 17 repeats one case
    PYTHONPATH=tests python tools/kill_campaign.py --kills 500 --out /dev/shm/kills

A case is one or two runs of some method. They are killed up to six times, in one of the ways below, and then brought
to their end. Processes are forked after the imports, so that a case takes a second.
"""

import argparse
import importlib
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from forked import ended, forked
from small_games import chain_spec
from small_runs import PERIODIC, SMALL_SCENARIOS, small_scenario_spec, small_spec
from supple.methods.base import Method
from supple_lab import registry
from supple_lab.run.check import check_suitable
from supple_lab.run.run import execute
from supple_lab.spec import RunSpec, in_stages
from supple_lab.store import lock, run_folder
from supple_lab.store.checkpoint import checkpoint_files
from supple_lab.store.run_folder import RecordLog
from supple_lab.store.store import Store
from supple_lab.sweep import sweep
from supple_lab.sweep.executor import SweepOptions
from supple_lab.sweep.local import Inline, Process

LOGS = ("records.jsonl", "epochs.jsonl")
OPERATIONS = ("open", "replace", "rename", "unlink", "fsync", "pwrite", "ftruncate", "mkdir")
CHECKPOINT_SECONDS = (0.0, 0.05)


@dataclass
class Case:
    """Runs that are killed, in a store of their own."""

    chance: random.Random
    store: Store
    specs: list[RunSpec]
    seconds: float  # that the runs take, unbroken
    log: Path
    num_kills: int = 0

    def options(self) -> SweepOptions:
        return SweepOptions(checkpoint_seconds=self.chance.choice(CHECKPOINT_SECONDS))

    def execute(self, checkpoint_seconds: float) -> None:
        for spec in self.specs:
            assert execute(spec, self.store, checkpoint_seconds=checkpoint_seconds) == "done"

    def kill_later(self, *pids: int) -> None:
        """Kill these processes, at some time in as long as the runs take."""
        time.sleep(self.chance.uniform(0.0, self.seconds))
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            self.count(ended(pid))

    def count(self, code: int) -> None:
        self.num_kills += code == -signal.SIGKILL


def in_time(case: Case) -> None:
    """At any moment."""
    case.kill_later(forked(partial(case.execute, case.options().checkpoint_seconds), case.log))


def before_an_operation(case: Case) -> None:
    """Right before something happens to a file."""
    number = 1 + int(case.chance.expovariate(1 / 60))

    def work() -> None:
        countdown = itertools.count(number, -1)

        def counted(original: Callable[..., Any]) -> Callable[..., Any]:
            def operation(*arguments: Any, **options: Any) -> Any:
                if next(countdown) == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return original(*arguments, **options)

            return operation

        for name in OPERATIONS:
            setattr(os, name, counted(getattr(os, name)))
        run_folder.open = counted(open)  # type: ignore[attr-defined]
        case.execute(checkpoint_seconds)

    checkpoint_seconds = case.chance.choice(CHECKPOINT_SECONDS)
    case.count(ended(forked(work, case.log)))


def in_a_write(case: Case) -> None:
    """With a line or a part half written; besides, a newest checkpoint may be cut, as by a power cut."""
    share, in_log = case.chance.random(), case.chance.random() < 0.5
    number = case.chance.randrange(0, 6 if in_log else 25)

    def work() -> None:
        countdown = itertools.count(number, -1)
        append, fsync = RecordLog.append, os.fsync

        def torn_line(log: RecordLog, record: dict[str, Any]) -> None:
            if next(countdown) > 0:
                return append(log, record)
            line = run_folder.line_of(record)
            with open(log.path, "ab") as file:
                file.write(line[: int(share * len(line))])
            return os.kill(os.getpid(), signal.SIGKILL)

        def torn_part(file: int) -> None:
            if next(countdown) > 0:
                return fsync(file)
            os.ftruncate(file, int(share * os.fstat(file).st_size))
            return os.kill(os.getpid(), signal.SIGKILL)

        if in_log:
            RecordLog.append = torn_line  # type: ignore[method-assign]
        else:
            os.fsync = torn_part  # type: ignore[assignment]
        case.execute(0.0)

    case.count(ended(forked(work, case.log)))
    for spec in case.specs:
        if case.chance.random() < 0.3:
            for path in checkpoint_files(case.store.folder(spec).path)[-1:]:
                os.truncate(path, int(case.chance.random() * path.stat().st_size))


def one_of_two_drivers(case: Case) -> None:
    """One of two processes that bring the same runs to their end; the other goes on, or takes over."""
    pids = [forked(partial(drive, case, Inline, case.options()), case.log) for _ in range(2)]
    case.kill_later(pids[0])
    if code := ended(pids[1]):
        raise AssertionError(f"the other driver ended with {code}")


def a_worker(case: Case) -> None:
    """The process that executes a run for a driver, which starts another one."""
    driver, pids = forked(partial(drive, case, Process, case.options()), case.log), set[int]()
    until = time.monotonic() + 3 * case.seconds
    while time.monotonic() < until and not (pids := workers_of(driver, case)):
        time.sleep(0.005)
    time.sleep(case.chance.uniform(0.0, case.seconds))
    for pid in workers_of(driver, case) & pids:
        os.kill(pid, signal.SIGKILL)
        case.num_kills += 1
    if code := ended(driver):
        raise AssertionError(f"the driver ended with {code}")


def a_driver(case: Case) -> None:
    case.kill_later(forked(partial(drive, case, Process, case.options()), case.log))


WAYS = (in_time, before_an_operation, in_a_write, one_of_two_drivers, a_worker, a_driver)
SHARES = (25, 30, 20, 9, 8, 8)


def drive(case: Case, engine: type[Inline] | type[Process], options: SweepOptions) -> None:
    """Bring the runs to their end as `supple run` does, but with less patience."""
    sweep.SECONDS_BETWEEN_LOOKS = 0.05
    could_not = sweep.execute_all(case.specs, engine(case.store, device="cpu", jobs=2, options=options))
    assert not could_not, could_not


def workers_of(driver: int, case: Case) -> set[int]:
    """The driver's processes that execute runs now."""
    folders = [case.store.folder(spec) for spec in case.specs]
    found = {folder.status().get("pid", 0) for folder in folders if folder.state() == "running"}
    return {pid for pid in found if parent_of(pid) == driver}


def parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def chosen_specs(chance: random.Random) -> list[RunSpec]:
    """One run, or two, of any method: supervised, or a game."""
    method = chance.choice([*(in_stages(cls) for _, cls in sorted(registry.known(Method).items())), *PERIODIC])
    seed = chance.randrange(2)
    if chance.random() < 0.2 and suits(chain_spec(method)):
        spec = chain_spec(method, seed=seed)
    elif chance.random() < 0.3:
        spec = replace(small_scenario_spec(chance.choice(SMALL_SCENARIOS[:3]), method), seed=seed)
    else:
        spec = small_spec(method, seed=seed)
    return [spec, replace(spec, seed=1 - seed)][: chance.choice((1, 1, 2))]


def suits(spec: RunSpec) -> bool:
    try:
        check_suitable(spec, device="cpu")
    except Exception:
        return False
    return True


def import_what_runs_import(log: Path) -> None:
    """Import it here, so that no forked process has to. The runs themselves are executed in a process of their own:

    torch starts threads for a GPU with the first backward of a process, and refuses the backward of what it forks.
    """

    def work() -> None:
        with tempfile.TemporaryDirectory() as folder:
            for spec in (small_spec(registry.find(Method, "cbp")()), chain_spec(registry.find(Method, "redo")())):
                execute(spec, Store.create(Path(folder)))
        print(*sys.modules, sep="\n")

    assert ended(forked(work, log)) == 0, log.read_text()
    for name in log.read_text().split():
        with suppress(Exception):
            importlib.import_module(name)


class Campaign:
    """Cases one after the other, each with random numbers of its own."""

    def __init__(self, seed: int, out: Path) -> None:
        self.seed = seed
        self.out = out
        self.unbroken = Store.create(out / "unbroken")
        self.seconds: dict[str, float] = {}
        self.kills: Counter[str] = Counter()
        self.methods: Counter[str] = Counter()
        self.num_cases = 0
        self.failures: list[str] = []
        import_what_runs_import(out / "modules.txt")

    def run(self, *, num_kills: int) -> None:
        """Go on with further cases until there were so many kills in all, or ten cases failed."""
        while self.kills.total() < num_kills and len(self.failures) < 10:
            self.run_case(self.num_cases)

    def run_case(self, index: int) -> None:
        """One case; what went wrong is kept, with its store."""
        chance = random.Random(f"{self.seed} {index}")
        (way,) = chance.choices(WAYS, SHARES)
        folder = self.out / f"case-{index:05d}"
        specs = chosen_specs(chance)
        case = Case(chance, Store.create(folder), specs, 0.0, folder / "said.txt")
        try:
            case.seconds = sum(map(self.seconds_of, specs))
            for _ in range(chance.randint(1, 6)):
                way(case)
            if code := ended(forked(partial(drive, case, Inline, case.options()), case.log)):
                raise AssertionError(f"the last process ended with {code}")
            self.compare(case)
            shutil.rmtree(folder)
        except AssertionError as error:
            said = case.log.read_text()[-1500:] if case.log.exists() else ""
            self.failures.append(f"seed {self.seed}, case {index}, {way.__name__}, {specs[0].method.name}: {error}")
            print(f"{self.failures[-1]}\n{said}", flush=True)
        self.num_cases += 1
        self.kills[way.__name__] += case.num_kills
        self.methods[specs[0].method.name] += case.num_kills

    def seconds_of(self, spec: RunSpec) -> float:
        """How long the run takes unbroken, which is found out once."""
        if spec.run_id not in self.seconds:
            started = time.monotonic()
            work = partial(execute, spec, self.unbroken, checkpoint_seconds=0.0)
            assert ended(forked(lambda: print(work()), self.out / "unbroken.txt")) == 0
            assert self.unbroken.folder(spec).state() == "done", f"unbroken: {self.unbroken.folder(spec).status()}"
            self.seconds[spec.run_id] = time.monotonic() - started
        return self.seconds[spec.run_id]

    def compare(self, case: Case) -> None:
        """The runs are done, bit for bit as they are unbroken, and nothing is left that should not be."""
        for spec in case.specs:
            folder, expected = case.store.folder(spec).path, self.unbroken.folder(spec).path
            assert case.store.folder(spec).state() == "done", case.store.folder(spec).status()
            for name in LOGS:
                assert (folder / name).read_bytes() == (expected / name).read_bytes(), f"{name} differs"
            left = [path.name for path in folder.iterdir() if path.name == lock.NAME or path.name.endswith(".part")]
            assert not left, left

    def summary(self) -> str:
        by_way = ", ".join(f"{number} {way}" for way, number in sorted(self.kills.items()))
        return (
            f"seed {self.seed}: {self.kills.total()} kills in {self.num_cases} cases ({by_way}), "
            f"{len(+self.methods)} of {len(registry.known(Method))} methods, {len(self.failures)} failures"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", type=int, help="one case alone, by its number")
    parser.add_argument("--out", type=Path, help="where the runs are; default: a folder that is removed")
    asked = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if asked.seed is None else asked.seed
    os.environ["SUPPLE_COMMIT"] = "campaign"  # or each run would ask git
    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(seed, asked.out or Path(folder))
        print(f"seed {seed}", flush=True)
        if asked.only is not None:
            campaign.run_case(asked.only)
        for number in range(50, asked.kills + 50, 50) if asked.only is None else []:
            campaign.run(num_kills=min(number, asked.kills))
            print(campaign.summary(), flush=True)
    by_method = ", ".join(f"{number} {method}" for method, number in sorted(campaign.methods.items()))
    print("\n".join([*campaign.failures, by_method, campaign.summary()]))
    return 1 if campaign.failures else 0


if __name__ == "__main__":
    sys.exit(main())
