"""Three verdicts of plasticity_gap as curves: lost, plastic, and nothing to learn."""

import json

import numpy as np
from matplotlib.figure import Figure
from shade import IMAGES, Shade, panels, titled_

TITLES = {"lost": "ReLU, new labels", "kept": "AID, new labels", "known": "AID, labels it knows"}
LABELS = {"model": "copy of the model", "fresh": "fresh network"}


def draw(shade: Shade) -> Figure:
    """One panel a question, with the verdict below its title."""
    gaps = json.loads((IMAGES / "gap.json").read_text())["gaps"]
    with panels(columns=len(TITLES), width=7.4, height=3.1, sharey=True) as (figure, row):
        for axes, (name, title) in zip(row, TITLES.items(), strict=True):
            for who, dashes, colour in (("model", "-", shade.of("aid")), ("fresh", "--", shade.of("dropout"))):
                curves, steps = np.array(gaps[name][who]), gaps[name]["steps"]
                axes.fill_between(steps, curves.min(axis=0), curves.max(axis=0), color=colour, alpha=0.2, linewidth=0)
                axes.plot(steps, curves.mean(axis=0), dashes, color=colour, label=LABELS[who], linewidth=2.2)
            titled_(axes, f"{title}:\n{gaps[name]['verdict']}")
            axes.set_xlabel("steps")
            axes.set_xticks([0, 150, 300])
            axes.grid(axis="y", color=shade.rule, linewidth=0.7)
            axes.set_axisbelow(True)
        row[0].set_ylabel("loss")
        row[0].set_ylim(0.0, 4.4)
        row[1].legend(frameon=False, loc="upper right", fontsize=9.5)
    return figure
