"""Which weights belong to a hidden unit, which units ReDo and Continual Backprop renew, and what is written where."""

from dataclasses import dataclass

import numpy as np

from oracles.metrics import units_first
from oracles.networks import Activation, Conv, Linear, Norm, Parts, Residual, named_parts
from oracles.rounding import Rounded, stacked, start_correction


@dataclass(frozen=True)
class Units:
    """The hidden units of one activation: rows of the producer's weight, columns of the consumer's."""

    site: str
    producer: str
    norm: str | None
    consumer: str
    columns: tuple[tuple[int, ...], ...]  # of each unit

    @property
    def width(self) -> int:
        return len(self.columns)


def renewable_units(parts: Parts, num_columns: dict[str, int]) -> list[Units]:
    """The activations whose units have rows and columns of their own, in order.

    Left out are those that a residual sum feeds or reads, whose weights are tied, that a transposed convolution makes
    or reads, and that a grouped convolution reads. ``num_columns`` is the number of input columns of each layer.
    """
    tied = {part.tied_to for _, part in named_parts(parts) if getattr(part, "tied_to", None)}
    tied |= {name for name, part in named_parts(parts) if getattr(part, "tied_to", None)}
    found = []
    for line in lines_of(parts):
        for place, (name, part) in enumerate(line):
            if not isinstance(part, Activation):
                continue
            producer, norm = before(line[:place])
            consumer = after(line[place + 1 :])
            if producer is None or consumer is None or {producer[0], consumer[0]} & tied:
                continue
            width = producer[1].num_outputs
            own = num_columns[consumer[0]] // width
            found.append(Units(name, producer[0], norm, consumer[0], columns_of(width, own, part.expansion)))
    return found


def lines_of(parts: Parts, prefix: str = "") -> list[list[tuple[str, object]]]:
    """The network cut at its residual sums: in each line every value is read by the next part alone.

    A block stands in the line around it as what ends it and begins another.
    """
    line: list[tuple[str, object]] = []
    inner = []
    for index, part in enumerate(parts):
        line.append((f"{prefix}{index}", part))
        if isinstance(part, Residual):
            inner += lines_of(part.body, f"{prefix}{index}.body.")
    return sorted([line, *inner], key=lambda one: order(one[0][0]))


def order(name: str) -> list[int]:
    return [int(number) for number in name.split(".") if number.isdigit()]


def before(line: list[tuple[str, object]]) -> tuple[tuple[str, object] | None, str | None]:
    """The layer right before an activation, and the norm between them."""
    norm = None
    for name, part in reversed(line):
        if isinstance(part, Norm):
            norm = name
        elif isinstance(part, Linear) or (isinstance(part, Conv) and not part.transposed):
            return (name, part), norm
        else:
            break
    return None, None


def after(line: list[tuple[str, object]]) -> tuple[str, object] | None:
    """The layer that reads an activation, through pools and a flattening."""
    for name, part in line:
        if isinstance(part, Linear):
            return name, part
        if isinstance(part, Conv):
            return (name, part) if part.groups == 1 and not part.transposed else None
        if isinstance(part, Residual | Activation):
            return None
    return None


def columns_of(width: int, num_own: int, expansion: int) -> tuple[tuple[int, ...], ...]:
    """Unit i owns the i-th block of columns; of a concatenating activation the i-th and the (width + i)-th."""
    block = num_own // expansion
    firsts = [[(half * width + unit) * block for half in range(expansion)] for unit in range(width)]
    return tuple(tuple(column for first in own for column in range(first, first + block)) for own in firsts)


@dataclass
class Written:
    """What a renewal of units writes: masks of the entries of each parameter, and values for all but fresh weights."""

    fresh_weight: np.ndarray  # rows of the producer's weight
    unit_mask: np.ndarray  # entries of the producer's bias and of the norm
    zero_weight: np.ndarray  # columns of the consumer's weight


