"""Which p the paper chose for which job: its tables, as the studies hold them, and what this project uses itself."""

from collections import Counter

from matplotlib.figure import Figure
from shade import Shade, panels

from supple.methods.activations import UseAID
from supple_lab.paper.tables import EXPERIMENTS, best

PLACES = (0.7, 0.8, 0.9, 0.95, 0.99, 0.999)
OURS = "our demo"


def jobs() -> dict[str, Counter[float]]:
    """Every job with how often each p was chosen for it: once for each network, optimizer or game."""
    experiments = {
        "inputs change": "permuted_input",
        "labels change": "random_label",
        "data grows, old stays": "continual_full",
        "data grows, old goes": "continual_limited",
        "classes are added": "class_incremental",
        "one dataset": "supervised",
        "DQN on Atari": "atari",
        OURS: "quickstart",
    }
    return {job: Counter(chosen(experiment)) for job, experiment in experiments.items()}


def chosen(experiment: str) -> list[float]:
    """The p of AID in each case."""
    methods = [row.method for case in EXPERIMENTS[experiment].best for row in best(experiment, case)]
    return [method.relu_prob for method in methods if isinstance(method, UseAID)]


def draw(shade: Shade) -> Figure:
    """One line a job; a larger dot was chosen more often."""
    with panels(columns=1, width=6.0, height=3.6) as (figure, (axes,)):
        for height, (job, counts) in enumerate(reversed(jobs().items())):
            colour = shade.of("dropout") if job == OURS else shade.of("aid")
            places = [PLACES.index(p) for p in counts]
            axes.plot([min(places), max(places)], [height, height], color=colour, linewidth=3, alpha=0.35)
            axes.scatter(
                places, [height] * len(places), s=[150 + 28 * n for n in counts.values()], color=colour, zorder=3
            )
            for place, count in zip(places, counts.values(), strict=True):
                axes.text(place, height - 0.03, str(count), color=shade.page, ha="center", va="center", fontsize=8.5)
        axes.set_yticks(range(len(jobs())), labels=reversed(jobs()))
        axes.set_xticks(range(len(PLACES)), labels=[f"{p:g}" for p in PLACES])
        axes.tick_params(labelcolor=shade.ink)
        axes.set_xlabel("p: how often AID is ReLU")
        axes.set_xlim(-0.5, len(PLACES) - 0.5)
        axes.grid(axis="x", color=shade.rule, linewidth=0.7)
        axes.set_axisbelow(True)
        axes.spines[["left", "bottom"]].set_visible(False)
    return figure
