"""Keep neural networks able to learn: AID and its relatives, model conversion, methods and metrics of plasticity."""

import importlib
from typing import TYPE_CHECKING, Any

from supple import functional, kernels
from supple.attach import Plasticity, attach
from supple.convert import conversion_report, convert
from supple.inject import inject
from supple.layers import AID, CReLU, DropReLU, Fourier, IntervalDropout, ReLUDropout
from supple.learner import Learner
from supple.random import held_masks
from supple.version import __version__

if TYPE_CHECKING:
    from supple.convert.saved import load_converted, save_converted
    from supple.diagnosis import diagnose
    from supple.gap import PlasticityGap, plasticity_gap
    from supple.monitor import Monitor

# What is imported when it is first asked for, and where it lives. No such name is also the name of a file, which
# Python would put in its place.
FILE_OF = {
    "Monitor": "monitor",
    "PlasticityGap": "gap",
    "diagnose": "diagnosis",
    "load_converted": "convert.saved",
    "plasticity_gap": "gap",
    "save_converted": "convert.saved",
}
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


def __getattr__(name: str) -> Any:
    if name == "metrics":
        return importlib.import_module("supple.metrics")
    if name not in FILE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{FILE_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "metrics"})
