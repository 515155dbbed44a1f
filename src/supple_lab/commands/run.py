"""supple run: run a study and make its report. The same command again continues what is unfinished."""

import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from supple_lab import registry
from supple_lab.commands.base import FAILED, BadUsage, Command, Device, Given, check_device
from supple_lab.commands.messages import print_damage, print_failures, print_notes, print_older
from supple_lab.commands.report import conditions_of, default_out, make_report, print_drawing
from supple_lab.commands.terminal import print_note
from supple_lab.data.base import DataError
from supple_lab.data.files import use_folder
from supple_lab.paper.manifest import add_to_manifest
from supple_lab.paper.study import MAX_SEEDS, Scale, Study, StudyOptions
from supple_lab.precision import Precision, named
from supple_lab.run.check import check_suitable, remarks_on_precision
from supple_lab.run.recorder import CHECKPOINT_SECONDS, Tracker
from supple_lab.spec import RunSpec, Supervised
from supple_lab.store.mirror import Mirror
from supple_lab.store.store import Store
from supple_lab.sweep.executor import Executor, SweepOptions
from supple_lab.sweep.sweep import Failure, exchange, execute_all, failures, unfinished
from supple_lab.sweep.view import choose_view

OTHER_PRECISION = "Choose other conditions by --only, or run one by supple train --precision."
OTHER_GRID = "the folder had another grid of this study ({}); its runs stay, but the report is about the new one alone."


