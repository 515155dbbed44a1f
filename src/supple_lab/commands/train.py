"""supple train: one run of any scenario, dataset, model, method and optimizer. The same command again continues."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from supple_lab.commands.base import BadUsage
from supple_lab.commands.one_run import OneRun, find_metrics, print_stages
from supple_lab.data.base import Dataset
from supple_lab.data.digits import Digits
from supple_lab.data.files import use_folder
from supple_lab.models.base import Model
from supple_lab.models.mlp import MLP
from supple_lab.optimizer import Adam, Optimizer
from supple_lab.run.check import num_parameters, num_steps_of, smallest_batch
from supple_lab.run.recorder import CHECKPOINT_SECONDS
from supple_lab.scenarios.base import Scenario
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.spec import RunSpec, Supervised
from supple_lab.store.reading import Record

MAX_METRICS = 4  # that are shown


@dataclass(frozen=True, kw_only=True)
class Train(OneRun):
    """Train one network, on any scenario with any method. The same command again continues what is unfinished."""

    name = "train"
    description = """Train one network. The same command again continues what is unfinished.

Scenario, dataset, model, method and optimizer are chosen by name, and each has fields of its own: for example --method
aid --method.relu-prob 0.95. Below are the fields of the parts that are named on this command line; for others name
them, as in: supple train --method cbp --model cnn --help

Always recorded: accuracy and loss, online and on the test sets after each epoch, and on the training set at the end of
each stage; --metrics adds more."""

    scenario: Scenario = field(default_factory=RandomLabel)
    dataset: Dataset = field(default_factory=Digits)
    model: Model = field(default_factory=MLP)
    optimizer: Optimizer = field(default_factory=Adam)
    seed: int = 0
    """Decides initial weights, tasks, order of the data and masks, each by a stream of its own."""
    metrics: tuple[str, ...] = ()
    """Measure these at the ends of stages: names from `supple list metrics`, or all."""
    metrics_every: int = 1
    """Measure the metrics at every so many stages only, and at the last."""
    subnetworks: int = 0
    """Train so many subnetworks on new labels at the end of each stage, on copies (paper section 3.1)."""
    out: Path = Path("out/train")
    data: Path | None = None
    """Folder of the datasets. Default: $SUPPLE_DATA, then a cache folder."""
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    """Write a checkpoint after so many seconds: what a kill costs at most."""

    def problem(self) -> Supervised:
        if self.metrics_every > 1 and not self.metrics:
            raise BadUsage(
                "--metrics-every says how often to measure; say what with --metrics NAME ..., or --metrics all."
            )
        return Supervised(
            scenario=self.scenario,
            dataset=self.dataset,
            metrics=find_metrics(self.metrics),
            metrics_every=self.metrics_every,
            subnetworks=self.subnetworks,
        )

    def make_ready(self) -> None:
        if self.data is not None:
            use_folder(self.data)

    def size_of(self, spec: RunSpec) -> str:
        facts, num_stages = self.dataset.facts, self.scenario.num_stages
        number = num_parameters(spec.model, spec.method, facts, smallest_batch(self.scenario, facts))
        return (
            f"{type(spec.model).__name__}, {number:,} parameters; "
            f"{num_stages:,} {'stage' if num_stages == 1 else 'stages'}, {num_steps_of(self.problem()):,} steps"
        )

    def print_results(self, records: Sequence[Record]) -> None:
        names = [name for name in records[-1] if name.endswith("_accuracy")]
        rows = [(str(record["stage"] + 1), *(f"{record[name]:.4f}" for name in names)) for record in records]
        header = ("stage", *(name.removesuffix("_accuracy") for name in names))
        print_stages(header, rows, title="accuracy at the end of each stage (online: over all of it)")
        own = [name for name in records[-1] if name != "stage" and not name.endswith(("_accuracy", "_loss"))]
        if own:
            shown = ", ".join(f"{name} {records[-1][name]:.4g}" for name in own[:MAX_METRICS])
            print(
                f"metrics at the end of the last stage: {shown}; all {len(own)}, by stage: records.jsonl in the folder"
            )
