"""supple train: one run of any scenario, dataset, model, method and optimizer. The same command again continues."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro

from supple.methods.base import Method
from supple.methods.vanilla import Vanilla
from supple.metrics.base import Metric, every_metric
from supple_lab import lookup
from supple_lab.commands.base import BadUsage, Command
from supple_lab.commands.form import filled, form_of
from supple_lab.commands.run import check_trackers, tell_damage, tell_failures, tell_notes
from supple_lab.commands.screen import print_table
from supple_lab.data.base import Dataset
from supple_lab.data.digits import Digits
from supple_lab.data.folder import use_folder
from supple_lab.models.base import Model
from supple_lab.models.mlp import MLP
from supple_lab.runs.journal import Pace
from supple_lab.runs.lease import RunIsBusy
from supple_lab.runs.optimizer import Adam, Optimizer
from supple_lab.runs.precision import Precision
from supple_lab.runs.problem import Supervised
from supple_lab.runs.record_log import Record
from supple_lab.runs.run import DEFAULT_PACE, execute
from supple_lab.runs.run_folder import RunFolder
from supple_lab.runs.spec import RunSpec
from supple_lab.runs.store import Store
from supple_lab.runs.suitable import check_suitable, extent_of, remarks
from supple_lab.scenarios.base import Scenario
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.sweep.sweep import Failure, failures
from supple_lab.sweep.view import choose_view

MAX_FIRST, MAX_LAST = 2, 5  # stages in the table of results; those between are counted
SETTLED = ("done", "diverged")  # a failed run is tried again: what was missing may be there now
DESCRIPTION = """Train one network. The same command again continues what is unfinished.

Scenario, dataset, model, method and optimizer are chosen by name, and each has fields of its own: for example --method
aid --method.relu-prob 0.95. Below are the fields of the parts that are named on this command line; for others name
them, as in: supple train --method cbp --model cnn --help

