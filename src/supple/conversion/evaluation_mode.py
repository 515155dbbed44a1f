"""Evaluation mode for a while: modules are told by eval(), told back by train(), and are as they were.

Some do work there: adapters are merged into a weight by eval() and taken out by train(). Setting the flag alone would
leave them between two modes; and as taking out is not exact in floating point, what they hold is kept, too.
"""

import contextlib
import itertools
from collections.abc import Iterator, Sequence

from torch import Tensor, equal, nn

from supple.conversion.contents import Contents


@contextlib.contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """While open, all modules evaluate; afterwards each is in its own mode again, and holds what it held."""
    modes = [(module, module.training) for module in model.modules()]
    working = [module for module, _ in modes if does_work(module)]
    contents, tensors = [Contents(module) for module in working], kept_tensors(working)
    try:
        model.eval()
        yield
    finally:
        tell_modes_(modes)
        for content in contents:
            content.undo_changes_()
        for tensor, before in tensors:
            if not equal(tensor, before):
                tensor.data.copy_(before)  # by .data: a backward that waits for this value may still have it


def tell_modes_(modes: Sequence[tuple[nn.Module, bool]]) -> None:
    """Call train() where a mode is not the one of before; parents come first, for train() reaches all below."""
    for module, mode in modes:
        if module.training != mode:
            module.train(mode)
    for module, mode in modes:
        module.training = mode  # of a module in two places, which both parents told


def does_work(module: nn.Module) -> bool:
    """Whether the module's train() or eval() is not torch's, whose own set flags alone."""
    return any(getattr(act, "__module__", "").partition(".")[0] != "torch" for act in (module.train, module.eval))


def kept_tensors(modules: Sequence[nn.Module]) -> list[tuple[Tensor, Tensor]]:
    """The modules' own parameters and buffers, each with a copy; not those below, which may be a whole network's."""
    own = ((*module.parameters(recurse=False), *module.buffers(recurse=False)) for module in modules)
    held = itertools.chain.from_iterable(own)
    return [(tensor, tensor.detach().clone()) for tensor in {id(tensor): tensor for tensor in held}.values()]
