"""What a reading gives cause to worry about, in words."""

import math
from collections.abc import Iterator

from supple.monitoring.layer_row import LayerRow
from supple.monitoring.reading import Reading

# On 256 digits a fresh ReLU MLP of three layers has 3% to 7% silent units a layer, and 7% to 14% that keep their sign;
# one of eight layers 5% to 19%, and 9% to 39%. On 16 digits it is about twice that: a small batch sees less.
SILENT = 0.10
SATURATED = 0.50


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
    if row.units is not None:
        yield from unit_faults(row, batch)


def unit_faults(row: LayerRow, batch: str) -> Iterator[str]:
    """What is wrong with its units."""
    assert row.units is not None
    if row.units.dormant >= SILENT:
        yield f"{row.units.dormant:.0%} of units never fire on {batch}"
    elif row.units.saturated >= SATURATED:
        yield f"{row.units.saturated:.0%} of units never change sign on {batch}"
    if row.units.srank <= 1.0 and row.units.max_srank > 1:
        yield f"activations have collapsed to {row.units.srank:.0f} of {row.units.max_srank} directions on {batch}"


def caveat(reading: Reading) -> str:
    """Where the dormant ratio says nothing, and what to read instead; empty where it speaks."""
    kinds = {row.units.activation for row in reading.layers if row.units is not None and row.units.never_silent}
    if not kinds:
        return ""
    return (
        f"dormant is 0 by construction for {', '.join(sorted(kinds))}, whose output is not 0 at negative inputs: "
        "read saturated and sign entropy there."
    )
