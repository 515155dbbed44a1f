"""What the methods of 2023 to 2026 make of gradients and weights, from their papers' formulas, in plain float64."""

import math

import numpy as np

from oracles.renewal import Units


def matrices(weight: np.ndarray, groups: int) -> list[np.ndarray]:
    """A weight as outputs by inputs and kernel positions, one matrix a group."""
    size = len(weight) // groups
    return [weight[g * size : (g + 1) * size].reshape(size, -1) for g in range(groups)]


def joined(found: list[np.ndarray], like: np.ndarray) -> np.ndarray:
    return np.concatenate(found).reshape(like.shape)


def isometry_pull(matrix: np.ndarray, target: float) -> np.ndarray:
    """The gradient of ||W W' - target I||^2, or of W' W for a matrix with more outputs than inputs, entry by entry."""
    rows, columns = matrix.shape
    if rows > columns:
        return isometry_pull(matrix.T, target).T
    pull = np.zeros_like(matrix)
    for i in range(rows):
        for k in range(rows):
            gap = float(matrix[i] @ matrix[k]) - (target if i == k else 0.0)
            pull[i] += 4.0 * gap * matrix[k]
    return pull


def parseval(weight: np.ndarray, groups: int, *, strength: float, target: float) -> np.ndarray:
    parts = matrices(weight, groups)
    return joined([strength * (64.0 / len(m)) ** 2 * isometry_pull(m, target) for m in parts], weight)


def adamo(old: np.ndarray, moved: np.ndarray, groups: int, *, rate: float) -> np.ndarray:
    """What the optimizer made of the weight, less rate times the pull at the weight of before."""
    return moved - joined([rate * isometry_pull(m, 1.0) for m in matrices(old, groups)], old)


def spectral(weight: np.ndarray, right: np.ndarray, groups: int, *, strength: float) -> tuple[np.ndarray, np.ndarray]:
    """The gradient of strength * (sigma^2 - 1)^2 after one power iteration from ``right``, and the next vectors."""
    pulls, vectors = [], []
    for matrix, v in zip(matrices(weight, groups), right, strict=True):
        u = unit_length(matrix @ v)
        v = unit_length(matrix.T @ u)
        sigma = float(u @ matrix @ v)
        pulls.append(strength * 2.0 * (sigma**2 - 1.0) * 2.0 * sigma * np.outer(u, v))
        vectors.append(v)
    return joined(pulls, weight), np.stack(vectors)


def unit_length(vector: np.ndarray) -> np.ndarray:
    length = math.sqrt(float(vector @ vector))
    return vector / length if length > 0 else vector


def wasserstein(theta: np.ndarray, theta_0: np.ndarray, strength: float) -> np.ndarray:
    """The gradient of (strength / 2) times the squared distance between the sorted weights."""
    first, pull = sorted(theta_0.ravel().tolist()), np.zeros(theta.size)
    values = theta.ravel().tolist()
    for rank, place in enumerate(sorted(range(len(values)), key=lambda at: values[at])):
        pull[place] = strength * (values[place] - first[rank])
    return pull.reshape(theta.shape)


def fire(weight: np.ndarray, groups: int, iterations: int) -> np.ndarray:
    """Cubic Newton-Schulz steps on each kernel position of each group; a slice of zeros stays."""
    size = len(weight) // groups
    kernels = weight.reshape(len(weight), weight.shape[1], -1)
    made = np.zeros_like(kernels)
    for g in range(groups):
        rows = slice(g * size, (g + 1) * size)
        for position in range(kernels.shape[2]):
            x = kernels[rows, :, position]
            length = math.sqrt(float((x * x).sum()))
            x = x / length if length > 0 else x
            x = x.T if x.shape[1] > x.shape[0] else x
            for _ in range(iterations):
                x = 1.5 * x - 0.5 * x @ (x.T @ x)
            x = x if x.shape == (size, weight.shape[1]) else x.T
            made[rows, :, position] = math.sqrt(size / weight.shape[1]) / kernels.shape[2] * x
    return made.reshape(weight.shape)


def clip_bound(weight_0: np.ndarray, kappa: float) -> float:
    """kappa / sqrt(fan_in) for weights that fill torch's own bound or are 0, else kappa times the largest."""
    largest, default = float(np.abs(weight_0).max()), (weight_0.size / len(weight_0)) ** -0.5
    return kappa * (default if largest == 0 or 0.8 * default < largest <= default else largest)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


