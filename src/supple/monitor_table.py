"""The Monitor's table: the numbers of each layer, its warnings, and how rows are written."""

import functools
import math
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from supple.activations import never_silent
from supple.metrics.base import Metric, measure
from supple.metrics.observe import Observation, singular_values
from supple.metrics.rank import EffectiveRank, srank
from supple.metrics.sites import Site
from supple.metrics.units import binary_entropy, dormant_mask, dormant_scores, saturated_mask
from supple.metrics.weights import dead_rows, joint_norm
from supple.units import is_layer, out_dim

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
WIDTH, NAME_WIDTH = 100, 27
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
Row = dict[str, float]  # "step", and each number by its name


@dataclass(frozen=True, kw_only=True)
class SiteNumbers:
    """Of the layer's units: dormant at tau 0, saturated, mean sign entropy, and the rank of at most 256 of h's rows.

    If the forward drew a mask, h is what it is in evaluation; the features of the metrics are what was computed.
    """

    activation: str  # its class
    never_silent: bool  # dormant is 0 by construction
    finite: bool
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
    gradient_norm: float | None
    dead_gradient: float | None = None  # share of the rows of a linear or convolutional weight without gradient

    def scalars(self) -> dict[str, float]:
        units = {key: getattr(self.units, key, None) for key in ("dormant", "saturated", "sign_entropy", "srank")}
        weights = {key: getattr(self, key) for key in ("weight_norm", "gradient_norm", "dead_gradient")}
        return {key: value for key, value in {**units, **weights}.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Numbers of the whole network and of each layer."""

    source: str  # "train" or "probe"
    step: int
    num_samples: int
    layers: list[LayerRow]
    numbers: dict[str, float]  # by the metrics' names

    def scalars(self) -> dict[str, float]:
        """Return everything by name: train/sign_entropy, train/fc1/dormant, ..."""
        network = {f"{self.source}/{name}": value for name, value in self.numbers.items()}
        layers = {f"{self.source}/{row.name}/{key}": v for row in self.layers for key, v in row.scalars().items()}
        return network | layers


def read(observation: Observation, metrics: Sequence[Metric], *, source: str, step: int) -> Reading:
    return Reading(
        source=source,
        step=step,
        num_samples=max((site.num_samples for site in observation.sites), default=0),
        layers=[layer_row(observation, layer, site) for layer, site in pairs(observation)],
        numbers=measure(metrics, observation),
    )


def pairs(observation: Observation) -> Iterator[tuple[str | None, Site | None]]:
    """Yield each layer with the site it feeds; a site of no known layer alone, behind the layer called before it."""
    behind: dict[str | None, list[Site]] = defaultdict(list)
    for site in observation.sites:
        behind[site.after if site.layer is None else site.layer].append(site)
    for layer in (None, *observation.layers):
        if layer is not None and all(site.layer != layer for site in behind[layer]):
            yield layer, None
        for site in behind[layer]:
            yield (layer if site.layer == layer else None), site


def layer_row(observation: Observation, layer: str | None, site: Site | None) -> LayerRow:
    """Return the norms of the layer's own parameters and the numbers of its units."""
    module = None if layer is None else observation.layers[layer]
    parameters = () if module is None else tuple(module.parameters(recurse=False))
    gradients = [p.grad.coalesce().values() if p.grad.is_sparse else p.grad for p in parameters if p.grad is not None]
    dead = None
    # Rows of an embedding whose token did not occur are no fault.
    if module is not None and is_layer(module) and module.weight.grad is not None:
        dead = dead_rows(module.weight.grad.movedim(out_dim(module), 0)).double().mean().item()
    activation = "" if site is None else f"({site.name})"
    return LayerRow(
        name=activation if layer is None else layer or "(model)",
        units=None if site is None else site_numbers(site),
        weight_norm=joint_norm(parameters) if parameters else None,
        gradient_norm=joint_norm(gradients) if gradients else None,
        dead_gradient=dead,
    )


def site_numbers(site: Site) -> SiteNumbers:
    q_U, rows_RV = site.positive_share, site.kept_rows
    dormant_U, saturated_U = dormant_mask(dormant_scores(site.magnitude), 0.0), saturated_mask(q_U)
    # An activation that narrows (GLU) has another number of columns than of inputs, so they cannot be matched.
    stuck_U = saturated_U & ~dormant_U if dormant_U.shape == saturated_U.shape else saturated_U
    return SiteNumbers(
        activation=type(site.activation).__name__,
        never_silent=never_silent(site.activation),
        finite=bool(site.magnitude.isfinite().all()),
        num_units=site.num_units,
        dormant=dormant_U.double().mean().item(),
        saturated=saturated_U.double().mean().item(),
        stuck=stuck_U.double().mean().item(),
        sign_entropy=binary_entropy(q_U).mean().item(),
        srank=srank(singular_values(rows_RV), EffectiveRank.delta),
        max_srank=min(rows_RV.shape),
    )


def faults(row: LayerRow, batch: str) -> Iterator[str]:
    """Yield what is wrong with the layer, one sentence each."""
    units = row.units
    if units is not None and not units.finite:
        yield f"activations are not finite on {batch}"
    if row.weight_norm is not None and not math.isfinite(row.weight_norm):
        yield "weights are not finite"
    if row.gradient_norm is not None and not math.isfinite(row.gradient_norm):
        yield "the gradient is not finite"
    if row.gradient_norm == 0.0:
        yield f"no gradient reached it on {batch}"
    elif row.dead_gradient is not None and row.dead_gradient >= DEAD_ROWS:
        yield f"{row.dead_gradient:.0%} of its weight's rows get no gradient"
    if units is None:
        return
    silent = units.dormant >= SILENT
    if silent:
        yield f"{units.dormant:.0%} of units never fire on {batch}"
    constant = units.stuck if silent else units.saturated  # the silent ones are in the sentence before
    if constant >= SATURATED:
        yield f"{constant:.0%} of units {'fire and ' if silent else ''}never change sign on {batch}"
    if units.max_srank > 1 and units.srank <= max(1.0, min(COLLAPSED * units.max_srank, MOST_COLLAPSED)):
        yield f"activations have collapsed to {units.srank:.0f} of {units.max_srank} directions on {batch}"


def remarks(reading: Reading) -> str:
    """Return the warnings under a table, and a note if the dormant ratio says nothing of some activations."""
    batch = "this batch" if reading.source == "train" else "the probe"
    lines = [f"warning: layer {row.name}: {fault}" for row in reading.layers for fault in faults(row, batch)]
    kinds = {row.units.activation for row in reading.layers if row.units is not None and row.units.never_silent}
    if kinds:
        lines.append(
            f"note: dormant is 0 by construction for {', '.join(sorted(kinds))}, whose output is not 0 at negative "
            "inputs: read saturated and sign entropy there."
        )
    return "\n".join(wrapped(text, indent=6) for text in lines)


def table(reading: Reading) -> str:
    seen = SOURCES[reading.source].format(reading.num_samples) if reading.num_samples else "weights and gradients"
    lines = [f"step {reading.step}: {seen}", line("layer", COLUMNS)]
    for row in reading.layers:
        cells, units = ["-"] * 5, row.units
        if units is not None:
            shares = [f"{units.dormant:.1%}", f"{units.saturated:.1%}", f"{units.sign_entropy:.3f}"]
            cells = [str(units.num_units), *shares, f"{units.srank:.0f}/{units.max_srank}"]
        lines.append(line(row.name, [*cells, number(row.weight_norm), number(row.gradient_norm)]))
    numbers = "  ".join(f"{name}={number(value)}" for name, value in reading.numbers.items())
    return "\n".join([*lines, wrapped(f"all: {numbers}", indent=5)])


def line(name: str, cells: Iterable[str]) -> str:
    """Return the name, shortened from the left if it is long, and the cells under their headings."""
    short = name if len(name) <= NAME_WIDTH else "..." + name[3 - NAME_WIDTH :]
    padded = (cell.rjust(width) for cell, width in zip(cells, COLUMNS.values(), strict=True))
    return short.ljust(NAME_WIDTH) + "".join(padded)


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def wrapped(text: str, indent: int) -> str:
    """Return the text in lines that fit, all but the first indented."""
    return textwrap.fill(text, WIDTH, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def write_of(writer: Any) -> Callable[[Row], object]:
    """Return what to call with each row: ``add_scalar`` for each number, or the writer if it is a function."""
    if writer is None or hasattr(writer, "add_scalar"):
        return functools.partial(add_scalars, writer)
    if callable(writer):
        return writer
    raise TypeError(
        "Monitor's writer must have add_scalar(tag, value, step), as TensorBoard's SummaryWriter, or be a function "
        f"of a row (a dict of numbers with its step); got {type(writer).__name__}."
    )


def add_scalars(writer: Any, row: Row) -> None:
    for tag, value in row.items():
        if writer is not None and tag != "step":
            writer.add_scalar(tag, value, int(row["step"]))
