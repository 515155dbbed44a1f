"""The Monitor's table: the numbers of each layer, its warnings, and how rows are written."""

import math
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from supple.activations import never_silent
from supple.metrics.base import Metric, measure
from supple.metrics.observe import Observation
from supple.metrics.rank import singular_values, srank
from supple.metrics.site import Site
from supple.metrics.units import binary_entropy, dormant_mask, dormant_scores, saturated_mask
from supple.metrics.weights import dead_rows, joint_norm
from supple.units import is_layer, out_dim

UNIT_SCALARS = ("dormant", "saturated", "sign_entropy", "srank")
DELTA = 0.01  # of srank: Kumar et al. 2021, as in `effective_rank`


@dataclass(frozen=True, kw_only=True)
class SiteNumbers:
    """Of the layer's units: dormant at tau 0, saturated, mean sign entropy, and the rank of at most 256 of h's rows.

    Where the forward drew a mask, h is what it is in evaluation; the features of the metrics are what was computed.
    """

    activation: str  # its class
    never_silent: bool  # dormant is 0 by construction
    finite: bool  # all that went through was a number
    num_units: int
    dormant: float
    saturated: float
    stuck: float  # saturated and not dormant
    sign_entropy: float
    srank: float
    max_srank: int  # min(rows, columns): what a healthy layer could reach


@dataclass(frozen=True, kw_only=True)
class LayerRow:
    """One layer with weights and the activation it feeds; either may be missing."""

    name: str
    units: SiteNumbers | None
    weight_norm: float | None
    gradient_norm: float | None  # None where there is no gradient to read
    dead_gradient: float | None = None  # of the rows of a linear or convolutional weight, those that get none

    def scalars(self) -> dict[str, float]:
        """The numbers that are there, by name."""
        own = ("weight_norm", "gradient_norm", "dead_gradient")
        weights = {key: getattr(self, key) for key in own}
        units = {} if self.units is None else {key: getattr(self.units, key) for key in UNIT_SCALARS}
        return {key: value for key, value in {**units, **weights}.items() if value is not None}


def layer_rows(observation: Observation) -> list[LayerRow]:
    """The layers of the observation in order of execution."""
    return [layer_row(observation, layer, site) for layer, site in pairs(observation)]


def layer_row(observation: Observation, layer: str | None, site: Site | None) -> LayerRow:
    """One row: the norms of the layer's own parameters, the numbers of its units."""
    parameters = () if layer is None else tuple(observation.layers[layer].parameters(recurse=False))
    gradients = [p.grad for p in parameters if p.grad is not None]
    return LayerRow(
        name=label(layer, site),
        units=None if site is None else site_numbers(site),
        weight_norm=joint_norm(parameters) if parameters else None,
        gradient_norm=joint_norm(dense(gradients)) if gradients else None,
        dead_gradient=None if layer is None else dead_share(observation.layers[layer]),
    )


def site_numbers(site: Site) -> SiteNumbers:
    """The numbers of one site."""
    q_U, rows_RV = site.positive_share, site.kept_rows
    dormant_U, saturated_U = dormant_mask(dormant_scores(site.magnitude), 0.0), saturated_mask(q_U)
    return SiteNumbers(
        activation=type(site.activation).__name__,
        never_silent=never_silent(site.activation),
        finite=bool(site.magnitude.isfinite().all()),
        num_units=site.num_units,
        dormant=share(dormant_U),
        saturated=share(saturated_U),
        # An activation that narrows (GLU) has another number of columns than of inputs: no telling which is which.
        stuck=share(saturated_U & ~dormant_U if dormant_U.shape == saturated_U.shape else saturated_U),
        sign_entropy=binary_entropy(q_U).mean().item(),
        srank=srank(singular_values(rows_RV), DELTA),
        max_srank=min(rows_RV.shape),
    )


def pairs(observation: Observation) -> Iterator[tuple[str | None, Site | None]]:
    """Each layer with the site it feeds; a site of no known layer stands alone, behind the site before it."""
    behind: dict[str | None, list[Site]] = defaultdict(list)
    latest = None
    for site in observation.sites:
        latest = site.layer or latest
        behind[latest].append(site)
    for layer in (None, *observation.layers):
        if layer is not None and not behind[layer]:
            yield layer, None
        for site in behind[layer]:
            yield (layer if site.layer == layer else None), site