@dataclass(frozen=True, kw_only=True)
class Run(Command):
    """Run a study and make its report. The same command again continues what is unfinished."""

    name = "run"
    study: str = field(metadata={"place": "STUDY"})
    """Name of the study; `supple list studies` shows them."""
    scale: Scale = "quick"
    """smoke: seconds; quick: minutes on two cores; paper: the paper's protocol; full: the largest of other studies."""
    out: Path | None = None
    """Folder of the runs. Default: out/STUDY."""
    engine: str = "process"
    """inline: in this process, for a debugger; process: several on this machine; packed: as threads of one process, for
    small runs on one GPU; ray, slurm: a cluster's."""
    device: Device = "auto"
    """Where the runs compute. auto: on a CUDA GPU if torch sees one, else on the CPU."""
    seeds: int | None = None
    """How many seeds. Default: the study's own number."""
    methods: tuple[str, ...] = ()
    """Methods to compare, any that exist. Default: the study's own. --method.FIELD V and --optimizer.FIELD V set
    their fields, as in `supple train`."""
    changes: tuple[tuple[str, str], ...] = field(default=(), metadata={"place": None})
    only: str = ""
    """Run the conditions alone whose label holds this text, such as CNN or "Adam 1e-3"."""
    search: bool = False
    """Run every setting that the paper searched, not its best alone; the best of them is reported."""
    as_printed: bool = False
    """Run what the paper prints even if it is almost surely a slip (docs/choices.md)."""
    allow_partial: bool = False
    """Use an incomplete TinyImageNet; the runs say so."""
    precision: Precision = "default"
    """Of matrix products. default: fp32 on a CPU, tf32 on a GPU, but bf16 for the paper's own ResNet-18."""
    data: Path | None = None
    """Folder of the datasets. Default: $SUPPLE_DATA, then the cache folder."""
    jobs: int | None = None
    """Runs at once. Default: one per processor core or place on a GPU; on a cluster, as many as it takes."""
    per_gpu: int = 1
    """Runs at once on each GPU."""
    address: str | None = None
    """Of a running Ray cluster, such as auto or HOST:6379. Default: one is started on this machine."""
    slurm: tuple[str, ...] = ()
    """Further options of sbatch, as NAME=VALUE: partition=gpu account=me."""
    mirror: str | None = None
    """Copy the runs to this URL (s3://..., file://...) as well, and continue from what is there."""
    time_limit: float | None = None
    """Minutes that one attempt at a run may take; what takes longer has failed."""
    memory_limit: float | None = None
    """GiB that a run's process may take; what takes more has failed."""
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    """Time between checkpoints: what a kill may cost."""
    track: tuple[str, ...] = ()
    """Have these programs show the curves while runs go: tensorboard (then: tensorboard --logdir OUT/runs)."""
    retry_failed: bool = False
    """Try runs again that failed or diverged before."""
    quiet: bool = False
    """Show no progress."""

    @classmethod
    def read(cls, given: Given) -> Self:
        fields = {flag: times for flag, times in given.items() if flag.startswith(("--method.", "--optimizer."))}
        changes = tuple((flag[2:], " ".join(values)) for flag, times in fields.items() for values in times)
        rest = {flag: times for flag, times in given.items() if flag not in fields}
        return replace(super().read(rest), changes=changes)

    def run(self) -> int:
        study, engine = registry.find(Study, self.study)(), registry.find(Executor, self.engine)
        order = self.order()
        if reason := study.reason_to_refuse(order):
            raise BadUsage(reason)
        specs = study.specs(order)
        if self.precision != order.precision and any(spec.precision != "default" for spec in specs):
            raise BadUsage(f"{study.name} has runs in bf16 that cannot be had in {self.precision}. {OTHER_PRECISION}")
        self.check_machine(engine)
        if self.data is not None:
            use_folder(self.data)
        for spec in specs:
            check_suitable(spec, device=self.device)
        store = Store.create(self.out or default_out(study), mirror=self.mirror)
        exchange(store, specs)
        todo = unfinished(store, specs, retry_failed=self.retry_failed)
        if self.is_here(engine):
            check_data(todo)
        replaced = add_to_manifest(
            store.root, study.name, order=order, command=shlex.join(["supple", *sys.argv[1:]]), specs=specs
        )
        for note in {note for spec in specs for note in remarks_on_precision(spec.precision, device=self.device)}:
            print_note(note)
        if replaced is not None:
            print_note(OTHER_GRID.format(", ".join(order.differences(replaced))))
        print_older(store, specs)
        could_not = self.sweep(todo, store, engine, conditions_of(study, order)) if todo else []
        print_damage(store, todo)
        print_notes(store, todo)
        tried = frozenset(todo)
        failed = [replace(one, before=one.spec not in tried) for one in failures(store, specs)]
        return self.report(study, store, could_not + failed)

    def report(self, study: Study, store: Store, failed: list[Failure]) -> int:
        """Make the report, then name what failed; a report that cannot be made hides no failure."""
        try:
            print_drawing(*make_report(study, store.root))
        except Exception as error:
            if failed:
                print_failures(failed)
                print(f"supple: the report could not be made: {type(error).__name__}: {error}", file=sys.stderr)
                return FAILED
            raise
        return print_failures(failed)

    def order(self) -> StudyOptions:
        if self.seeds is not None and not 1 <= self.seeds <= MAX_SEEDS:
            bound = "at least 1" if self.seeds < 1 else f"at most {MAX_SEEDS:,}"
            raise BadUsage(f"--seeds must be {bound}; got {self.seeds:,}.")
        if self.changes and not self.methods:
            (field, _), *_ = self.changes
            raise BadUsage(f"--{field} sets a field of methods; name them with --methods.")
        return StudyOptions(
            scale=self.scale,
            num_seeds=self.seeds,
            methods=self.methods,
            search=self.search,
            as_printed=self.as_printed,
            allow_partial=self.allow_partial,
            precision=named(self.precision, device=self.device),
            only=self.only,
            changes=self.changes,
        )

    def check_numbers(self) -> None:
        """Refuse counts below one, and times and sizes that are nothing."""
        counts, amounts = ("jobs", "per_gpu"), ("time_limit", "memory_limit", "checkpoint_seconds")
        for name in (*counts, *amounts):
            value = getattr(self, name)
            if value is not None and (value < 1 if name in counts else value <= 0):
                wanted = "at least 1" if name in counts else "more than 0"
                raise BadUsage(f"--{name.replace('_', '-')} must be {wanted}; got {value}.")

    def check_cluster(self, engine: type[Executor]) -> None:
        """Refuse what is said of a cluster that the engine does not know, rather than pass over it."""
        if self.address is not None and engine.name != "ray":
            raise BadUsage(f"--address is that of a Ray cluster, and the engine is {engine.name}; use --engine ray.")
        if self.slurm and engine.name != "slurm":
            raise BadUsage(f"--slurm is for sbatch, and the engine is {engine.name}; use --engine slurm.")
        for item in self.slurm:
            if not all(item.partition("=")):
                raise BadUsage(f"--slurm takes NAME=VALUE, such as partition=gpu; got {item!r}.")

    def is_here(self, engine: type[Executor]) -> bool:
        """Whether the runs compute on this machine, as those of a Ray cluster started for them do."""
        return engine.is_here or (engine.name == "ray" and self.address is None)

    def check_machine(self, engine: type[Executor]) -> None:
        """Refuse what cannot be done before anything is written."""
        self.check_numbers()
        self.check_cluster(engine)
        if self.is_here(engine):
            check_device(self.device)
        if self.per_gpu > 1 and self.device != "cuda":
            raise BadUsage("--per-gpu is for --device cuda; on processor cores use --jobs.")
        if not engine.can_limit and (self.time_limit or self.memory_limit):
            raise BadUsage(f"the engine {engine.name} cannot end a run that exceeds a limit; use --engine process.")
        if self.out is not None and ":/" in str(self.out):
            raise BadUsage(f"--out is a folder of this machine; to copy the runs to {self.out} use --mirror URL.")
        if self.mirror is not None:
            Mirror(self.mirror)
        check_trackers(self.track)
        engine.check_installed()

    def sweep(
        self, specs: list[RunSpec], store: Store, engine: type[Executor], conditions: dict[str, str]
    ) -> list[Failure]:
        options = self.options()
        jobs = min(self.jobs or engine.default_jobs(len(specs), device=self.device, options=options), len(specs))
        executor = engine(store, device=self.device, jobs=jobs, options=options)
        with choose_view(quiet=self.quiet)(store, specs, conditions):
            return execute_all(specs, executor)

    def options(self) -> SweepOptions:
        return SweepOptions(
            per_gpu=self.per_gpu,
            time_limit=None if self.time_limit is None else 60 * self.time_limit,
            memory_limit=None if self.memory_limit is None else int(self.memory_limit * 2**30),
            checkpoint_seconds=self.checkpoint_seconds,
            track=self.track,
            address=self.address,
            slurm=self.slurm,
            retry_failed=self.retry_failed,
        )


def check_data(specs: Iterable[RunSpec]) -> None:
    """DataError, before any run begins, that names every dataset of theirs that is not on this machine."""
    datasets = dict.fromkeys(spec.problem.dataset for spec in specs if isinstance(spec.problem, Supervised))
    missing = []
    for dataset in datasets:
        try:
            dataset.check_here()
        except DataError as error:
            missing.append(str(error))
    if 0 < len(missing) < len(datasets):
        missing.append("The data of other runs are here; to run these alone, name their condition: --only TEXT.")
    if missing:
        raise DataError("\n".join(missing))


def check_trackers(names: Iterable[str]) -> None:
    for name in names:
        registry.find(Tracker, name).check_installed()