class Utilities:
    """UPGD's running utilities of several arrays, weights or units, and what they leave free: 1 - s."""

    def __init__(self, *, beta: float, scope: str, reference: bool):
        self.beta, self.scope, self.reference = beta, scope, reference
        self.u: dict[str, np.ndarray] = {}
        self.num_steps = 0

    def free(self, gains: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        self.num_steps += 1
        for key, gain in gains.items():
            self.u[key] = self.beta * self.u.get(key, np.zeros_like(gain)) + (1.0 - self.beta) * gain
        correction = 1.0 - self.beta**self.num_steps
        corrected = {key: self.u[key] / correction for key in gains}
        if self.scope == "local":
            lengths = {key: np.sqrt((u * u).sum(-1, keepdims=True)) for key, u in corrected.items()}
            return {key: 1.0 - sigmoid(u / np.maximum(lengths[key], 1e-12)) for key, u in corrected.items()}
        bounding = {key: self.u[key] for key in gains} if self.reference else corrected
        largest = max(1e-12, *(float(u.max()) for u in bounding.values()))
        return {key: 1.0 - sigmoid(u / largest) for key, u in corrected.items()}


def unit_gain(units: Units, weight: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """-sum of gradient * weight over all outgoing weights of each unit."""
    return np.array([-sum((gradient[:, c] * weight[:, c]).sum() for c in own) for own in units.columns])


def erfi(x: float) -> float:
    """2 / sqrt(pi) times the integral of exp(t^2) from 0 to x, by Gauss-Legendre on 40 pieces."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    edges = np.linspace(0.0, x, 41)
    half, middle = (edges[1:] - edges[:-1]) / 2, (edges[1:] + edges[:-1]) / 2
    t = middle[:, None] + half[:, None] * nodes
    return float(2.0 / math.sqrt(math.pi) * (half[:, None] * weights * np.exp(t * t)).sum())


class Trac:
    """The distance from the start, tuned by six learners; d is the sum of the optimizer's steps."""

    def __init__(self, theta_0: dict[str, np.ndarray], *, scale: float, reference: bool):
        self.theta_0, self.scale, self.reference = theta_0, scale, reference
        self.d = {name: np.zeros_like(theta) for name, theta in theta_0.items()}
        self.v, self.sigma, self.s = [0.0] * 6, [1e-8] * 6, 0.0

    def ended(self, old: dict, moved: dict, gradients: dict) -> dict[str, np.ndarray]:
        if self.reference:
            self.d = {name: (old[name] - self.theta_0[name]) / (self.s + 1e-8) for name in self.d}
        h = sum(float((self.d[name] * gradients[name]).sum()) for name in gradients)
        self.s = 0.0
        for j in range(6):
            beta = 1.0 - 10.0 ** -(j + 1)
            self.v[j] = beta**2 * self.v[j] + h**2
            self.sigma[j] = beta * self.sigma[j] - h
            x = min(26.0, max(-26.0, self.sigma[j] / (math.sqrt(2.0 * self.v[j]) + 1e-8)))
            self.s += self.scale * erfi(x) / erfi(1.0 / math.sqrt(2.0))
        for name in gradients:
            self.d[name] = self.d[name] + moved[name] - old[name]
        return {name: self.theta_0[name] + max(self.s, 0.0) * self.d[name] for name in gradients}


def gradient_scores(rows: np.ndarray) -> np.ndarray:
    """mean |gradient| of each unit over the layer's mean; ``rows`` has a row for each unit."""
    sizes = np.abs(rows.reshape(len(rows), -1)).mean(1)
    mean = sizes.mean()
    return sizes / mean if mean >= 1e-12 else np.ones_like(sizes)


def partial_share(score: np.ndarray, *, rate: float, sharpness: float, centre: float) -> np.ndarray:
    """CPR's share of each unit that is made new."""
    return rate * np.minimum(2.0 * sigmoid(-sharpness * (score - centre)), 1.0)


class Silences:
    """SNR's ages, silences and thresholds of one layer, in steps."""

    def __init__(self, width: int, *, rejection_rate: float, longest: int, shortest: int, reference: bool):
        self.rate, self.longest, self.shortest, self.reference = rejection_rate, longest, shortest, reference
        self.age, self.threshold = [0] * width, [longest] * width
        self.ended: list[list[int]] = [[] for _ in range(width)]

    def due(self, fired: list[bool]) -> list[int]:
        """The units that are silent too long after this step, the longest excess first."""
        for i, has_fired in enumerate(fired):
            if has_fired:
                self.ended[i].append(self.age[i])
            self.age[i] = 0 if has_fired else min(self.age[i] + 1, self.longest + 1)
        excess = [age - threshold for age, threshold in zip(self.age, self.threshold, strict=True)]
        late = [i for i in range(len(fired)) if (excess[i] >= 0 if self.reference else excess[i] > 0)]
        return sorted(late, key=lambda i: -excess[i])

    def renew_(self, renewed: list[int]) -> None:
        for i in renewed:
            self.ended[i].append(self.age[i])
            self.age[i] = 0

    def update_(self) -> None:
        """The smallest silence that a share 1 - rate do not exceed, if it is below the threshold, else twice that."""
        for i, all_ended in enumerate(self.ended):
            silences = sorted(age for age in all_ended if age >= 1)
            if not silences and not self.reference:
                continue
            quantile = 1
            if silences:
                while sum(age <= quantile for age in silences) < (1.0 - self.rate) * len(silences) - 1e-9:
                    quantile += 1
            moved = quantile if quantile < self.threshold[i] else 2 * self.threshold[i]
            self.threshold[i] = min(self.longest, max(self.shortest, moved))
        self.ended = [[] for _ in self.ended]


def effective_rank_gradient(matrix: np.ndarray) -> tuple[float, np.ndarray]:
    """exp of the entropy of the singular values' shares, and its gradient U diag(-rank (ln p + H) / S) V'."""
    u, s, vt = np.linalg.svd(matrix, full_matrices=False)
    kept = s > 1e-6 * s[0] if s[0] > 0 else np.zeros(len(s), dtype=bool)
    if not kept.any():
        return 0.0, np.zeros_like(matrix)
    u, s, vt = u[:, kept], s[kept], vt[kept]
    p = s / s.sum()
    entropy = -float((p * np.log(p)).sum())
    rank = math.exp(entropy)
    return rank, u @ np.diag(-rank * (np.log(p) + entropy) / s.sum()) @ vt
