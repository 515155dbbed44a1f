"""Stage data: what a library trains on, read once more for a method, and the end of a backward."""

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from supple.learner import Batch, described
from supple.unchanged import undisturbed

AsBatch = Callable[[Any], Batch]


class StageData:
    """The batches of a data loader as pairs of inputs and targets; can be read any number of times."""

    def __init__(self, loader: Any, as_batch: AsBatch) -> None:
        # What accelerate wraps around a loader tells the whole process how far the training has come.
        self.loader = getattr(loader, "base_dataloader", loader)
        self.as_batch = as_batch

    def __iter__(self) -> Iterator[Batch]:
        with undisturbed(self.loader):
            loader = copy.copy(self.loader)
            if getattr(loader, "_iterator", None) is not None:
                # Workers that persist serve one reader at a time, and the training may be in the midst of an epoch.
                loader._iterator = None
            for batch in loader:
                yield self.as_batch(batch)


def pair(batch: Any) -> Batch:
    """Inputs and targets of a batch that is a pair of tensors, as most are; the default of every adapter."""
    if isinstance(batch, (tuple, list)) and len(batch) == 2 and isinstance(batch[1], Tensor):
        inputs = tuple(batch[0]) if isinstance(batch[0], list) else batch[0]
        return inputs, batch[1]
    raise TypeError(
        "this method reads the data of a stage as pairs of inputs and targets; a batch here is "
        f"{described(batch)}. Say how to make a pair of it: as_batch=lambda batch: (batch['image'], batch['label'])."
    )


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
