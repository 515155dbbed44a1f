"""Metrics of plasticity from their definitions, unit by unit and value by value.

Where rounding may tip a decision (a score at its threshold), the answer is the pair of the least and the largest value.
"""

import math

import numpy as np

from oracles.networks import Site
from oracles.rounding import Rounded, stacked


def units_first(x: Rounded, axis: int) -> Rounded:
    """A row of all values for each index of the axis."""
    return x.moved(lambda a: np.moveaxis(a, axis, 0).reshape(a.shape[axis], -1))


def magnitudes(site: Site) -> Rounded:
    """mean |h| of each unit, over examples, positions and the one or two columns that it owns, i and i + width."""
    rows = units_first(site.h, site.axis)
    width = site.z.shape[site.axis]
    means = []
    for unit in range(width):
        own = stacked([rows[column] for column in range(unit, len(rows), width)])
        means.append(own.abs().mean())
    return stacked(means)


def scores(magnitude: Rounded) -> Rounded:
    """Each unit's mean |h| over the mean of its layer, which is never quite 0."""
    return magnitude / (magnitude.mean() + 1e-9)


def dormant_range(sites: list[Site], tau: float) -> tuple[float, float]:
    """The share of all hidden units with a score of at most tau; a score up to 1e-8 is 0."""
    surely = perhaps = total = 0
    for site in sites:
        score = scores(magnitudes(site))
        for unit in range(len(score)):
            value, doubt = score.value[unit], 2 * score.bound[unit]
            surely += value + doubt <= max(tau, 1e-8)
            perhaps += value - doubt <= max(tau, 1e-8)
            total += 1
    return surely / total, perhaps / total


def positive_shares(sites: list[Site]) -> list[float]:
    """How often z is above zero, for every unit of every site."""
    return [
        float(np.mean([value > 0 for value in row])) for site in sites for row in units_first(site.z, site.axis).value
    ]


def saturated_share(sites: list[Site]) -> float:
    shares = positive_shares(sites)
    return sum(q in (0.0, 1.0) for q in shares) / len(shares)


def sign_entropy(sites: list[Site]) -> float:
    """The mean over units of the entropy of the sign, in bits."""
    shares = positive_shares(sites)
    return sum(-sum(p * math.log2(p) for p in (q, 1 - q) if p > 0) for q in shares) / len(shares)


def sign_bias(sites: list[Site]) -> float:
    shares = positive_shares(sites)
    return sum(abs(2 * q - 1) for q in shares) / len(shares)


def singular_values(matrix: np.ndarray) -> np.ndarray:
    """One-sided Jacobi: rotate pairs of columns until all are orthogonal; their norms are the singular values."""
    columns = [np.array(column) for column in (matrix if matrix.shape[0] < matrix.shape[1] else matrix.T)]
    for _ in range(60):
        turned = False
        for i in range(len(columns)):
            for j in range(i + 1, len(columns)):
                one, two = columns[i], columns[j]
                a, b, c = one @ one, two @ two, one @ two
                if abs(c) <= 1e-15 * math.sqrt(a * b) or c == 0.0:
                    continue
                turned = True
                angle = 0.5 * math.atan2(2 * c, a - b)
                columns[i] = math.cos(angle) * one + math.sin(angle) * two
                columns[j] = -math.sin(angle) * one + math.cos(angle) * two
        if not turned:
            break
    return np.sort([math.sqrt(column @ column) for column in columns])[::-1]


def srank_range(values: np.ndarray, delta: float, doubt: float) -> tuple[int, int]:
    """The smallest k whose k largest values make up 1 - delta of the sum, if each share may err by ``doubt``."""
    total = values.sum()
    if total == 0.0:
        return 0, 0
    found = []
    for threshold in (1 - delta - doubt, 1 - delta + doubt):
        k, cumulative = 0, 0.0
        while k < len(values) and cumulative < threshold * total:
            cumulative += values[k]
            k += 1
        found.append(k)
    return found[0], found[1]


def entropy_rank(values: np.ndarray, doubt: float) -> Rounded:
    """exp of the entropy of the values' shares, each of which may err by ``doubt``."""
    total = values.sum()
    if total == 0.0:
        return Rounded(0.0, unit=0.0)
    entropy = error = 0.0
    for value in values:
        share = value / total
        entropy -= share * math.log(share) if share > 0 else 0.0
        # |d(s log s)| over a step of ``doubt`` is at most what it is next to 0, or twice the slope at s.
        error += -doubt * math.log(doubt) + doubt if share <= 2 * doubt else 2 * doubt * (abs(math.log(share)) + 1)
    return Rounded(math.exp(entropy), unit=0.0, bound=math.exp(entropy) * math.expm1(error))


