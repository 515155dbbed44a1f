"""supple run: run a study and make its report. The same command again continues what is unfinished."""

import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro

from supple.methods.base import Method
from supple_lab import lookup
from supple_lab.commands.base import DONE, FAILED, BadUsage, Command
from supple_lab.commands.report import default_out, make_report
from supple_lab.commands.screen import print_drawing
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.store import Store
from supple_lab.studies.base import Scale, Study
from supple_lab.studies.manifest import Manifest, write_manifest
from supple_lab.sweep.executor import Executor
from supple_lab.sweep.sweep import Failure, execute_all, failures, unfinished
from supple_lab.sweep.view import choose_view, title_of


@dataclass(frozen=True, kw_only=True)
class Run(Command):
    """Run a study and make its report. The same command again continues what is unfinished."""

    study: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="STUDY")]
    """Name of the study; `supple list studies` shows them."""
    scale: Scale = "quick"
    """smoke: seconds; quick: minutes on two cores; paper: the paper's protocol."""
    out: Path | None = None
    """Folder of the runs. Default: out/STUDY."""
    engine: str = "process"
    """inline: in this process, for a debugger; process: several processes on this machine."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where the runs compute."""
    seeds: int | None = None
    """How many seeds. Default: the study's own number."""
    methods: tuple[str, ...] = ()
    """Methods to compare, any that exist. Default: the study's own."""
    jobs: int | None = None
    """Runs at once. Default: one per processor core."""
    retry_failed: bool = False
    """Try runs again that failed or diverged before."""
    quiet: bool = False
    """Show no progress."""

    def obey(self) -> int:
        study, engine = lookup.find(Study, self.study)(), lookup.find(Executor, self.engine)
        specs = self.specs(study)
        self.check_machine()
        store = Store.create(self.out or default_out(study))
        write_manifest(store.root, self.manifest(study, specs))
        todo = unfinished(store, specs, retry_failed=self.retry_failed)
        could_not = self.sweep(todo, store, engine) if todo else []
        tell_damage(store, todo)
        print_drawing(*make_report(study, store.root))
        return tell_failures(could_not + failures(store, specs))

    def specs(self, study: Study) -> list[RunSpec]:
        """The runs the command asks for."""
        num_seeds = study.num_seeds(self.scale) if self.seeds is None else self.seeds
        if num_seeds < 1:
            raise BadUsage(f"--seeds must be at least 1; got {num_seeds}.")
        own = {method.name: method for method in study.methods(self.scale)}
        methods = [own.get(name) or lookup.find(Method, name)() for name in dict.fromkeys(self.methods or own)]
        return study.specs(self.scale, methods, range(num_seeds))

    def check_machine(self) -> None:
        """Refuse what this machine cannot do before anything is written."""
        if self.jobs is not None and self.jobs < 1:
            raise BadUsage(f"--jobs must be at least 1; got {self.jobs}.")
        if self.device == "cuda" and not torch.cuda.is_available():
            raise BadUsage("--device cuda needs a CUDA GPU, and torch sees none. Use --device cpu.")

    def manifest(self, study: Study, specs: list[RunSpec]) -> Manifest:
        """What is asked of the output folder."""
        command = shlex.join(["supple", *sys.argv[1:]])
        written = tuple(spec.to_dict() for spec in specs)
        return Manifest(study=study.name, scale=self.scale, command=command, specs=written)

    def sweep(self, specs: list[RunSpec], store: Store, engine: type[Executor]) -> list[Failure]:
        """Execute the runs, showing how they go."""
        jobs = min(self.jobs or len(os.sched_getaffinity(0)), len(specs))
        with choose_view(quiet=self.quiet)(store, specs):
            return execute_all(specs, engine(store, device=self.device, jobs=jobs))


def tell_damage(store: Store, specs: list[RunSpec]) -> None:
    """Name the checkpoints that could not be read, on the error stream."""
    for spec in specs:
        for path in store.folder(spec).set_aside():
            print(f"note: {path} was damaged and set aside; the run went on from before it.", file=sys.stderr)


def tell_failures(failed: list[Failure]) -> int:
    """Name what failed, on the error stream."""
    for failure in failed:
        what = "not finished here" if failure.busy else "failed"
        print(f"{what}: {title_of(failure.spec)} (run {failure.spec.run_id}): {failure.reason}", file=sys.stderr)
    return FAILED if failed else DONE
