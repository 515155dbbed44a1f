"""supple play: one agent learns one game by DQN, for any length and with any method. The same command continues."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from supple_lab.commands.one_run import OneRun, find_metrics, print_stages
from supple_lab.models.base import Model
from supple_lab.models.nature_dqn import NatureDQN
from supple_lab.optimizer import Optimizer
from supple_lab.paper.tables import ATARI_ADAM
from supple_lab.rl.atari import Atari
from supple_lab.rl.dqn_problem import DQN, METRICS
from supple_lab.rl.games import GAMES
from supple_lab.run.check import num_weights
from supple_lab.run.recorder import CHECKPOINT_SECONDS
from supple_lab.spec import RunSpec
from supple_lab.store.reading import Record

COLUMNS = {  # of the table of results: heading and format
    "num_steps": ("steps", "{:,}"),
    "score": ("evaluation score", "{:,.2f}"),
    "train_score": ("training score", "{:,.2f}"),
    "srank": ("effective rank", "{:.0f}"),
    "dormant_ratio": ("dormant share", "{:.4f}"),
}


@dataclass(frozen=True, kw_only=True)
class Play(OneRun):
    """Have one agent learn one game by DQN, with any method. The same command again continues what is unfinished."""

    name = "play"
    aliases = {"game": {title: {"kind": "atari", "title": title} for title in GAMES}}  # noqa: RUF012  (a constant)
    description = """Have one agent learn one game by DQN. The same command again continues what is unfinished.

For example: supple play --game Breakout --method aid --method.relu-prob 0.99

Defaults are the paper's: ten iterations of 250,000 steps, 2.5 million in all (but a learning rate of 6.25e-5:
the 6.25e-4 that it prints is taken for a slip). Game, model, method and optimizer are chosen by name, and each has
fields of its own. Below are the fields of the parts that are named on this command line; for others name them, as in:
supple play --game Pong --method redo --help

Atari games need ale-py and opencv: pip install -e '.[rl]' in a checkout. The game chain needs
neither; play it with --model mlp."""

    rules: DQN
    model: Model = field(default_factory=NatureDQN)
    optimizer: Optimizer = field(default_factory=lambda: ATARI_ADAM)
    seed: int = 0
    """Decides initial weights, games, actions at random, what is learned from and masks, each by its own stream."""
    metrics: tuple[str, ...] = tuple(metric.name for metric in METRICS)
    """Measure these at the ends of iterations: names from `supple list metrics`, or all that a game allows."""
    out: Path = Path("out/play")
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    """Write a checkpoint at the end of a segment if the last is so many seconds old. A kill costs as much and the
    segment, or the evaluation, under way."""

    def problem(self) -> DQN:
        metrics = find_metrics(self.metrics)
        if "all" in self.metrics:
            metrics = tuple(metric for metric in metrics if not metric.needs_task)
        return replace(self.rules, metrics=metrics)

    def size_of(self, spec: RunSpec) -> str:
        rules, game = self.rules, self.rules.game
        title = game.title if isinstance(game, Atari) else game.name
        num_steps = rules.num_iterations * rules.steps_per_iteration
        return (
            f"{title}; {type(spec.model).__name__}, {num_weights(spec, self.rules):,} parameters; "
            f"{rules.num_iterations:,} {'iteration' if rules.num_iterations == 1 else 'iterations'}, "
            f"{num_steps:,} steps, {rules.num_updates:,} updates, "
            f"{rules.num_iterations * rules.evaluation_steps:,} steps of evaluation"
        )

    def print_results(self, records: Sequence[Record]) -> None:
        columns = {name: column for name, column in COLUMNS.items() if name in records[-1]}
        rows = [
            (str(record["stage"] + 1), *(form.format(record[name]) for name, (_, form) in columns.items()))
            for record in records
        ]
        header = ("iteration", *(heading for heading, _ in columns.values()))
        print_stages(header, rows, title="after each iteration")
