"""Keep neural networks able to learn: AID and its relatives, model conversion, methods and metrics of plasticity."""

from supple import functional, kernels
from supple.convert import conversion_report, convert
from supple.layers.aid import AID
from supple.layers.crelu import CReLU
from supple.layers.drop_relu import DropReLU
from supple.layers.fourier import Fourier
from supple.layers.interval_dropout import IntervalDropout
from supple.layers.relu_dropout import ReLUDropout
from supple.learner import Learner
from supple.monitor import Monitor
from supple.version import __version__

__all__ = [
    "AID",
    "CReLU",
    "DropReLU",
    "Fourier",
    "IntervalDropout",
    "Learner",
    "Monitor",
    "ReLUDropout",
    "__version__",
    "conversion_report",
    "convert",
    "functional",
    "kernels",
]
