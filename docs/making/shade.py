"""Shade: the colours of a picture on a light page and on a dark one, and how both are written as SVG."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from supple_lab.report.colours import look_of
from supple_lab.report.draw import SHAPES

IMAGES = Path(__file__).parent.parent / "images"


@dataclass(frozen=True, kw_only=True)
class Shade:
    """One of the two ways in which every picture is drawn."""

    ending: str  # of the file's name
    ink: str
    muted: str
    rule: str
    page: str  # never painted: pictures are transparent. Edges that must not touch are parted by it.

    def of(self, method: str) -> str:
        """The method's colour in every figure of the project."""
        look = look_of(method)
        return look.light if self.ending == "" else look.dark


LIGHT = Shade(ending="", ink="#1c2024", muted="#5f6872", rule="#d9dde1", page="#ffffff")
DARK = Shade(ending="-dark", ink="#e4e8ec", muted="#a2abb4", rule="#41474e", page="#1e2129")


def draw_both(name: str, draw: Callable[[Shade], Figure]) -> None:
    """Write images/NAME.svg and images/NAME-dark.svg, the same bytes on every run."""
    for shade in (LIGHT, DARK):
        with mpl.rc_context(style_of(shade, name)):
            path = IMAGES / f"{name}{shade.ending}.svg"
            draw(shade).savefig(path, transparent=True, metadata={"Date": None}, bbox_inches="tight", pad_inches=0.04)


def style_of(shade: Shade, name: str) -> dict[str, object]:
    """What matplotlib is told for this shade."""
    ink, muted = shade.ink, shade.muted
    return {
        "font.family": "DejaVu Sans",  # comes with matplotlib, so that all machines draw the same picture
        "font.size": 11,  # a phone shows a picture at half its size
        "text.color": ink,
        "axes.labelcolor": ink,
        "axes.titlecolor": ink,
        "axes.edgecolor": muted,
        "xtick.color": muted,
        "ytick.color": muted,
        "svg.hashsalt": name,
        "svg.fonttype": "path",  # a picture in a page finds no fonts of the page
    }


@contextmanager
def panels(*, columns: int, width: float, height: float, **more: object) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure with a row of quiet axes."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = list(figure.subplots(1, columns, squeeze=False, **more)[0])  # type: ignore[arg-type]
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
        each.tick_params(length=0)
    yield figure, axes


def titled_(axes: Axes, title: str) -> None:
    """A heading flush with the left edge of the axes."""
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", pad=8)


def marker_of(method: str) -> str:
    """The method's marker in every figure of the project."""
    return SHAPES[look_of(method).marker]
