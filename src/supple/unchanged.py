"""Unchanged: what looking at a model does to it, kept and undone.

Evaluation mode for a while calls eval() and train(): some modules do work there, as adapters that are merged into a
weight. Setting the flag alone would leave them between two modes. Taking out is not exact, so contents are kept too.
"""

import contextlib
import copy
import itertools
import sys
import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator, Sequence
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, equal, nn

from supple.random import RandomStreams, kept_loader_generators

CONTAINERS = (list, dict, set, OrderedDict, defaultdict, deque)


class Contents:
    """The attributes of a module and its descendants as they are now, and the items of lists, dicts and sets there."""

    def __init__(self, module: nn.Module) -> None:
        self.attributes = {part: dict(vars(part)) for part in module.modules()}
        held = (value for attributes in self.attributes.values() for value in attributes.values())
        self.containers = [(value, copy.copy(value)) for value in held if type(value) in CONTAINERS]

    def undo_changes_(self) -> None:
        """Put everything back."""
        for part, before in self.attributes.items():
            now = vars(part)
            names = [n for n in {*before, *now} if now.get(n, self) is not before.get(n, self)]
            for name in names:
                now.pop(name, None)
            now.update((name, before[name]) for name in names if name in before)
        for container, kept in self.containers:
            if items(container) != items(kept):
                container.clear()
                (container.update if hasattr(container, "update") else container.extend)(kept)


def items(container: Any) -> list[Any]:
    """What the container holds, by identity, because tensors would compare by value."""
    if isinstance(container, dict):
        return [(id(key), id(value)) for key, value in container.items()]
    return sorted(map(id, container)) if isinstance(container, set) else list(map(id, container))


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
        set_modes_(modes)
        for content in contents:
            content.undo_changes_()
        for tensor, before in tensors:
            if not equal(tensor, before):
                tensor.data.copy_(before)  # by .data: a backward that waits for this value may still have it


def set_modes_(modes: Sequence[tuple[nn.Module, bool]]) -> None:
    """Call train() if a mode is not the one of before; parents come first, because train() reaches all below."""
    for module, mode in modes:
        if module.training != mode:
            module.train(mode)
    for module, mode in modes:
        module.training = mode  # of a module in two places, which both parents set


def does_work(module: nn.Module) -> bool:
    """Whether the module's train() or eval() is not torch's, whose own set flags alone."""
    return any(getattr(act, "__module__", "").partition(".")[0] != "torch" for act in (module.train, module.eval))


def kept_tensors(modules: Sequence[nn.Module]) -> list[tuple[Tensor, Tensor]]:
    """The modules' own parameters and buffers, each with a copy; not those below, which may be a whole network's."""
    own = ((*module.parameters(recurse=False), *module.buffers(recurse=False)) for module in modules)
    held = itertools.chain.from_iterable(own)
    return [(tensor, tensor.detach().clone()) for tensor in {id(tensor): tensor for tensor in held}.values()]


class EagerCode:
    """While entered, code that torch.compile made is not used: hooks that came after it do not fire there.

    torch's stance is the process's. The first thread sets it, and the last one to leave sets it back.
    """

    def __init__(self) -> None:
        self.lock, self.num_inside = threading.Lock(), 0

    def __enter__(self) -> None:
        with self.lock:
            if not self.num_inside:
                self.stance = torch.compiler.set_stance("force_eager")
            self.num_inside += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.num_inside -= 1
            if not self.num_inside:
                self.stance.__exit__(None, None, None)


EAGER_CODE = EagerCode()


def eager_code() -> contextlib.AbstractContextManager[Any]:
    """``EAGER_CODE``, if anything can be compiled: torch's compiler takes a second to load."""
    # While a step is compiled, our code in the step is compiled with it.
    used = "torch._dynamo" in sys.modules and not torch.compiler.is_compiling()
    return EAGER_CODE if used else contextlib.nullcontext()


def check_copies(model: nn.Module) -> None:
    """TypeError if a deep copy of the model would call the model itself."""
    for part in model.modules():
        own = isinstance(vars(part).get("forward"), FunctionType)  # deepcopy takes functions as they are
        if own and "_orig_mod" not in part._modules:  # a compiled module knows how to copy itself
            raise TypeError(
                f"this works on a copy of the model, and that of its {type(part).__name__} would call the original, "
                "because forward is a function set on the instance. Delete it for a while (del model.forward); "
                "to compile, use torch.compile(model), which leaves forward as it is."
            )


@torch._disable_dynamo  # in compiled code a compiled model would be taken for the one inside it
def twin_of(model: nn.Module, memo: dict[int, Any] | None = None) -> nn.Module:
    """A deep copy of the model, see ``check_copies``."""
    check_copies(model)
    return copy.deepcopy(model, memo)


@contextlib.contextmanager
def undisturbed(loader: Any = None) -> Iterator[None]:
    """Set back, at the end, all that reading a loader or drawing a mask moves on: shuffles and masks stay as they were.

    These are the default generators of torch (every GPU's too), Python and numpy, and the loader's own.
    """
    streams = RandomStreams()
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    try:
        with kept_loader_generators(loader):
            yield
    finally:
        streams.rewind_()
        if gpus:
            torch.cuda.set_rng_state_all(gpus)
