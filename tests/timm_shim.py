"""Lets timm, and other libraries that import torchvision, be imported beside a CPU build of torch.

A torchvision built for another torch does not bring its compiled operators, two of which it registers shapes for on
import. Declaring the two is enough; no model here calls them. Where it does bring them, they must come first: a second
declaration would end the process.
"""

import contextlib
import importlib.util
from pathlib import Path

import torch


def declare_operators():
    """Declare torchvision's operators, where they are not there."""
    found = importlib.util.find_spec("torchvision")
    for compiled in Path(found.origin).parent.glob("_C*") if found else ():  # _C, since 0.29 _C_stable
        with contextlib.suppress(OSError):
            torch.ops.load_library(compiled)
    for schema in ("nms(Tensor a, Tensor b, float c) -> Tensor", "qnms(Tensor a, Tensor b, float c) -> Tensor"):
        if not hasattr(torch.ops.torchvision, schema.partition("(")[0]):
            LIBRARY.define(schema)


LIBRARY = torch.library.Library("torchvision", "FRAGMENT")
