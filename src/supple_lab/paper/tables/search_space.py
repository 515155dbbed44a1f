"""What the paper searched (appendix F.6, Table 3): the values of every hyperparameter, experiment by experiment."""

from collections.abc import Callable
from itertools import product

from supple.methods.activations import (
    UseAID,
    UseCReLU,
    UseDropout,
    UseDropReLU,
    UseFourier,
    UseIdentity,
    UseRReLU,
    UseSigmoid,
    UseTanh,
)
from supple.methods.base import Method
from supple.methods.cbp import CBP
from supple.methods.dash import DASH
from supple.methods.full_reset import FullReset
from supple.methods.l2 import L2
from supple.methods.l2_init import L2Init
from supple.methods.redo import ReDo
from supple.methods.s_ewc import SEWC
from supple.methods.shrink_perturb import ShrinkPerturb
from supple.methods.vanilla import Vanilla
from supple_lab.optimizer import SGD, Adam

ADAM_HIGH, ADAM_LOW = Adam(learning_rate=1e-3), Adam(learning_rate=1e-4)
SGD_HIGH, SGD_LOW = SGD(learning_rate=3e-2), SGD(learning_rate=3e-3)


def grid(method: Callable[..., Method], **axes: tuple[float, ...]) -> tuple[Method, ...]:
    """The method at every combination of the values, the last axis fastest."""
    return tuple(method(**dict(zip(axes, values, strict=True))) for values in product(*axes.values()))


# Drawn in the trainability figures; nothing to search, and not in the tables.
UNTUNED = (UseFourier(), UseIdentity(), UseSigmoid(), UseTanh())

WARM_START = (
    Vanilla(),
    *grid(UseDropout, drop_positive=(0.1, 0.3, 0.5)),
    *grid(UseAID, relu_prob=(0.7, 0.8, 0.9)),
)

TRAINABILITY = (
    Vanilla(),
    UseCReLU(),
    *grid(L2, strength=(1e-2, 1e-3, 1e-4, 1e-5, 1e-6)),
    *grid(L2Init, strength=(1e-2, 1e-3, 1e-4, 1e-5, 1e-6)),
    *grid(UseDropout, drop_positive=(0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)),
    *grid(ShrinkPerturb, shrink=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)),
    *grid(ReDo, threshold=(0.0, 1.0, 5.0, 10.0, 50.0)),
    *grid(CBP, replacement_rate=(1e-1, 1e-2, 1e-3, 1e-4, 1e-5), maturity=(100,)),
    # 3 x 4 values but 11 pairs: no slope lies between 0.25 and 0.125.
    *grid(UseRReLU, lower_slope=(0.0625, 0.125), upper_slope=(0.125, 0.25, 0.333, 0.5)),
    *grid(UseRReLU, lower_slope=(0.25,), upper_slope=(0.25, 0.333, 0.5)),
    *grid(UseDropReLU, relu_prob=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)),
    *grid(UseAID, relu_prob=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)),
    *UNTUNED,
)

# Each of the generalizability experiments adds its own below; all under ADAM_HIGH and ADAM_LOW.
GENERALIZABILITY = (
    Vanilla(),
    UseCReLU(),
    UseFourier(),
    *grid(ShrinkPerturb, shrink=(0.2, 0.4, 0.6, 0.8)),
    *grid(CBP, replacement_rate=(1e-4, 1e-5), maturity=(100, 1000)),
    *grid(UseDropReLU, relu_prob=(0.7, 0.8, 0.9)),
    *grid(L2, strength=(1e-2, 1e-3, 1e-4, 1e-5)),
    *grid(UseDropout, drop_positive=(0.1, 0.3, 0.5)),
    *grid(UseRReLU, lower_slope=(0.125,), upper_slope=(0.333,)),
    *grid(UseAID, relu_prob=(0.7, 0.8, 0.9)),
)
CONTINUAL_FULL = (
    *GENERALIZABILITY,
    FullReset(),
    *grid(DASH, alpha=(0.1, 0.3), floor=(0.05, 0.1, 0.3)),
)
CLASS_INCREMENTAL = (
    *GENERALIZABILITY,
    FullReset(),
    *grid(DASH, alpha=(0.1, 0.3), floor=(0.05, 0.1, 0.3)),
)
CONTINUAL_LIMITED = (
    *GENERALIZABILITY,
    *grid(DASH, alpha=(0.1, 0.3, 0.7, 1.0), floor=(0.3,)),
    *grid(SEWC, strength=(100.0, 10.0, 1.0, 0.1, 0.01)),
)

SUPERVISED = (
    Vanilla(),
    *grid(L2, strength=(1e-2, 1e-3, 1e-4, 1e-5)),
    *grid(UseDropout, drop_positive=(0.1, 0.3, 0.5)),
    *grid(UseAID, relu_prob=(0.8, 0.9, 0.95)),
)

ATARI = (
    Vanilla(),
    *grid(UseDropout, drop_positive=(0.01, 0.001)),
    *grid(UseAID, relu_prob=(0.99, 0.999)),
)