def label(layer: str | None, site: Site | None) -> str:
    """The layer's name, or in brackets the activation's where no layer is known to feed it."""
    if layer is not None:
        return layer or "(model)"
    return "" if site is None else f"({site.name})"


def share(mask: Tensor) -> float:
    """How much of the mask is set."""
    return mask.double().mean().item()


def dead_share(layer: nn.Module) -> float | None:
    """How many rows of the layer's weight got no gradient at all; None where there is none to read."""
    # Rows of an embedding whose token did not occur are no fault.
    if not is_layer(layer) or layer.weight.grad is None:
        return None
    return share(dead_rows(layer.weight.grad.movedim(out_dim(layer), 0)))


def dense(gradients: Iterable[Tensor]) -> Iterator[Tensor]:
    """Gradients of sparse embeddings by the values they hold."""
    return (g.coalesce().values() if g.is_sparse else g for g in gradients)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Numbers of the whole network and of each layer."""

    source: str  # "train" or "probe"
    step: int
    num_samples: int
    layers: list[LayerRow]
    numbers: dict[str, float]  # by the metrics' names

    def scalars(self) -> dict[str, float]:
        """Everything by name: train/sign_entropy, train/fc1/dormant, ..."""
        network = {f"{self.source}/{name}": value for name, value in self.numbers.items()}
        layers = {f"{self.source}/{row.name}/{key}": v for row in self.layers for key, v in row.scalars().items()}
        return network | layers


def read(observation: Observation, metrics: Sequence[Metric], *, source: str, step: int) -> Reading:
    """What the observation says at this step."""
    return Reading(
        source=source,
        step=step,
        num_samples=max((site.num_samples for site in observation.sites), default=0),
        layers=layer_rows(observation),
        numbers=measure(metrics, observation),
    )


# On 256 digits a fresh ReLU MLP of three layers has 3% to 7% silent units a layer, and 7% to 14% that keep their sign;
# one of eight layers 5% to 19%, and 9% to 39%. On 16 digits it is about twice that: a small batch sees less.
SILENT = 0.10
SATURATED = 0.50
DEAD_ROWS = 0.10
# At widths of 64 to 512 a weight of rank 1 leaves 2 to 10 directions: its bias keeps them from being one. Fresh MLPs of
# up to five layers have 12 or more, even of two inputs, where more directions than 10 are less than a tenth.
COLLAPSED, MOST_COLLAPSED = 0.10, 10
THRESHOLDS = (
    f"warns at: {SILENT:.0%} never fire, {SATURATED:.0%} never change sign, {DEAD_ROWS:.0%} of rows get no gradient, "
    f"srank <= {COLLAPSED:.0%} (max {MOST_COLLAPSED})"
)


def warnings_of(reading: Reading) -> list[str]:
    """One sentence for each fault of each layer."""
    batch = "this batch" if reading.source == "train" else "the probe"
    return [f"layer {row.name}: {fault}" for row in reading.layers for fault in faults(row, batch)]


def faults(row: LayerRow, batch: str) -> Iterator[str]:
    """What is wrong with the layer, if anything."""
    if row.units is not None and not row.units.finite:
        yield f"activations are not finite on {batch}"
    if row.weight_norm is not None and not math.isfinite(row.weight_norm):
        yield "weights are not finite"
    if row.gradient_norm is not None and not math.isfinite(row.gradient_norm):
        yield "the gradient is not finite"
    if row.gradient_norm == 0.0:
        yield f"no gradient reached it on {batch}"
    elif row.dead_gradient is not None and row.dead_gradient >= DEAD_ROWS:
        yield f"{row.dead_gradient:.0%} of its weight's rows get no gradient"
    if row.units is not None:
        yield from unit_faults(row.units, batch)


def unit_faults(units: SiteNumbers, batch: str) -> Iterator[str]:
    """What is wrong with its units."""
    silent = units.dormant >= SILENT
    if silent:
        yield f"{units.dormant:.0%} of units never fire on {batch}"
    constant = units.stuck if silent else units.saturated  # the silent ones have been told already
    if constant >= SATURATED:
        yield f"{constant:.0%} of units {'fire and ' if silent else ''}never change sign on {batch}"
    if has_collapsed(units):
        yield f"activations have collapsed to {units.srank:.0f} of {units.max_srank} directions on {batch}"


def has_collapsed(units: SiteNumbers) -> bool:
    """Whether the units differ in next to no direction."""
    most = max(1.0, min(COLLAPSED * units.max_srank, MOST_COLLAPSED))
    return units.max_srank > 1 and units.srank <= most


def caveat(reading: Reading) -> str:
    """Where the dormant ratio says nothing, and what to read instead; empty where it speaks."""
    kinds = {row.units.activation for row in reading.layers if row.units is not None and row.units.never_silent}
    if not kinds:
        return ""
    return (
        f"dormant is 0 by construction for {', '.join(sorted(kinds))}, whose output is not 0 at negative inputs: "
        "read saturated and sign entropy there."
    )


WIDTH = 100
NAME_WIDTH = 27
COLUMNS = {
    "units": 6,
    "dormant": 9,
    "saturated": 11,
    "sign entropy": 14,
    "srank": 9,
    "weight norm": 13,
    "grad norm": 11,
}
SOURCES = {"train": "training forward, {} samples", "probe": "probe in evaluation mode, {} samples"}


def table(reading: Reading) -> str:
    """The whole reading."""
    title = f"step {reading.step}: {SOURCES[reading.source].format(reading.num_samples)}"
    if not reading.num_samples:
        title = f"step {reading.step}: weights and gradients"
    return "\n".join([title, line("layer", COLUMNS), *map(layer_line, reading.layers), summary(reading.numbers)])


def layer_line(row: LayerRow) -> str:
    """One layer."""
    return line(row.name, [*unit_cells(row), number(row.weight_norm), number(row.gradient_norm)])


def unit_cells(row: LayerRow) -> list[str]:
    """What is known of the layer's units; dashes where no activation follows, or none was seen."""
    units = row.units
    if units is None:
        return ["-"] * 5
    rank = f"{units.srank:.0f}/{units.max_srank}"
    return [str(units.num_units), f"{units.dormant:.1%}", f"{units.saturated:.1%}", f"{units.sign_entropy:.3f}", rank]