Always recorded: accuracy and loss, online and on the test sets after each epoch, and on the training set at the end of
each stage; --metrics adds more."""


@dataclass(frozen=True, kw_only=True)
class Train(Command):
    """Train one network, on any scenario with any method. The same command again continues what is unfinished."""

    scenario: Scenario = field(default_factory=RandomLabel)
    dataset: Dataset = field(default_factory=Digits)
    model: Model = field(default_factory=MLP)
    method: Method = field(default_factory=Vanilla)
    optimizer: Optimizer = field(default_factory=Adam)
    seed: int = 0
    """Decides initial weights, tasks, order of the data and masks, each by a stream of its own."""
    precision: Precision = "default"
    """Of matrix products. default: fp32 on a CPU, tf32 on a GPU."""
    metrics: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ()
    """Measure these at the ends of stages: names from `supple list metrics`, or all."""
    metrics_every: int = 1
    """Measure the metrics at every so many stages only, and at the last."""
    subnetworks: int = 0
    """Train so many subnetworks on new labels at the end of each stage, on copies (paper section 3.1)."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where to compute."""
    out: Path = Path("out/train")
    """Folder of the runs; this one gets a folder in it, named by its id."""
    data: Path | None = None
    """Folder of the datasets. Default: $SUPPLE_DATA, then a cache folder."""
    checkpoint_seconds: float = DEFAULT_PACE.seconds
    """Write a checkpoint after so many seconds: what a kill costs at most."""
    checkpoint_stages: int = DEFAULT_PACE.stages
    """Besides, write one after every so many stages; 0: by the clock alone."""
    track: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ()
    """Have these programs show the curves while it goes: tensorboard (then: tensorboard --logdir OUT/runs)."""
    quiet: bool = False
    """Show no progress."""

    @classmethod
    def read(cls, arguments: Sequence[str], config: tuple[Any, ...]) -> "Train":
        """The command that the arguments spell; its help if there are none."""
        given = list(arguments) or ["--help"]
        form = form_of(cls, given)
        return filled(tyro.cli(form, prog="supple train", args=given, description=DESCRIPTION, config=config))

    def obey(self) -> int:
        spec = self.spec()
        self.check(spec)
        if self.data is not None:
            use_folder(self.data)
        store = Store.create(self.out)
        folder = store.folder(spec)
        self.tell_beginning(spec, folder)
        could_not = [] if folder.state() in SETTLED else self.train(spec, store)
        tell_damage(store, [spec])
        tell_notes(store, [spec])
        tell_result(folder)
        return tell_failures(could_not)

    def spec(self) -> RunSpec:
        """The run that is asked for."""
        metrics = find_metrics(self.metrics)
        try:
            problem = Supervised(
                scenario=self.scenario,
                dataset=self.dataset,
                metrics=metrics,
                metrics_every=self.metrics_every,
                subnetworks=self.subnetworks,
            )
        except ValueError as error:
            raise BadUsage(str(error)) from error
        return RunSpec(
            problem=problem,
            model=self.model,
            method=self.method,
            optimizer=self.optimizer,
            seed=self.seed,
            precision=self.precision,
        )

    def check(self, spec: RunSpec) -> None:
        """Refuse what makes no sense or cannot be done here, before anything is written."""
        if self.metrics_every > 1 and not self.metrics:
            raise BadUsage(
                "--metrics-every says how often to measure; say what with --metrics NAME ..., or --metrics all."
            )
        if self.checkpoint_seconds < 0 or self.checkpoint_stages < 0:
            raise BadUsage("--checkpoint-seconds and --checkpoint-stages must be at least 0.")
        if self.device == "cuda" and not torch.cuda.is_available():
            raise BadUsage("--device cuda needs a CUDA GPU, and torch sees none. Use --device cpu.")
        check_trackers(self.track)
        check_suitable(spec, device=self.device)

    def tell_beginning(self, spec: RunSpec, folder: RunFolder) -> None:
        """How large the run is, how it stands, and what may not be meant."""
        for remark in remarks(spec, device=self.device):
            print(f"note: {remark}", file=sys.stderr)
        if self.quiet:
            return
        assert isinstance(spec.problem, Supervised)
        extent = extent_of(spec, spec.problem)
        print(
            f"{type(spec.model).__name__}, {extent.num_parameters:,} parameters; "
            f"{extent.num_stages:,} {'stage' if extent.num_stages == 1 else 'stages'}, {extent.num_steps:,} steps"
        )
        print(f"run {spec.run_id}: {BEGINNINGS[folder.state()]}", flush=True)

    def train(self, spec: RunSpec, store: Store) -> list[Failure]:
        """Bring the run to its end, showing how it goes."""
        pace = Pace(seconds=self.checkpoint_seconds, stages=self.checkpoint_stages)
        with choose_view(quiet=self.quiet)(store, [spec]):
            try:
                execute(spec, store, device=self.device, pace=pace, track=self.track)
            except RunIsBusy as error:
                return [Failure(spec, str(error), busy=True)]
        return failures(store, [spec])


BEGINNINGS = {
    "waiting": "new",
    "running": "another process is at work on it",
    "interrupted": "was interrupted, goes on from its last checkpoint",
    "done": "finished before; this is what came out",
    "diverged": "diverged before; the same numbers would do so again",
    "failed": "failed before, is tried again",
}


def find_metrics(names: Sequence[str]) -> tuple[Metric, ...]:
    """The metrics of these names at their defaults."""
    if "all" in names:
        return tuple(every_metric())
    return tuple(lookup.find(Metric, name)() for name in dict.fromkeys(names))


def tell_result(folder: RunFolder) -> None:
    """Accuracies stage by stage, how the run ended, and where it is."""
    records, status = folder.records(), folder.status()
    if records:
        print_accuracies(records)
    reason = f": {status['reason']}" if status["state"] == "diverged" else ""
    print(f"run {folder.path.name} is {folder.state()}{reason}\nfolder: {folder.path.resolve()}")


def print_accuracies(records: Sequence[Record]) -> None:
    """One line a stage; of many stages the first and the last."""
    names = [name for name in records[-1] if name.endswith("_accuracy")]
    rows = [(str(record["stage"] + 1), *(f"{record[name]:.4f}" for name in names)) for record in records]
    if len(rows) > MAX_FIRST + MAX_LAST + 1:
        rows[MAX_FIRST:-MAX_LAST] = [("...", *("" for _ in names))]
    print_table(
        ("stage", *(name.removesuffix("_accuracy") for name in names)), rows, title="accuracy at the end of each stage"
    )
