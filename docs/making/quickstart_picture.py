"""The quickstart as curves: the accuracy that falls, and what happens inside the network meanwhile."""

import json

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from shade import IMAGES, Shade, marker_of, panels, titled_

NUMBERS = IMAGES / "quickstart.json"
LABELS = {"vanilla": "ReLU", "dropout": "ReLU + Dropout", "aid": "AID"}
INSIDE = {
    "dormant_ratio": "units that never fire",
    "saturated_share": "units that never change sign",
}


def draw_accuracy(shade: Shade) -> Figure:
    """Accuracy at the end of each stage."""
    with panels(columns=1, width=6.0, height=3.5) as (figure, (axes,)):
        draw_curves_(axes, "train_accuracy", shade)
        axes.axhline(0.1, color=shade.muted, linewidth=1, linestyle=(0, (1, 2)))
        axes.text(0.6, 0.115, "chance", color=shade.muted, fontsize=9, va="bottom")
        axes.set_ylabel("accuracy on these labels")
        titled_(axes, "New labels, twenty times: who still learns?")
        axes.legend(frameon=False, loc="center right", fontsize=9.5)
    return figure


def draw_inside(shade: Shade) -> Figure:
    """Dead and stuck units, stage by stage."""
    with panels(columns=len(INSIDE), width=6.2, height=3.2) as (figure, axes):
        for each, (metric, title) in zip(axes, INSIDE.items(), strict=True):
            draw_curves_(each, metric, shade)
            titled_(each, title)
        axes[0].legend(frameon=False, loc="upper left", fontsize=9)
    return figure


def draw_curves_(axes: Axes, metric: str, shade: Shade) -> None:
    """Mean over seeds and their range, one curve a method."""
    for method, series in json.loads(NUMBERS.read_text())["series"].items():
        values = np.array(series[metric])  # seeds x stages
        stages = np.arange(1, values.shape[1] + 1)
        colour = shade.of(method)
        axes.fill_between(stages, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.2, linewidth=0)
        axes.plot(
            *(stages, values.mean(axis=0)),
            color=colour,
            label=LABELS[method],
            linewidth=2.6 if method == "aid" else 1.7,
            marker=marker_of(method),
            markersize=5,
            markeredgecolor=shade.page,
            markeredgewidth=0.6,
        )
    axes.set_xlabel("stage")
    axes.set_xticks([1, 5, 10, 15, 20])
    axes.set_ylim(-0.02, 1.03)
    axes.grid(axis="y", color=shade.rule, linewidth=0.7)
    axes.set_axisbelow(True)
