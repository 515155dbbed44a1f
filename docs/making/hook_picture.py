"""When the methods act: the training loop, with each method at the hooks in which it does something of its own."""

import textwrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from shade import Shade, panels

from supple.methods.base import Method
from supple_lab.paper.compare import label_of
from supple_lab.registry import known

# A line of the loop and the hook that comes there, from top to bottom.
STEPS = (
    ("build the network", "activation"),
    ("a stage begins", "begin_stage"),
    ("loss, backward", "after_backward"),
    ("optimizer step", "after_step"),
    ("the stage ends", "end_stage"),
)
NO_SUBJECT = ("vanilla", "full_reset", "chain")  # they have the activation of another


def methods_at(hook: str) -> list[str]:
    """The methods that do something there, as figures call them."""
    left_out = NO_SUBJECT if hook == "activation" else ("chain",)
    return [label_of(name) for name, cls in known(Method).items() if cls.acts_in(hook) and name not in left_out]


def draw(shade: Shade) -> Figure:
    """Boxes from top to bottom, the inner two looped; the methods to their right."""
    with panels(columns=1, width=6.6, height=5.8) as (figure, (axes,)):
        axes.set_axis_off()
        axes.set_xlim(0, 9.6)
        axes.set_ylim(-len(STEPS) + 0.4, 0.6)
        for row, (line, hook) in enumerate(STEPS):
            box_(axes, line, height=-row, shade=shade)
            axes.text(3.35, -row + 0.2, hook, color=shade.muted, fontsize=9, va="center", family="DejaVu Sans Mono")
            names = "\n".join(textwrap.wrap(" · ".join(methods_at(hook)), 60))
            axes.text(3.35, -row + 0.05, names, color=shade.of("aid"), fontsize=7.8, va="top", fontweight="bold")
        loop_(axes, top=-2, bottom=-3, left=0.42, words="every step", shade=shade)
        loop_(axes, top=-1, bottom=-4, left=0.12, words="every stage", shade=shade)
    return figure


def box_(axes: Axes, words: str, *, height: float, shade: Shade) -> None:
    """A line of the loop."""
    box = FancyBboxPatch((0.85, height - 0.28), 2.2, 0.56, boxstyle="round,pad=0,rounding_size=0.12")
    box.set(facecolor="none", edgecolor=shade.muted, linewidth=1.2)
    axes.add_patch(box)
    axes.text(1.95, height, words, ha="center", va="center", fontsize=10)


def loop_(axes: Axes, *, top: float, bottom: float, left: float, words: str, shade: Shade) -> None:
    """A line that goes back up, with how often."""
    axes.plot([0.8, left, left], [bottom, bottom, top], color=shade.muted, linewidth=1.2, solid_joinstyle="round")
    axes.annotate("", (0.83, top), (left, top), arrowprops={"arrowstyle": "->", "color": shade.muted, "linewidth": 1.2})
    axes.text(
        left - 0.06, (top + bottom) / 2, words, rotation=90, ha="right", va="center", fontsize=8.5, color=shade.muted
    )
