"""The end of a backward: where a method edits gradients if the library has no hook between backward and clipping."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn


class BackwardEnd:
    """Calls ``act`` at the end of each backward that gave one of the parameters a gradient.

    When it is called all gradients are accumulated, and averaged over processes where DistributedDataParallel does so.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], act: Callable[[], None]) -> None:
        self.act = act
        self._backward = -1  # the one that was noticed last; one that fails halfway leaves nothing behind
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        self._handles = [parameter.register_post_accumulate_grad_hook(self._notice) for parameter in trained]

    def close(self) -> None:
        """Take the hooks off."""
        while self._handles:
            self._handles.pop().remove()

    def _notice(self, parameter: Tensor) -> None:
        backward = torch._C._current_graph_task_id()
        if backward != self._backward:
            self._backward = backward
            at_the_end(self._requeue)

    def _requeue(self) -> None:
        at_the_end(self.act)  # behind what DistributedDataParallel queued since, which writes the averages


def at_the_end(act: Callable[[], None]) -> None:
    """Have it called when the backward that is under way has ended."""
    torch.autograd.Variable._execution_engine.queue_callback(act)
