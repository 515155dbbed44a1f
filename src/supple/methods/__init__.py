"""Methods against plasticity loss, one file each; the classes can be imported from here."""

from supple.methods.activations import (
    UseAID,
    UseAIDGauss,
    UseAIDMean,
    UseAIDPerUnit,
    UseCELU,
    UseCReLU,
    UseDropout,
    UseDropReLU,
    UseELU,
    UseFourier,
    UseGELU,
    UseIdentity,
    UseLayerNorm,
    UseLayerNormAID,
    UseLeakyDropout,
    UseLeakyReLU,
    UsePReLU,
    UseRandomSmoothLeaky,
    UseRational,
    UseRReLU,
    UseSigmoid,
    UseSiLU,
    UseSmoothLeaky,
    UseTanh,
)
from supple.methods.adamo import AdamO
from supple.methods.base import Method, State
from supple.methods.c_chain import CChain
from supple.methods.cbp import CBP
from supple.methods.chain import Chain
from supple.methods.controls import DecoupledDecay, EqualBetas, FreshOptimizer
from supple.methods.cpr import CPR
from supple.methods.dash import DASH
from supple.methods.fire import FIRE
from supple.methods.full_reset import FullReset
from supple.methods.hare_tortoise import HareTortoise
from supple.methods.head_reset import HeadReset
from supple.methods.l2 import L2
from supple.methods.l2_er import L2ER
from supple.methods.l2_init import L2Init
from supple.methods.nap import NaP
from supple.methods.parseval import Parseval
from supple.methods.redo import ReDo
from supple.methods.regrama import ReGraMa
from supple.methods.s_ewc import SEWC
from supple.methods.shrink_perturb import ShrinkPerturb
from supple.methods.snr import SNR
from supple.methods.spectral import Spectral
from supple.methods.trac import TRAC
from supple.methods.upgd import UPGD
from supple.methods.vanilla import Vanilla
from supple.methods.wasserstein_init import WassersteinInit
from supple.methods.weight_clipping import WeightClipping

__all__ = [
    "CBP",
    "CPR",
    "DASH",
    "FIRE",
    "L2",
    "L2ER",
    "SEWC",
    "SNR",
    "TRAC",
    "UPGD",
    "AdamO",
    "CChain",
    "Chain",
    "DecoupledDecay",
    "EqualBetas",
    "FreshOptimizer",
    "FullReset",
    "HareTortoise",
    "HeadReset",
    "L2Init",
    "Method",
    "NaP",
    "Parseval",
    "ReDo",
    "ReGraMa",
    "ShrinkPerturb",
    "Spectral",
    "State",
    "UseAID",
    "UseAIDGauss",
    "UseAIDMean",
    "UseAIDPerUnit",
    "UseCELU",
    "UseCReLU",
    "UseDropReLU",
    "UseDropout",
    "UseELU",
    "UseFourier",
    "UseGELU",
    "UseIdentity",
    "UseLayerNorm",
    "UseLayerNormAID",
    "UseLeakyDropout",
    "UseLeakyReLU",
    "UsePReLU",
    "UseRReLU",
    "UseRandomSmoothLeaky",
    "UseRational",
    "UseSiLU",
    "UseSigmoid",
    "UseSmoothLeaky",
    "UseTanh",
    "Vanilla",
    "WassersteinInit",
    "WeightClipping",
]
