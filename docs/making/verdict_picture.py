"""The paper's claims: a square for each, as far filled as its comparisons were run, with its verdict."""

from collections import Counter
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from shade import LIGHT, Shade, panels
from verdict_table import Judged, judged_claims

from supple_lab.report.figure import Verdict
from supple_lab.report.page import VERDICT_SIGNS

COLOURS: dict[Verdict, tuple[str, str]] = {
    "holds": ("#0b6b4f", "#5fd0a8"),
    "fails": ("#a63c00", "#ff9a63"),
    "not decided": ("#d8b13a", "#b98f1e"),
}
SIDE, STEP = 0.8, 1.0


def draw(shade: Shade) -> Figure:
    """One line a study, in the paper's order; how many claims have which verdict on top."""
    claims = judged_claims()
    rows = [(study, list(some)) for study, some in groupby(claims, key=lambda claim: claim.study)]
    with panels(columns=1, width=6.6, height=0.36 * (len(rows) + 1.6)) as (figure, (axes,)):
        axes.set_axis_off()
        axes.set_aspect("equal")
        axes.set_xlim(-6.2, 12.2)
        axes.set_ylim(-len(rows) * STEP + 0.9, 2.0)
        legend_(axes, Counter(claim.verdict for claim in claims), shade=shade)
        for number, (study, some) in enumerate(rows):
            axes.text(-0.35, -number + SIDE / 2, study.replace("_", " "), ha="right", va="center", fontsize=9.5)
            for place, claim in enumerate(some):
                square_(axes, claim, left=place * STEP, bottom=-number * STEP, shade=shade)
    return figure


def square_(axes: Axes, claim: Judged, *, left: float, bottom: float, shade: Shade) -> None:
    """Filled from below by the shares of its comparisons."""
    height = bottom
    for verdict, colours in COLOURS.items():
        share = SIDE * claim.counts[verdict] / max(1, claim.counts.total())
        axes.add_patch(Rectangle((left, height), SIDE, share, facecolor=colour_of(colours, shade), linewidth=0))
        height += share
    axes.add_patch(Rectangle((left, bottom), SIDE, SIDE, facecolor="none", edgecolor=shade.muted, linewidth=0.8))
    sign = VERDICT_SIGNS[claim.verdict]
    text = axes.text(
        left + SIDE / 2, bottom + SIDE / 2, sign, ha="center", va="center", fontsize=9.5, fontweight="bold"
    )
    text.set_path_effects([withStroke(linewidth=2.5, foreground=shade.page)])  # legible on every colour


def legend_(axes: Axes, counts: Counter[Verdict], *, shade: Shade) -> None:
    """Sign, colour and number of each verdict."""
    for left, (verdict, sign) in zip((-6.0, -2.0, 1.7, 7.2), VERDICT_SIGNS.items(), strict=True):
        face = colour_of(COLOURS[verdict], shade) if verdict in COLOURS else "none"
        axes.add_patch(Rectangle((left, 1.15), 0.6, 0.6, facecolor=face, edgecolor=shade.muted, linewidth=0.8))
        axes.text(left + 0.85, 1.43, f"{sign} {verdict}: {counts[verdict]}", va="center", fontsize=10)


def colour_of(colours: tuple[str, str], shade: Shade) -> str:
    """The one for a light page, or for a dark one."""
    return colours[0] if shade is LIGHT else colours[1]
