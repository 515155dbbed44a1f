"""One run: what the commands that bring one run to its end have in common, whatever is learned in it."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from supple.methods import Method, Vanilla
from supple.metrics.base import Metric, every_metric
from supple_lab import registry
from supple_lab.commands.base import BadUsage, Command, Device, Given, check_device
from supple_lab.commands.messages import print_damage, print_failures, print_notes, print_older
from supple_lab.commands.run import check_data, check_trackers
from supple_lab.commands.terminal import print_note, print_table
from supple_lab.data.base import DataError
from supple_lab.errors import Interrupted
from supple_lab.models.base import Model
from supple_lab.optimizer import Optimizer
from supple_lab.precision import Precision, named
from supple_lab.run.check import check_suitable, remarks
from supple_lab.run.recorder import CHECKPOINT_SECONDS
from supple_lab.run.run import execute
from supple_lab.spec import Problem, RunSpec
from supple_lab.store.lock import RunIsBusy, await_silent_holder
from supple_lab.store.reading import ENDED, Record, read_run
from supple_lab.store.run_folder import RunFolder
from supple_lab.store.store import Store
from supple_lab.sweep.sweep import Failure, failures
from supple_lab.sweep.view import choose_view

MAX_FIRST, MAX_LAST = 2, 5  # stages in the table of results; those between are counted
BEGINNINGS = {
    "waiting": "new",
    "running": "another process is at work on it",
    "interrupted": "was interrupted, goes on from its last checkpoint, if it has one",
    "done": "finished before; this is what came out",
    "diverged": "diverged before; the same numbers would do so again",
    "failed": "failed before, is tried again",
}


@dataclass(frozen=True, kw_only=True)
class OneRun(Command):
    """A subclass says what is learned, which options that has, and what is printed of the results."""

    model: Model
    method: Method = field(default_factory=Vanilla)
    optimizer: Optimizer
    seed: int = 0
    precision: Precision = "default"
    """Of matrix products. default: fp32 on a CPU, tf32 on a GPU."""
    device: Device = "auto"
    """Where to compute. auto: on a CUDA GPU if torch sees one, else on the CPU."""
    out: Path
    """Folder of the runs; this one gets a folder in it, named by its id."""
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    track: tuple[str, ...] = ()
    """Have these programs show the curves while it goes: tensorboard (then: tensorboard --logdir OUT/runs)."""
    quiet: bool = False
    """Show no progress."""

    @abstractmethod
    def problem(self) -> Problem:
        """What is to be learned; ValueError or BadUsage if it makes no sense."""

    @abstractmethod
    def size_of(self, spec: RunSpec) -> str:
        """How large a run that can be carried out is, in a line."""

    @abstractmethod
    def print_results(self, records: Sequence[Record]) -> None:
        """Print a table with a line a stage."""

    def make_ready(self) -> None:
        """Do what must be done before the run begins and is no part of it."""

    @classmethod
    def read(cls, given: Given) -> Self:
        return super().read(given or {"--help": []})

    def run(self) -> int:
        spec = self.spec()
        self.check(spec)
        self.make_ready()
        store = Store.create(self.out)
        folder = store.folder(spec)
        for remark in remarks(spec, device=self.device):
            print_note(remark)
        if not self.quiet:
            print(self.size_of(spec))
            print(f"run {spec.run_id}: {BEGINNINGS[folder.state()]}", flush=True)
        print_older(store, [spec])
        # A failed run is tried again: what was missing may be there now.
        could_not = [] if folder.state() in ENDED else self.bring_to_end(spec, store)
        print_damage(store, [spec])
        print_notes(store, [spec])
        self.print_end(folder)
        return print_failures(could_not)

    def spec(self) -> RunSpec:
        try:
            return RunSpec(
                problem=self.problem(),
                model=self.model,
                method=self.method,
                optimizer=self.optimizer,
                seed=self.seed,
                precision=named(self.precision, device=self.device),
            )
        except ValueError as error:
            raise BadUsage(str(error)) from error

    def check(self, spec: RunSpec) -> None:
        """Refuse what makes no sense or cannot be done here, before anything is written."""
        if self.checkpoint_seconds < 0:
            raise BadUsage(f"--checkpoint-seconds must be at least 0; got {self.checkpoint_seconds:g}.")
        check_device(self.device)
        check_trackers(self.track)
        check_suitable(spec, device=self.device)

    def bring_to_end(self, spec: RunSpec, store: Store) -> list[Failure]:
        check_data([spec])
        seconds = self.checkpoint_seconds
        await_silent_holder(store.folder(spec).path, show=print_note)
        with choose_view(quiet=self.quiet)(store, [spec]):
            try:
                execute(spec, store, device=self.device, checkpoint_seconds=seconds, track=self.track, settled=ENDED)
            except (RunIsBusy, Interrupted) as error:
                return [Failure(spec, str(error), busy=True)]
            except DataError as error:
                return [Failure(spec, str(error))]
        return failures(store, [spec])

    def print_end(self, folder: RunFolder) -> None:
        """Results stage by stage, how the run ended, and where it is."""
        stored = read_run(folder.path)
        records, status = stored.records, stored.status
        if records:
            self.print_results(records)
        reason = f": {status['reason']}" if status["state"] == "diverged" else ""
        print(f"run {folder.path.name} is {stored.state}{reason}\nfolder: {folder.path.resolve()}")


def find_metrics(names: Sequence[str]) -> tuple[Metric, ...]:
    if "all" in names:
        return tuple(every_metric())
    return tuple(metric_at_defaults(registry.find(Metric, name)) for name in dict.fromkeys(names))


def metric_at_defaults(cls: type[Metric]) -> Metric:
    """The metric as its name alone asks for it: no option sets its fields."""
    if (needed := registry.needed_field(cls)) is not None:
        raise registry.UnknownName(
            f"--metrics measures {cls.name} at its defaults, and {cls.__name__}.{needed} has none; give it one."
        )
    return cls()


def print_stages(header: Sequence[str], rows: Sequence[Sequence[str]], *, title: str) -> None:
    """A table with a line a stage; of many stages the first and the last."""
    shown = list(rows)
    if len(shown) > MAX_FIRST + MAX_LAST + 1:
        shown[MAX_FIRST:-MAX_LAST] = [("...", *("" for _ in header[1:]))]
    print_table(header, shown, title=title)
