"""The Monitor's table: the numbers of each layer at the start and now, and how rows are written."""

import functools
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from supple.activations import RECURRENT, never_silent
from supple.metrics.base import Metric, measure
from supple.metrics.observe import Observation, singular_values
from supple.metrics.rank import EffectiveRank, srank
from supple.metrics.sites import Site
from supple.metrics.units import binary_entropy, dormant_mask, dormant_scores, if_finite, saturated_mask
from supple.metrics.weights import dead_rows, is_trained, joint_norm
from supple.saved import plain_name

WIDTH, NAME_WIDTH = 100, 20
COLUMNS = {
    "units": 6,
    "dormant": 11,
    "saturated": 11,
    "sign entropy": 14,
    "srank": 11,
    "weight norm": 13,
    "grad norm": 14,
}
SOURCES = {"train": "training forward, {} samples", "probe": "probe in evaluation mode, {} samples"}
NAMED_OTHERWISE = (*RECURRENT, nn.MultiheadAttention)  # whose weights are not called weight
Row = dict[str, float]  # "step", and each number by its name


@dataclass(frozen=True, kw_only=True)
class SiteNumbers:
    """Of the layer's units: dormant at tau 0, saturated, mean sign entropy, and the rank of at most 256 of h's rows.

    If the forward drew a mask, h is what it is in evaluation; the features of the metrics are what was computed. Of an
    activation that gave what is not finite they are NaN.
    """

    activation: str  # its class
    never_silent: bool  # dormant is 0 by construction
    num_units: int
    dormant: float
    saturated: float
    sign_entropy: float
    srank: float


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


def named(model: nn.Module, *kinds: type[nn.Module]) -> dict[str, nn.Module]:
    return {plain_name(name): module for name, module in model.named_modules() if isinstance(module, kinds)}


def read(observation: Observation, metrics: Sequence[Metric], *, source: str, step: int) -> Reading:
    inside = named(observation.model, *NAMED_OTHERWISE)
    known, places = {**observation.layers, **inside}, [*pairs(observation), *((name, None) for name in inside)]
    return Reading(
        source=source,
        step=step,
        num_samples=max((site.num_samples for site in observation.sites), default=0),
        layers=[layer_row(observation, known, layer=layer, site=site) for layer, site in places],
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


def layer_row(
    observation: Observation, known: dict[str, nn.Module], *, layer: str | None, site: Site | None
) -> LayerRow:
    module = None if layer is None else known[layer]
    parameters = () if module is None else tuple(module.parameters(recurse=False))
    gradients = [p.grad.coalesce().values() if p.grad.is_sparse else p.grad for p in parameters if p.grad is not None]
    dead = None
    # Rows of an embedding whose token did not occur are no fault.
    if module is not None and is_trained(module):
        dead = dead_rows(module, observation).double().mean().item()
    activation = "" if site is None else f"({site.name})"
    return LayerRow(
        name=activation if layer is None else layer or "(model)",
        units=None if site is None else site_numbers(site),
        weight_norm=joint_norm(parameters, observation.row_norms) if parameters else None,
        gradient_norm=joint_norm(gradients, observation.row_norms) if gradients else None,
        dead_gradient=dead,
    )


def site_numbers(site: Site) -> SiteNumbers:
    q_U = site.positive_share
    dormant_U, saturated_U = dormant_mask(dormant_scores(site.magnitude), 0.0), saturated_mask(q_U)
    shares = {
        "dormant": dormant_U.double().mean().item(),
        "saturated": saturated_U.double().mean().item(),
        "sign_entropy": binary_entropy(q_U).mean().item(),
    }
    return SiteNumbers(
        activation=type(site.activation).__name__,
        never_silent=never_silent(site.activation),
        num_units=site.num_units,
        srank=srank(singular_values(site.kept_rows), EffectiveRank.delta),
        **if_finite(shares, [site]),
    )


def silent_note(reading: Reading) -> str:
    """Return a note if the dormant ratio says nothing of some activations."""
    kinds = {row.units.activation for row in reading.layers if row.units is not None and row.units.never_silent}
    if not kinds:
        return ""
    return wrapped(
        f"note: dormant is 0 by construction for {', '.join(sorted(kinds))}, whose output is not 0 at negative "
        "inputs: read saturated and sign entropy there.",
        indent=6,
    )


def table(reading: Reading, start: Reading) -> str:
    """Return the numbers of the start and of now; they are one if both are the same reading."""
    seen = SOURCES[reading.source].format(reading.num_samples) if reading.num_samples else "weights and gradients"
    since = "" if start is reading else f"{start.step} -> "
    names = short_names([row.name for row in reading.layers], NAME_WIDTH)
    room = max([NAME_WIDTH, *map(len, names)])
    lines = [f"step {since}{reading.step}: {seen}", line("layer", COLUMNS, room=room)]
    begun = {row.name: row for row in start.layers}
    for name, row in zip(names, reading.layers, strict=True):
        then = cells(begun.get(row.name, row))
        trends = [trend(old, new) for old, new in zip(then, cells(row), strict=True)]
        lines.append(line(name, ["-" if row.units is None else str(row.units.num_units), *trends], room=room))
    pairs_of = ((name, start.numbers.get(name, value), value) for name, value in reading.numbers.items())
    numbers = "  ".join(f"{name}={trend(number(old), number(new))}" for name, old, new in pairs_of)
    return "\n".join([*lines, wrapped(f"all: {numbers}", indent=5)])


def cells(row: LayerRow) -> list[str]:
    """Return the numbers of a layer under the headings, but for its number of units."""
    shown = ["-"] * 4
    if (units := row.units) is not None:
        shares = (f"{share:.0%}".replace("nan%", "nan") for share in (units.dormant, units.saturated))
        shown = [*shares, f"{units.sign_entropy:.2f}", f"{units.srank:.0f}"]
    return [*shown, number(row.weight_norm), number(row.gradient_norm)]


def trend(old: str, new: str) -> str:
    """Return both, if they differ: 3->41%."""
    if old in (new, "-"):
        return new
    return f"{old.removesuffix('%') if new.endswith('%') else old}->{new}"


def short_names(names: Iterable[str], width: int) -> list[str]:
    """Return the names, shortened from the left to that width, or to the first beyond it at which no two are alike."""
    names = list(names)
    while True:
        short = [name if len(name) <= width else "..." + name[3 - width :] for name in names]
        if len(set(short)) == len(set(names)):
            return short
        width += 1


def line(name: str, cells: Iterable[str], *, room: int) -> str:
    """Return the name and the cells under their headings."""
    padded = (cell.rjust(width) for cell, width in zip(cells, COLUMNS.values(), strict=True))
    return name.ljust(room) + "".join(padded)


def number(value: float | None) -> str:
    """Return two or three digits."""
    if value is None or value == 0.0:
        return "-" if value is None else "0"
    size = abs(value)
    return f"{value:{'.0e' if not 0.01 <= size < 1e5 else '.2g' if size < 1 else '.3g' if size < 100 else '.0f'}}"


def directions(rank: float) -> str:
    number = f"{rank:.0f}"
    return f"{number} direction" if number == "1" else f"{number} directions"


def wrapped(text: str, indent: int) -> str:
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
