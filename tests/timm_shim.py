"""Lets timm be imported beside a CPU build of torch.

timm imports torchvision, and a torchvision built for another torch does not bring its compiled operators, two of which
it registers shapes for on import. Declaring the two is enough; no model here calls them.
"""

import torch


def import_timm():
    """timm, whether or not torchvision's operators are there."""
    for schema in ("nms(Tensor a, Tensor b, float c) -> Tensor", "qnms(Tensor a, Tensor b, float c) -> Tensor"):
        if not hasattr(torch.ops.torchvision, schema.partition("(")[0]):
            LIBRARY.define(schema)
    import timm

    return timm


LIBRARY = torch.library.Library("torchvision", "FRAGMENT")
