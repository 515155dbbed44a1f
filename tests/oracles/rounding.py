"""Rounding: numbers in float64 with a bound on how far a computation in some precision may be from them.

Every operation of a formula adds its share to the bound: the errors of its operands, as they come through, and a few
roundings of its result. So a tolerance is counted from the operations and the dtype, and is large only where the
formula itself is ill-conditioned, as a difference of near numbers is.
"""

import numpy as np

# One operation of a formula is up to four of the machine: a constant rounded to the dtype, a moving average written as
# m + (g - m) * (1 - b), a product rounded before its sum, and the operation itself.
ROUNDINGS = 4


class Rounded:
    """Values, and how far from them a computation with the unit roundoff ``unit`` may be."""

    __array_priority__ = 100

    def __init__(self, value, *, unit, bound=0.0):
        self.value = np.array(value, dtype=np.float64)
        bound = np.broadcast_to(np.array(bound, dtype=np.float64), self.value.shape)
        self.bound = np.where(np.isnan(bound), np.inf, bound)  # 0 times no bound at all
        self.unit = unit

    def result(self, value, carried, *, roundings=ROUNDINGS):
        """The result of an operation: the errors of its operands carried over, and its own."""
        return Rounded(value, unit=self.unit, bound=carried + roundings * self.unit * np.abs(value))

    def other(self, other):
        return other if isinstance(other, Rounded) else Rounded(other, unit=self.unit)

    def __add__(self, other):
        other = self.other(other)
        # The operands' magnitudes, not the sum's: an implementation may add in another order, or scale before it adds.
        own = ROUNDINGS * self.unit * (np.abs(self.value) + np.abs(other.value))
        return Rounded(self.value + other.value, unit=self.unit, bound=self.bound + other.bound + own)

    __radd__ = __add__

    def __neg__(self):
        return Rounded(-self.value, unit=self.unit, bound=self.bound)

    def __sub__(self, other):
        return self + -self.other(other)

    def __rsub__(self, other):
        return self.other(other) + -self

    def __mul__(self, other):
        other = self.other(other)
        with np.errstate(invalid="ignore"):
            carried = np.abs(self.value) * other.bound + np.abs(other.value) * self.bound + self.bound * other.bound
        return self.result(self.value * other.value, carried)

    __rmul__ = __mul__

    def __truediv__(self, other):
        other = self.other(other)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = self.value / other.value
            room = np.abs(other.value) - other.bound  # the least the divisor can be
            carried = np.where(room > 0, (self.bound + np.abs(value) * other.bound) / room, np.inf)
        return self.result(value, carried)

    def __rtruediv__(self, other):
        return self.other(other) / self

    def sqrt(self):
        root = np.sqrt(self.value)
        # |sqrt(x + e) - sqrt(x)| is at most sqrt(e), and at most e / sqrt(x).
        with np.errstate(divide="ignore", invalid="ignore"):
            carried = np.fmin(np.sqrt(self.bound), np.where(root > 0, self.bound / root, np.inf))
        return self.result(root, carried)

    def abs(self):
        return Rounded(np.abs(self.value), unit=self.unit, bound=self.bound)

    def clip(self, low, high):
        return Rounded(np.clip(self.value, low, high), unit=self.unit, bound=self.bound)

    def smooth(self, function, *, slope):
        """A function of at most that slope, which a good library computes to four units in the last place."""
        return self.result(function(self.value), slope * self.bound, roundings=2 * ROUNDINGS)

    def sum(self, axis=None):
        """A sum in any order: as many roundings of all magnitudes as there are terms."""
        num_terms = self.value.size if axis is None else np.prod([self.value.shape[a] for a in np.atleast_1d(axis)])
        own = num_terms * self.unit * np.abs(self.value).sum(axis)
        return Rounded(self.value.sum(axis), unit=self.unit, bound=self.bound.sum(axis) + own)

    def mean(self, axis=None):
        num_terms = self.value.size if axis is None else np.prod([self.value.shape[a] for a in np.atleast_1d(axis)])
        return self.sum(axis) / float(num_terms)

    def __getitem__(self, index):
        return Rounded(self.value[index], unit=self.unit, bound=self.bound[index])

    def __setitem__(self, index, other):
        other = self.other(other)
        self.value[index], self.bound[index] = other.value, other.bound

    def copy(self):
        return Rounded(self.value, unit=self.unit, bound=self.bound)

    def moved(self, function):
        """What only moves or repeats entries, done to both parts."""
        return Rounded(function(self.value), unit=self.unit, bound=function(self.bound))

    @property
    def shape(self):
        return self.value.shape

    def __len__(self):
        return len(self.value)


def start_correction(decay, num_steps, *, unit):
    """1 - decay^t, what a moving average that started at 0 is divided by; it is computed in float64 everywhere."""
    value = 1.0 - np.asarray(float(decay)) ** num_steps
    return Rounded(value, unit=unit, bound=ROUNDINGS * np.finfo(np.float64).eps)


def joined(parts, axis):
    """Several, side by side."""
    values, bounds = [part.value for part in parts], [part.bound for part in parts]
    return Rounded(np.concatenate(values, axis), unit=parts[0].unit, bound=np.concatenate(bounds, axis))


def stacked(parts, axis=0):
    """Several of one shape, along a new axis."""
    values, bounds = [part.value for part in parts], [part.bound for part in parts]
    return Rounded(np.stack(values, axis), unit=parts[0].unit, bound=np.stack(bounds, axis))


def difference(computed, expected, *, tiny=0.0):
    """Where a computed array is further from the expected values than both may err; a sentence, empty if nowhere.

    Twice the bound: the expected values were computed in floating point, too. ``tiny`` is the dtype's smallest normal
    number, below which roundings are absolute.
    """
    computed = np.asarray(computed, dtype=np.float64)
    if computed.shape != expected.shape:
        return f"shape {computed.shape}, expected {expected.shape}"
    error, limit = np.abs(computed - expected.value), 2 * expected.bound + ROUNDINGS * tiny
    wrong = ~(error <= limit) & ~(np.isnan(computed) & np.isnan(expected.value))
    if not wrong.any():
        return ""
    place = np.unravel_index(np.argmax(np.where(wrong, error / np.maximum(limit, 1e-300), -1.0)), error.shape)
    return (
        f"{wrong.sum()} of {wrong.size} entries differ; at {tuple(int(i) for i in place)} "
        f"{computed[place]!r}, expected {expected.value[place]!r} up to {limit[place]:.2g}"
    )
