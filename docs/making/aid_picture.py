"""What AID does to numbers: what it gave in training, and the mean it gives in evaluation (the paper's Figure 1)."""

import torch
from matplotlib.figure import Figure
from shade import Shade, panels, titled_

import supple.functional as SF

P = 0.9
NUM_DRAWN = 160  # so few that the rare branch shows its dots


def draw(shade: Shade) -> Figure:
    """Left: draws of the function itself. Right: evaluation for several p."""
    generator = torch.Generator().manual_seed(0)
    x = torch.linspace(-2.0, 2.0, NUM_DRAWN)
    with panels(columns=2, width=6.2, height=3.5, sharey=True) as (figure, (training, evaluation)):
        y = SF.aid(x, P, training=True, generator=generator)
        branch = torch.where(x * y != 0, x > 0, x < 0)  # passed and positive, or dropped and negative: ReLU
        for taken, colour, label in (
            (branch, shade.of("aid"), f"ReLU (p = {P:g})"),
            (~branch, shade.of("dropout"), f"negative ReLU (1 - p = {1 - P:.1g})"),
        ):
            training.scatter(x[taken], y[taken], s=14, color=colour, label=label, linewidths=0)
        titled_(training, "training: drawn")
        lines = (
            (1.0, ":", "p = 1: ReLU"),
            (0.9, "-", "p = 0.9"),
            (0.7, "--", "p = 0.7"),
            (0.5, "-.", "p = 0.5: linear"),
        )
        for p, dashes, label in lines:
            colour = shade.of("aid") if p == P else shade.muted
            evaluation.plot(x, SF.aid(x, p, training=False), dashes, color=colour, label=label, linewidth=2)
        titled_(evaluation, "evaluation: the mean")
        for axes in (training, evaluation):
            axes.set_xlabel("pre-activation x")
            axes.grid(color=shade.rule, linewidth=0.7)
            axes.set_axisbelow(True)
            axes.set_xticks([-2, -1, 0, 1, 2])
            axes.legend(frameon=False, loc="upper left", fontsize=9, handletextpad=0.5)
        training.set_ylabel("activation")
    return figure
