"""Methods against plasticity loss, one file each; the classes can be imported from here.

A class is imported when it is first asked for: all files together take a fifth of a second.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from supple.methods.activations import UseAID as UseAID
    from supple.methods.activations import UseAIDGauss as UseAIDGauss
    from supple.methods.activations import UseAIDMean as UseAIDMean
    from supple.methods.activations import UseAIDPerUnit as UseAIDPerUnit
    from supple.methods.activations import UseCELU as UseCELU
    from supple.methods.activations import UseCReLU as UseCReLU
    from supple.methods.activations import UseDropout as UseDropout
    from supple.methods.activations import UseDropReLU as UseDropReLU
    from supple.methods.activations import UseELU as UseELU
    from supple.methods.activations import UseFourier as UseFourier
    from supple.methods.activations import UseGELU as UseGELU
    from supple.methods.activations import UseIdentity as UseIdentity
    from supple.methods.activations import UseLayerNorm as UseLayerNorm
    from supple.methods.activations import UseLayerNormAID as UseLayerNormAID
    from supple.methods.activations import UseLeakyDropout as UseLeakyDropout
    from supple.methods.activations import UseLeakyReLU as UseLeakyReLU
    from supple.methods.activations import UsePReLU as UsePReLU
    from supple.methods.activations import UseRandomSmoothLeaky as UseRandomSmoothLeaky
    from supple.methods.activations import UseRational as UseRational
    from supple.methods.activations import UseRReLU as UseRReLU
    from supple.methods.activations import UseSigmoid as UseSigmoid
    from supple.methods.activations import UseSiLU as UseSiLU
    from supple.methods.activations import UseSmoothLeaky as UseSmoothLeaky
    from supple.methods.activations import UseTanh as UseTanh
    from supple.methods.adamo import AdamO as AdamO
    from supple.methods.base import Method as Method
    from supple.methods.base import State as State
    from supple.methods.c_chain import CChain as CChain
    from supple.methods.cbp import CBP as CBP
    from supple.methods.chain import Chain as Chain
    from supple.methods.controls import DecoupledDecay as DecoupledDecay
    from supple.methods.controls import EqualBetas as EqualBetas
    from supple.methods.controls import FreshOptimizer as FreshOptimizer
    from supple.methods.cpr import CPR as CPR
    from supple.methods.dash import DASH as DASH
    from supple.methods.fire import FIRE as FIRE
    from supple.methods.full_reset import FullReset as FullReset
    from supple.methods.hare_tortoise import HareTortoise as HareTortoise
    from supple.methods.head_reset import HeadReset as HeadReset
    from supple.methods.l2 import L2 as L2
    from supple.methods.l2_er import L2ER as L2ER
    from supple.methods.l2_init import L2Init as L2Init
    from supple.methods.nap import NaP as NaP
    from supple.methods.parseval import Parseval as Parseval
    from supple.methods.redo import ReDo as ReDo
    from supple.methods.regrama import ReGraMa as ReGraMa
    from supple.methods.s_ewc import SEWC as SEWC
    from supple.methods.shrink_perturb import ShrinkPerturb as ShrinkPerturb
    from supple.methods.snr import SNR as SNR
    from supple.methods.spectral import Spectral as Spectral
    from supple.methods.trac import TRAC as TRAC
    from supple.methods.upgd import UPGD as UPGD
    from supple.methods.vanilla import Vanilla as Vanilla
    from supple.methods.wasserstein_init import WassersteinInit as WassersteinInit
    from supple.methods.weight_clipping import WeightClipping as WeightClipping

FILES = {  # the classes of each
    "activations": (
        "UseAID UseAIDGauss UseAIDMean UseAIDPerUnit UseCELU UseCReLU UseDropout UseDropReLU UseELU "
        "UseFourier UseGELU UseIdentity UseLayerNorm UseLayerNormAID UseLeakyDropout UseLeakyReLU UsePReLU "
        "UseRandomSmoothLeaky UseRational UseRReLU UseSigmoid UseSiLU UseSmoothLeaky UseTanh"
    ),
    "adamo": "AdamO",
    "base": "Method State",
    "c_chain": "CChain",
    "cbp": "CBP",
    "chain": "Chain",
    "controls": "DecoupledDecay EqualBetas FreshOptimizer",
    "cpr": "CPR",
    "dash": "DASH",
    "fire": "FIRE",
    "full_reset": "FullReset",
    "hare_tortoise": "HareTortoise",
    "head_reset": "HeadReset",
    "l2": "L2",
    "l2_er": "L2ER",
    "l2_init": "L2Init",
    "nap": "NaP",
    "parseval": "Parseval",
    "redo": "ReDo",
    "regrama": "ReGraMa",
    "s_ewc": "SEWC",
    "shrink_perturb": "ShrinkPerturb",
    "snr": "SNR",
    "spectral": "Spectral",
    "trac": "TRAC",
    "upgd": "UPGD",
    "vanilla": "Vanilla",
    "wasserstein_init": "WassersteinInit",
    "weight_clipping": "WeightClipping",
}
FILE_OF = {name: file for file, names in FILES.items() for name in names.split()}
__all__ = [*FILE_OF]


def __getattr__(name: str) -> Any:
    if name not in FILE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{FILE_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *FILE_OF})
