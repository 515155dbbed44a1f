"""Methods against plasticity loss, one file each; the classes can be imported from here."""

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
from supple.methods.base import Method, State
from supple.methods.cbp import CBP
from supple.methods.dash import DASH
from supple.methods.full_reset import FullReset
from supple.methods.l2 import L2
from supple.methods.l2_init import L2Init
from supple.methods.redo import ReDo
from supple.methods.s_ewc import SEWC
from supple.methods.shrink_perturb import ShrinkPerturb
from supple.methods.vanilla import Vanilla

__all__ = [
    "CBP",
    "DASH",
    "L2",
    "SEWC",
    "FullReset",
    "L2Init",
    "Method",
    "ReDo",
    "ShrinkPerturb",
    "State",
    "UseAID",
    "UseCReLU",
    "UseDropReLU",
    "UseDropout",
    "UseFourier",
    "UseIdentity",
    "UseRReLU",
    "UseSigmoid",
    "UseTanh",
    "Vanilla",
]
