"""Class mask: outputs of classes that have not come yet are out of the race, in training and in evaluation."""

from typing import Any

import torch
from torch import Tensor, nn

MASKED = -1e9  # added to an output, it leaves no probability and no gradient; finite, so that differences stay numbers


class ClassMask:
    """Adds to a network's outputs from the first ``show`` of a number on; until then the network is as it was.

    The hook reads a tensor that stays in its place, so that captured steps see what later stages show.
    """

    def __init__(self, model: nn.Module, num_classes: int, device: torch.device) -> None:
        self.model, self.bias_C = model, torch.zeros(num_classes, device=device)
        self.is_hooked = False

    def show(self, num_classes: int | None) -> None:
        """Mask all but the first classes; None masks nothing."""
        if num_classes is not None and not self.is_hooked:
            self.model.register_forward_hook(self._mask)
            self.is_hooked = True
        self.bias_C.zero_()
        if num_classes is not None:
            self.bias_C[num_classes:] = MASKED

    def _mask(self, model: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        return output + self.bias_C