def line(name: str, cells: Iterable[str]) -> str:
    """The name, shortened from the left where it is long, and the cells under their headings."""
    short = name if len(name) <= NAME_WIDTH else "..." + name[3 - NAME_WIDTH :]
    padded = (cell.rjust(width) for cell, width in zip(cells, COLUMNS.values(), strict=True))
    return short.ljust(NAME_WIDTH) + "".join(padded)


def summary(numbers: dict[str, float]) -> str:
    """The numbers of the network, as many to a line as fit."""
    cells = [f"{name}={number(value)}" for name, value in numbers.items()]
    return wrapped("all: " + "  ".join(cells), indent=5)


def number(value: float | None) -> str:
    """Four digits, or a dash."""
    return "-" if value is None else f"{value:.4g}"


def wrapped(text: str, indent: int) -> str:
    """The text in lines that fit, all but the first indented."""
    return textwrap.fill(text, WIDTH, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


Row = dict[str, float]  # "step", and each number by its name
Write = Callable[[Row], object]


def write_of(writer: Any) -> Write:
    """What to call with each row: the writer's ``add_scalar`` for each number, or the writer if it is a function."""
    if writer is None:
        return nowhere
    if hasattr(writer, "add_scalar"):
        return ScalarWriter(writer)
    if callable(writer):
        return writer
    raise TypeError(
        "Monitor's writer must have add_scalar(tag, value, step), as TensorBoard's SummaryWriter, or be a function "
        f"of a row (a dict of numbers with its step); got {type(writer).__name__}."
    )


def nowhere(row: Row) -> None:
    """Write nothing."""


class ScalarWriter:
    """Hands each number of a row to ``add_scalar``."""

    def __init__(self, writer: Any) -> None:
        self.writer = writer

    def __call__(self, row: Row) -> None:
        step = int(row["step"])
        for tag, value in row.items():
            if tag != "step":
                self.writer.add_scalar(tag, value, step)
