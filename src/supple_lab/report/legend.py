"""Legend: which look each curve of a figure has, the same in all its panels."""

from collections import Counter

from supple_lab.report.colours import Look, look_of_repeat
from supple_lab.report.figure import Curve, Figure

Key = tuple[str, str]  # method and label


def key_of(curve: Curve) -> Key:
    """What makes two curves of a figure entries of their own."""
    return curve.method, curve.label


def legend_of(figure: Figure) -> dict[Key, Look]:
    """A look per entry, in the order of appearance; a method's further entries differ in dashes and marker."""
    keys = dict.fromkeys(key_of(curve) for panel in figure.panels for curve in panel.curves)
    repeats: Counter[str] = Counter()
    looks = {}
    for method, label in keys:
        looks[method, label] = look_of_repeat(method, repeats[method])
        repeats[method] += 1
    return looks
