"""One activation for each place that calls it: what a reused ``self.relu`` becomes; its parent keeps its class."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn


class CallSites(nn.ModuleList):
    """The i-th call within one forward of the caller goes to the i-th activation.

    The count restarts with every forward of the caller (`Restart`), and wraps around if another method is called.
    A rewritten forward may call the activations by their index.
    """

    def __init__(self, activations: Iterable[nn.Module]) -> None:
        super().__init__(activations)
        self.num_calls = 0

    def __call__(self, x: Tensor) -> Tensor:
        # Not by forward: nn.Module's own __call__ would cost as much as a small activation once more.
        modules = self._modules
        site = self.num_calls % len(modules)
        self.count_from_(site + 1)
        return modules[str(site)](x)

    def count_from_(self, number: int) -> None:
        """Set the number of calls so far."""
        # nn.Module's own __setattr__ and ModuleList's indexing would cost as much as a small activation.
        object.__setattr__(self, "num_calls", number)


@dataclass(frozen=True)
class Restart:
    """A forward pre-hook of the caller: the call sites at this path below it count from the first again."""

    path: tuple[str, ...]

    def __call__(self, caller: nn.Module, args: Any) -> None:
        sites: Any = caller
        for name in self.path:
            sites = getattr(sites, name)
        sites.count_from_(0)
