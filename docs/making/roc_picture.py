"""How well each number of the Monitor predicts a loss of plasticity: ROC curves with bands."""

import json

from matplotlib.figure import Figure
from shade import IMAGES, Shade

RATES = IMAGES.parent / "results" / "monitor_reference" / "rates.json"
TITLES = {
    "dormant": "silent units",
    "saturated": "units of one sign",
    "dead_gradient": "no gradient",
    "srank": "directions lost",
    "sign_entropy": "sign entropy lost",
    "weight_growth": "weights grown",
    "weight_decay": "weights shrunk",
    "gradient_decay": "gradients shrunk",
    "wear": "wear",
    "wear and gap": "wear and gap",
}
LAYERS = {"any layer": ("-", "aid"), "mean of layers": ("--", "dropout")}
SUMS = ("wear", "wear and gap")  # means of layers


def draw(shade: Shade) -> Figure:
    """A panel for each number: share of ruined trainings noticed in time over share of healthy ones warned of."""
    curves = json.loads(RATES.read_text())["curves"]
    figure = Figure(figsize=(9.6, 4.8), layout="constrained")
    for axes, (key, title) in zip(figure.subplots(2, 5, sharex=True, sharey=True).flat, TITLES.items(), strict=True):
        axes.plot([0, 1], [0, 1], color=shade.rule, linewidth=1)
        for place, (over, (dashes, colour)) in enumerate(LAYERS.items()):
            if key in SUMS and over == "any layer":
                continue
            curve, colour = curves[over][key], shade.of(colour)
            axes.fill_between(curve["warned"], curve["low"], curve["high"], color=colour, alpha=0.15, linewidth=0)
            axes.plot(curve["warned"], curve["noticed"], dashes, color=colour, linewidth=2, label=over)
            low, high = curve["interval"]
            text = f"{curve['area']:.2f} [{low:.2f}, {high:.2f}]"
            axes.text(0.98, 0.14 - 0.11 * place, text, color=colour, ha="right", va="bottom", fontsize=8.5)
        axes.set_title(title, loc="left", fontsize=9.5, fontweight="bold")
        axes.set(xticks=[0, 0.5, 1], xticklabels=["0", "0.5", "1"], yticks=[0, 0.5, 1], xlim=(0, 1), ylim=(0, 1.02))
        axes.tick_params(length=0)
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower right", ncols=2, frameon=False, fontsize=9.5)
    figure.supxlabel("healthy trainings warned of", fontsize=10, x=0.3)
    figure.supylabel("ruined ones noticed in time", fontsize=10)
    return figure
