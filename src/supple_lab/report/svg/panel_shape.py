"""The geometry of any panel."""

from collections.abc import Callable

from supple_lab.report.colours import Look
from supple_lab.report.figure import AnyPanel, Bars, Distribution, HeatMap, Key, Panel
from supple_lab.report.svg.bars import bars_shape
from supple_lab.report.svg.cells import cells_shape
from supple_lab.report.svg.curves import curves_shape
from supple_lab.report.svg.shape import Shape
from supple_lab.report.svg.violins import violins_shape

SHAPE_OF: dict[type, Callable[..., Shape]] = {
    Panel: curves_shape,
    Bars: bars_shape,
    Distribution: violins_shape,
    HeatMap: cells_shape,
}


def panel_shape(panel: AnyPanel, looks: dict[Key, Look]) -> Shape:
    """What the page draws for the panel."""
    return SHAPE_OF[type(panel)](panel, looks)
