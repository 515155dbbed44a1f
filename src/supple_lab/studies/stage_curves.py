"""Stage curves: a metric over the stages, one line a method."""

from collections.abc import Mapping

from supple_lab.report.panel import Curve
from supple_lab.report.results import Results
from supple_lab.studies.labels import label_of


def stage_curves(by_method: Mapping[str, Results], metric: str) -> tuple[Curve, ...]:
    """One curve for each method there is anything to draw of; the band is one standard deviation, as in the paper."""
    return tuple(
        Curve(
            method=name,
            label=label_of(name),
            x=results.stages(metric) + 1,
            values=results.matrix(metric),
            band="deviation",
        )
        for name, results in by_method.items()
        if results.drawn and len(results.stages(metric))
    )
