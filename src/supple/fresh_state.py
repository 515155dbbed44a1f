"""Fresh state: an optimizer that knows no more of parameters than before its first step."""

from collections.abc import Iterable

import torch
from torch import nn

REMEMBER_ZEROS = (torch.optim.Adam, torch.optim.AdamW)


def starts_from_zeros(optimizer: torch.optim.Optimizer) -> bool:
    """Whether all it remembers as it takes its first step is zeros, as far as is known here."""
    if type(optimizer) is torch.optim.SGD:  # without momentum it remembers nothing
        return all(group["momentum"] == 0 for group in optimizer.param_groups)
    return type(optimizer) in REMEMBER_ZEROS


def forget_(optimizer: torch.optim.Optimizer, parameters: Iterable[nn.Parameter]) -> None:
    """Have it forget the parameters: in place where that means zeros, so that CUDA graphs of its steps stay good."""
    in_place = starts_from_zeros(optimizer)
    for parameter in parameters:
        if in_place:
            for part in optimizer.state.get(parameter, {}).values():
                part.zero_()
        else:
            optimizer.state.pop(parameter, None)