def written(units: Units, renewed: list[int], shapes: dict[str, tuple[int, ...]]) -> Written:
    """The entries that belong to the renewed units."""
    rows = np.zeros(shapes[f"{units.producer}.weight"], dtype=bool)
    columns = np.zeros(shapes[f"{units.consumer}.weight"], dtype=bool)
    mask = np.zeros(units.width, dtype=bool)
    for unit in renewed:
        rows[unit] = True
        mask[unit] = True
        for column in units.columns[unit]:
            columns[:, column] = True
    return Written(rows, mask, columns)


class ContinualBackprop:
    """Ages, utilities and the budget of one layer of units."""

    def __init__(self, width: int, *, rate: float, maturity: int, decay: float, adaptable: bool, unit: float):
        self.rate, self.maturity, self.decay, self.adaptable, self.unit = rate, maturity, decay, adaptable, unit
        self.age = np.zeros(width)
        self.utility = Rounded(np.zeros(width), unit=unit)
        self.mean = Rounded(np.zeros(width), unit=unit)
        self.budget = 0.0

    def rate_units(self, h: Rounded, axis: int, weight_in: Rounded, weight_out: Rounded, units: Units) -> None:
        """One step older, and one step's utility more: mean |w_out| * mean |h|.

        The adaptable one has |h - mean h| for |h|, with the running mean corrected for its start, and is divided by
        mean |w_in|.
        """
        self.age += 1
        rows = units_first(h, axis)
        self.mean = self.mean * self.decay + self.per_unit(rows, units, lambda own, i: own.mean()) * (1 - self.decay)
        centre = self.mean / start_correction(self.decay, self.age, unit=self.unit)
        if self.adaptable:
            value = self.per_unit(rows, units, lambda own, i: (own - centre[i]).abs().mean())
            value = value / stacked([weight_in[i].abs().mean() for i in range(units.width)])
        else:
            value = self.per_unit(rows, units, lambda own, i: own.abs().mean())
        out = [stacked([weight_out[:, column] for column in own]).abs().mean() for own in units.columns]
        value = value * stacked(out)
        averaged = self.utility * self.decay + value * (1 - self.decay)
        for i in range(units.width):
            if np.isfinite(value.value[i]):  # a unit without incoming weights has no adaptable contribution
                self.utility[i] = averaged[i]

    def per_unit(self, rows: Rounded, units: Units, function) -> Rounded:
        """A number for each unit of all its values: of both its columns if the activation concatenates."""
        width = units.width
        return stacked([function(stacked([rows[c] for c in range(i, len(rows), width)]), i) for i in range(width)])

    def num_due(self) -> int:
        """How many units fall due now: a share of the mature ones, saved up to whole units; nothing while none is."""
        mature = int((self.age > self.maturity).sum())
        if not mature:
            return 0
        self.budget += self.rate * mature
        due = int(np.floor(self.budget))
        self.budget -= due
        return min(due, mature)

    def may_be(self, renewed: list[int], num_due: int) -> str:
        """A sentence if these are not the mature units of least utility, as many as fall due; else nothing."""
        mature = [i for i in range(len(self.age)) if self.age[i] > self.maturity]
        if len(renewed) != num_due or not set(renewed) <= set(mature):
            return f"renewed {renewed}, {num_due} of {mature} fall due"
        ranked = self.utility / start_correction(self.decay, np.maximum(self.age, 1), unit=self.unit)
        least, most = ranked.value - 2 * ranked.bound, ranked.value + 2 * ranked.bound
        spared = [i for i in mature if i not in renewed]
        wrong = [(i, j) for i in renewed for j in spared if least[i] > most[j]]
        return f"of each pair the first was renewed and the second, less useful, was not: {wrong}" if wrong else ""

    def renew_(self, renewed: list[int]) -> None:
        """Young again, and of no utility yet."""
        for i in renewed:
            self.age[i] = 0
            self.utility[i] = 0.0
            self.mean[i] = 0.0
