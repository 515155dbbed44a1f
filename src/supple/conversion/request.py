"""What a conversion was asked for."""

import copy
from dataclasses import dataclass

from torch import nn

from supple.conversion.walk import mark_placed_


@dataclass(frozen=True)
class Request:
    """Copies of ``activation`` in the place of ``classes``, average-pools in that of max-pools if ``average``.

    ``even_alone``: the pools change also in a model where no activation does.
    """

    activation: nn.Module
    classes: tuple[type[nn.Module], ...]
    average: bool
    even_alone: bool

    def new_activation(self, *, training: bool) -> nn.Module:
        """A copy of the activation of its own."""
        return mark_placed_(copy.deepcopy(self.activation).train(training))
