"""Keep neural networks able to learn: AID and its relatives, model conversion, methods and metrics of plasticity."""

from supple import functional, kernels
from supple.attach import Plasticity, attach
from supple.convert import conversion_report, convert
from supple.convert.saved import load_converted, save_converted
from supple.diagnose import diagnose
from supple.gap import PlasticityGap, plasticity_gap
from supple.inject import inject
from supple.layers import AID, CReLU, DropReLU, Fourier, IntervalDropout, ReLUDropout
from supple.learner import Learner
from supple.monitor import Monitor
from supple.random import held_masks
from supple.version import __version__

__all__ = [
    "AID",
    "CReLU",
    "DropReLU",
    "Fourier",
    "IntervalDropout",
    "Learner",
    "Monitor",
    "Plasticity",
    "PlasticityGap",
    "ReLUDropout",
    "__version__",
    "attach",
    "conversion_report",
    "convert",
    "diagnose",
    "functional",
    "held_masks",
    "inject",
    "kernels",
    "load_converted",
    "plasticity_gap",
    "save_converted",
]