def quartiles(z: Rounded) -> Rounded:
    """The values below which a quarter, a half and three quarters lie, interpolated between neighbours.

    An ordered value moves by no more than the values do.
    """
    ordered = sorted(z.value.ravel())
    found = []
    for level in (0.25, 0.5, 0.75):
        place = level * (len(ordered) - 1)
        below = math.floor(place)
        above = min(below + 1, len(ordered) - 1)
        found.append(ordered[below] + (place - below) * (ordered[above] - ordered[below]))
    doubt = z.bound.max() + 4 * np.finfo(np.float64).eps * np.abs(z.value).max()
    return Rounded(found, unit=z.unit, bound=doubt)


def histogram_ranges(z: Rounded, num_bins: int) -> list[tuple[float, float]]:
    """The share of values in each of equal bins from the least to the largest, at least and at most."""
    values = z.value.ravel()
    low, high = values.min(), values.max()
    # Value, ends and width move by the bound of z and by the rounding of a division in float64.
    doubt = 3 * z.bound.max() + 8 * np.finfo(np.float64).eps * np.abs(values).max()
    width = (high - low) / num_bins
    ranges = []
    for place in range(num_bins):
        begin, end = low + place * width, low + (place + 1) * width
        first, last = place == 0, place == num_bins - 1
        inside = [(first or v - doubt >= begin) and (last or v + doubt < end) for v in values]
        near = [(first or v + doubt >= begin) and (last or v - doubt < end) for v in values]
        ranges.append((sum(inside) / len(values), sum(near) / len(values)))
    return ranges


def norm(tensors: list[Rounded]) -> Rounded:
    """The Euclidean norm of all entries together."""
    return stacked([(tensor * tensor).sum() for tensor in tensors]).sum().sqrt()


def dead_gradient_share(gradients: list[np.ndarray]) -> float:
    """The share of rows of the layers' weights that get no gradient at all."""
    rows = [not row.any() for gradient in gradients for row in gradient]
    return sum(rows) / len(rows)


def kept_row(h: np.ndarray, axis: int, sample: int) -> np.ndarray:
    """What is kept of a sample for a rank per layer: all units at one position, a different one for each sample."""
    units_last = np.moveaxis(h[sample], axis - 1, -1)
    positions = units_last.reshape(-1, units_last.shape[-1])
    return positions[sample * 7919 % len(positions)]


def active_range(sites: list[Site], *, is_tanh: bool) -> tuple[float, float]:
    """The mean over columns of how often h is not 0, for tanh at most 0.99 in size; at least and at most."""
    surely, perhaps = [], []
    for site in sites:
        rows = units_first(site.h, site.axis)
        for values, bounds in zip(rows.value, 2 * rows.bound, strict=True):
            if is_tanh:
                surely.append(np.mean([abs(v) + b <= 0.99 for v, b in zip(values, bounds, strict=True)]))
                perhaps.append(np.mean([abs(v) - b <= 0.99 for v, b in zip(values, bounds, strict=True)]))
            else:
                surely.append(np.mean([abs(v) > b for v, b in zip(values, bounds, strict=True)]))
                perhaps.append(np.mean([abs(v) + b > 0 for v, b in zip(values, bounds, strict=True)]))
    return float(np.mean(surely)), float(np.mean(perhaps))


def stable_rank(values: np.ndarray) -> float:
    return float(sum(value**2 for value in values) / values[0] ** 2) if values[0] else 0.0


def feature_rank_range(values: np.ndarray, num_rows: int, threshold: float, doubt: float) -> tuple[int, int]:
    """How many values over sqrt(n) are above the threshold, if each value may err by ``doubt``."""
    low, high = ((values + by) / math.sqrt(num_rows) > threshold for by in (-doubt, doubt))
    return int(low.sum()), int(high.sum())


def inactive_share(gradients: list[np.ndarray], threshold: float) -> float:
    """The share of rows whose mean |gradient| is at most the threshold times the mean of its layer."""
    inactive = []
    for gradient in gradients:
        sizes = [float(np.mean(np.abs(row))) for row in gradient]
        inactive += [size <= threshold * sum(sizes) / len(sizes) for size in sizes]
    return sum(inactive) / len(inactive)


def deviation_from_isometry(weight: np.ndarray) -> float:
    """||W'W - I||_F^2, entry by entry."""
    columns = weight.T
    return sum((float(one @ two) - (i == j)) ** 2 for i, one in enumerate(columns) for j, two in enumerate(columns))


def cross_entropy(logits: np.ndarray, label: int) -> float:
    return math.log(sum(math.exp(value - logits.max()) for value in logits)) + logits.max() - logits[label]


def slopes(function, theta: np.ndarray, step: float) -> np.ndarray:
    """The gradient by central differences; of a vector-valued function the columns of its Jacobian."""
    moves = step * np.eye(len(theta))
    return np.array([(function(theta + move) - function(theta - move)) / (2 * step) for move in moves])
