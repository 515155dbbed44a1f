"""Colours: one look per method, the same in every figure and on every page.

The hues are those of Okabe and Ito's palette for colour-blind readers and of Paul Tol's muted one, moved in lightness
until each has a contrast of 3 to 1 with the page (WCAG 2.1, 1.4.11), in the light and in the dark. Vermillion is AID's
alone. Dashes and markers differ between any two methods, so that a figure survives a black-and-white printer.
"""

import hashlib
from dataclasses import dataclass, replace
from typing import Literal

Marker = Literal["circle", "square", "up", "down", "diamond", "plus", "cross", "star", "left", "right"]
Dashes = tuple[float, ...]  # lengths of ink and gap in line widths, none for a solid line

SOLID: Dashes = ()
DASHED: Dashes = (4.0, 1.6)
DOTTED: Dashes = (1.2, 1.2)
DASH_DOT: Dashes = (5.0, 1.4, 1.2, 1.4)
DASHES = (SOLID, DASHED, DOTTED, DASH_DOT)

LIGHT_PAGE = "#ffffff"
DARK_PAGE = "#14171a"


@dataclass(frozen=True)
class Look:
    """How a method's line is drawn."""

    light: str  # on a light page and on paper
    dark: str  # on a dark page
    dashes: Dashes
    marker: Marker
    stands_out: bool = False  # a thicker line, drawn last
    repeat: int = 0  # of the colour in the same figure: the second is 1

    @property
    def fill(self) -> float:
        """How opaque a bar is filled: a colour's further bars are paler."""
        return (1.0, 0.3, 0.65)[self.repeat % 3]


LOOKS = {
    "aid": Look("#d55e00", "#ff8a3d", SOLID, "circle", stands_out=True),
    "vanilla": Look("#4d4d4d", "#c4c8cc", SOLID, "square"),
    "dropout": Look("#0072b2", "#5cb3ea", DASHED, "up"),
    "drop_relu": Look("#2f93cf", "#9ad4f5", DASH_DOT, "down"),
    "rrelu": Look("#332288", "#a99cf2", DOTTED, "diamond"),
    "crelu": Look("#009e73", "#3ccfa4", SOLID, "plus"),
    "fourier": Look("#2f9488", "#7fdccf", DASHED, "cross"),
    "identity": Look("#8a8f94", "#8a9096", DOTTED, "left"),
    "sigmoid": Look("#6b5b95", "#b7a9dd", DASH_DOT, "right"),
    "tanh": Look("#7a6a55", "#c9b8a0", DASHED, "star"),
    "l2": Look("#c0609a", "#e9a3c9", SOLID, "up"),
    "l2_init": Look("#882255", "#d873a8", DASHED, "down"),
    "s_ewc": Look("#aa4499", "#e07fd2", DOTTED, "square"),
    "shrink_perturb": Look("#6b4a00", "#f7dc8c", SOLID, "diamond"),
    "dash": Look("#6c6c38", "#d9db9c", DASHED, "plus"),
    "redo": Look("#117733", "#59c47d", DASH_DOT, "circle"),
    "cbp": Look("#4477aa", "#88b5e0", DOTTED, "cross"),
    "full_reset": Look("#000000", "#ffffff", DASHED, "square"),
}

MARKERS: tuple[Marker, ...] = ("circle", "square", "up", "down", "diamond", "plus", "cross", "star", "left", "right")


def look_of(method: str) -> Look:
    """The method's look; one that is not in the table gets the look its name hashes to, the same on every machine."""
    if method in LOOKS:
        return LOOKS[method]
    number = int.from_bytes(hashlib.sha256(method.encode()).digest()[:8])
    quiet = [look for look in LOOKS.values() if not look.stands_out]
    number, colour = divmod(number, len(quiet))
    number, marker = divmod(number, len(MARKERS))
    return replace(quiet[colour], dashes=DASHES[number % len(DASHES)], marker=MARKERS[marker])


def look_of_repeat(method: str, repeat: int) -> Look:
    """The look of a method's further curve in the same panel: its colour, other dashes and another marker."""
    look = look_of(method)
    dashes = DASHES[(DASHES.index(look.dashes) + repeat) % len(DASHES)]
    marker = MARKERS[(MARKERS.index(look.marker) + repeat) % len(MARKERS)]
    return replace(look, dashes=dashes, marker=marker, repeat=repeat)
