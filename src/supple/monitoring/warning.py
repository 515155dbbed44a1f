"""What a reading gives cause to worry about, in words."""

import math
from collections.abc import Iterator

from supple.monitoring.layer_row import LayerRow, SiteNumbers
from supple.monitoring.reading import Reading

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
