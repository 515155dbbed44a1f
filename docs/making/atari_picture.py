"""DQN learning two games: the score at evaluation over the steps, beside that of a player at random."""

import json
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from quickstart_picture import LABELS
from shade import Shade, marker_of, panels, titled_

from supple_lab.rl.games import GAMES

NUMBERS = Path(__file__).parent.parent / "results" / "atari" / "learning.json"


def draw(shade: Shade) -> Figure:
    """A panel a game, one run a method."""
    runs = json.loads(NUMBERS.read_text())["runs"]
    titles = sorted({run["game"] for run in runs})
    with panels(columns=len(titles), width=7.0, height=3.2) as (figure, axes):
        for each, title in zip(axes, titles, strict=True):
            at_random, _ = GAMES[title]
            draw_game_(each, [run for run in runs if run["game"] == title], at_random, shade)
            titled_(each, title)
        axes[0].legend(frameon=False, loc="upper left", fontsize=9)
        axes[0].set_ylabel("score at evaluation")
    return figure


def draw_game_(axes: Axes, runs: list[dict], at_random: float, shade: Shade) -> None:
    """The runs of one game."""
    for run in runs:
        method = run["method"]["kind"]
        steps = [row["num_steps"] / 1000 for row in run["iterations"]]
        scores = [row["score"] for row in run["iterations"]]
        axes.plot(steps, scores, color=shade.of(method), label=LABELS[method], marker=marker_of(method), markersize=5)
    axes.axhline(at_random, color=shade.muted, linewidth=1, linestyle=(0, (1, 2)))
    axes.annotate("at random", (150, at_random), color=shade.muted, fontsize=9, ha="right", va="bottom")
    axes.set_xlabel("steps (thousands)")
    axes.grid(axis="y", color=shade.rule, linewidth=0.7)
    axes.set_axisbelow(True)
