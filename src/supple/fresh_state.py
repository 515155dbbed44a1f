"""Fresh state: an optimizer that knows no more of parameters than before its first step."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

REMEMBER_ZEROS = (
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.Adamax,
    torch.optim.Adadelta,
    torch.optim.RMSprop,
)


def starts_from_zeros(optimizer: torch.optim.Optimizer) -> bool:
    """Whether all it remembers as it takes its first step is zeros, as far as is known here."""
    if type(optimizer) is torch.optim.SGD:  # without momentum it remembers nothing
        return all(group["momentum"] == 0 for group in optimizer.param_groups)
    return type(optimizer) in REMEMBER_ZEROS


def forget_(optimizer: torch.optim.Optimizer, parameters: Iterable[nn.Parameter]) -> None:
    """Have it forget the parameters: in place where that means zeros, so that CUDA graphs of its steps stay good."""
    from_zeros = starts_from_zeros(optimizer)
    for parameter in parameters:
        parts = optimizer.state.get(parameter, {}).values()
        if from_zeros and all(suits(part, parameter) for part in parts):
            for part in parts:
                part.zero_()
        else:
            optimizer.state.pop(parameter, None)


def suits(part: object, parameter: nn.Parameter) -> bool:
    """Whether it can be what the optimizer itself would remember of the parameter as it is now: it may have changed."""
    if not isinstance(part, Tensor):
        return False
    is_count = part.dim() == 0
    return is_count or (part.shape, part.dtype, part.device) == (parameter.shape, parameter.dtype, parameter.device)
