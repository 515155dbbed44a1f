"""Is it plasticity loss? The questions in their order, and what each answer means."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from shade import Shade, panels

# A question, the answer that leaves the trunk, what it means, and what to do; the other answer goes on downwards.
QUESTIONS = (
    (
        "Do fresh networks learn\nthe next data?",
        "no",
        "the data, the budget\nor the learning rate",
        "more steps, lr='best'",
    ),
    ("Does yours start\nwhere they end?", "yes", "nothing to learn", "ask with new data,\ntargets='random'"),
    ("Does it stay behind?\nvalue > 0.5, level > 0", "yes", "plasticity lost", "supple.diagnose,\nthen a method"),
    ("Does it end above\nwhere they start?", "yes", "weights exploded", "supple.diagnose,\na lower learning rate"),
    (
        "With your optimizer=,\ndo both learn?",
        "no",
        "learning rate too high\nor too low",
        "lr='best' shows\na better one",
    ),
    ("Is it old data\nthat it does badly on?", "yes", "forgetting", "replay, not a remedy\nagainst plasticity loss"),
    (
        "Does diagnose find\nstale optimizer state?",
        "yes",
        "stale optimizer",
        "a new optimizer, or\nFreshOptimizer(every=1000)",
    ),
)
LAST = "plastic: the data changed"
ON = {"no": "yes", "yes": "no"}


def draw(shade: Shade) -> Figure:
    """The trunk of questions to the left; to its right what to read off and what to do."""
    with panels(columns=1, width=7.4, height=8.2) as (figure, (axes,)):
        axes.set_axis_off()
        axes.set_xlim(0.0, 10.0)
        axes.set_ylim(-len(QUESTIONS) - 0.35, 0.5)
        for row, (question, leaving, meaning, advice) in enumerate(QUESTIONS):
            is_lost = meaning == "plasticity lost"
            colour = shade.of("aid") if is_lost else shade.muted
            box_(axes, question, left=0.1, width=3.4, row=row, edge=shade.muted)
            box_(axes, meaning, left=4.5, width=2.75, row=row, edge=colour, weight="bold" if is_lost else "normal")
            axes.text(7.45, -row, advice, va="center", fontsize=9, color=shade.muted)
            arrow_(axes, (3.5, -row), (4.5, -row), colour=colour)
            axes.text(4.0, -row + 0.07, leaving, ha="center", va="bottom", fontsize=9)
            arrow_(axes, (1.8, -row - 0.32), (1.8, -row - 0.68), colour=shade.muted)
            axes.text(1.92, -row - 0.5, ON[leaving], va="center", fontsize=9)
        box_(axes, LAST, left=0.1, width=3.4, row=len(QUESTIONS), edge=shade.muted)
    return figure


def box_(axes: Axes, words: str, *, left: float, width: float, row: int, edge: str, weight: str = "normal") -> None:
    box = FancyBboxPatch((left, -row - 0.3), width, 0.6, boxstyle="round,pad=0,rounding_size=0.1")
    box.set(facecolor="none", edgecolor=edge, linewidth=1.3)
    axes.add_patch(box)
    axes.text(left + width / 2, -row, words, ha="center", va="center", fontsize=9.5, fontweight=weight)


def arrow_(axes: Axes, start: tuple[float, float], end: tuple[float, float], *, colour: str) -> None:
    look = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=end, xytext=start, arrowprops=look)
