"""The search space of every method, and the draws from it.

Each entry has the same number of draws on each problem. A draw sets the learning rate and the fields below; its values
follow from (problem, entry, field, index) alone, so that the same draws are made on every machine. The draws of a field
are a Latin hypercube: one from each of as many equal parts of its range, in random order. Numbers have three digits.
"""

import hashlib
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

NUM_DRAWS = 12


class LogUniform(NamedTuple):
    """Between low and high, each factor alike."""

    low: float
    high: float

    def at(self, share: float) -> float:
        return rounded(self.low * (self.high / self.low) ** share)


class NearOne(NamedTuple):
    """One minus a number between low and high, each factor of it alike: 0.9, 0.99 and 0.999 are equally far apart."""

    low: float
    high: float

    def at(self, share: float) -> float:
        return rounded(1.0 - LogUniform(self.low, self.high).at(share))


class Uniform(NamedTuple):
    """Between low and high."""

    low: float
    high: float

    def at(self, share: float) -> float:
        return rounded(self.low + (self.high - self.low) * share)


class Choice(NamedTuple):
    """One of these values."""

    values: tuple[Any, ...]

    def at(self, share: float) -> Any:
        return self.values[min(int(share * len(self.values)), len(self.values) - 1)]


Range = LogUniform | NearOne | Uniform | Choice
Space = Mapping[str, Range]  # by field

LEARNING_RATE = LogUniform(1e-4, 3e-2)  # of Adam, for every entry
BOTH = Choice((False, True))
NOTHING: Space = {}  # to tune but the learning rate
UNTUNED = (
    *("celu", "crelu", "elu", "fourier", "fresh_optimizer", "full_reset", "gelu", "identity", "nap", "prelu"),
    *("rational", "sigmoid", "silu", "tanh", "trac", "vanilla"),
)
AIDS = ("aid", "aid_gauss", "aid_mean", "aid_per_unit", "drop_relu", "layer_norm_aid")  # of one range of p
SPACES: Mapping[str, Space] = {
    **dict.fromkeys(UNTUNED, NOTHING),
    **{name: {"relu_prob": NearOne(0.003, 0.5)} for name in AIDS},
    "adamo": {"strength": LogUniform(1e-4, 1.0)},
    "c_chain": {"beta": LogUniform(1e-3, 0.3)},
    "cbp": {"replacement_rate": LogUniform(1e-5, 1e-2), "maturity": Choice((10, 30, 100, 300))},
    "cpr": {"rate": LogUniform(1e-3, 0.3), "sharpness": Choice((4.0, 16.0))},
    "dash": {"alpha": Uniform(0.05, 0.5), "floor": Uniform(0.0, 0.9)},
    "decoupled_decay": {"strength": LogUniform(1e-3, 3.0)},
    "dropout": {"drop_positive": LogUniform(0.01, 0.5)},
    "equal_betas": {"beta": Choice((0.9, 0.95, 0.99, 0.999))},
    "fire": {"clear_moments": BOTH},
    "hare_tortoise": {"momentum": NearOne(1e-3, 0.1), "every": Choice((25, 100, 400, 1600))},
    "head_reset": {"layers": Choice((1, 2))},
    "l2": {"strength": LogUniform(1e-6, 1e-2)},
    "l2_er": {"strength": LogUniform(1e-6, 1e-2), "rank_rate": LogUniform(1e-5, 1e-1)},
    "l2_init": {"strength": LogUniform(1e-5, 1e-1)},
    "layer_norm": {"affine": BOTH},
    "leaky_dropout": {"slope": LogUniform(0.01, 0.6), "drop": LogUniform(0.01, 0.5)},
    "leaky_relu": {"slope": LogUniform(0.01, 0.6)},
    "parseval": {"strength": LogUniform(1e-6, 1e-2)},
    "random_smooth_leaky": {"lower_slope": Uniform(0.09, 0.2), "upper_slope": Uniform(0.2, 0.6)},
    "redo": {"threshold": Choice((0.0, 0.01, 0.03, 0.1, 0.3))},
    "regrama": {"threshold": Choice((0.0, 0.005, 0.01, 0.025, 0.1))},
    "rrelu": {"lower_slope": Uniform(0.01, 0.2), "upper_slope": Uniform(0.2, 0.6)},
    "s_ewc": {"strength": LogUniform(1e-2, 1e2)},
    "shrink_perturb": {"shrink": Uniform(0.05, 0.95), "clear_moments": BOTH},
    "smooth_leaky": {"slope": Uniform(0.09, 0.5)},
    "snr": {"rejection_rate": LogUniform(0.00125, 0.08)},
    "spectral": {"strength": LogUniform(1e-5, 1e-1)},
    "upgd": {
        "beta": Choice((0.9, 0.99, 0.999)),
        "sigma": LogUniform(1e-4, 1e-1),
        "weight_decay": LogUniform(1e-5, 1e-2),
    },
    "wasserstein_init": {"strength": LogUniform(1e-5, 1e-1)},
    "weight_clipping": {"kappa": Uniform(1.0, 5.0), "clip_output": BOTH},
}
NOT_ALONE = {"chain": "a chain is its methods; those of the arena are entries of their own, such as l2_init+redo"}


def draw(within: Range, *names: str, index: int, number: int = NUM_DRAWS) -> Any:
    """The value of a field in one of the draws; the names say of which problem, entry and field."""
    parts = sorted(range(number), key=lambda part: hashed(*names, "part", part))
    return within.at((parts[index] + hashed(*names, "place", index)) / number)


def hashed(*names: str | int) -> float:
    """A number in [0, 1) that follows from the names alone."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, names)).encode()).digest()[:7]) / 2**56


def rounded(value: float) -> float:
    """To three digits, so that settings can be read and typed."""
    return 0.0 if value == 0.0 else round(value, 2 - math.floor(math.log10(abs(value))))
