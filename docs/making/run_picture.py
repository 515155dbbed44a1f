"""How a run works: from a command line to a page, with the files that do each part."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from shade import Shade, panels

# What happens, where, and what goes on to the next.
PARTS = (
    ("supple run supervised", "cli.py, commands/run.py", "options"),
    ("which runs?", "paper/supervised.py, paper/tables.py", "RunSpec, one a run"),
    ("who runs them?", "sweep/sweep.py, sweep/local.py", "a worker a run"),
    ("lock, resume", "run/run.py, store/", "run folder, checkpoint"),
    ("train", "run/supervised.py, run/step.py", "records, a line a stage"),
    ("read back", "results/load.py", "arrays"),
    ("judge and draw", "paper/claims.py, report/", "page, figures, tables, JSON"),
)


def draw(shade: Shade) -> Figure:
    """Boxes from top to bottom; the files to their right, what is handed on between them."""
    with panels(columns=1, width=6.2, height=5.6) as (figure, (axes,)):
        axes.set_axis_off()
        axes.set_xlim(0, 8.6)
        axes.set_ylim(-len(PARTS) + 0.3, 0.6)
        for row, (what, where, result) in enumerate(PARTS):
            box_(axes, what, height=-row, shade=shade)
            axes.text(3.6, -row, where, va="center", fontsize=9.5, family="DejaVu Sans Mono")
            if row < len(PARTS) - 1:
                arrow = {"arrowstyle": "->", "color": shade.muted, "linewidth": 1.2}
                axes.annotate("", (0.6, -row - 0.72), (0.6, -row - 0.28), arrowprops=arrow)
            axes.text(0.85, -row - 0.5, result, va="center", fontsize=9.5, color=shade.of("aid"), fontweight="bold")
    return figure


def box_(axes: Axes, words: str, *, height: float, shade: Shade) -> None:
    """One part of the way."""
    box = FancyBboxPatch((0.2, height - 0.25), 3.1, 0.5, boxstyle="round,pad=0,rounding_size=0.12")
    box.set(facecolor="none", edgecolor=shade.muted, linewidth=1.2)
    axes.add_patch(box)
    axes.text(1.75, height, words, ha="center", va="center", fontsize=10.5)
