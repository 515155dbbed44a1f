"""The modules of a model that a conversion looks into, with their paths."""

from collections.abc import Iterator, Sequence

import torch
from torch import nn

from supple.conversion.call_sites import CallSites
from supple.conversion.forms import class_of_module, class_of_namesake
from supple.conversion.own_code import has_own_forward

CALLED_BY_OTHERS = (nn.ModuleList, nn.ModuleDict, CallSites)  # they hold modules, and leave it to others to call them


def walk(model: nn.Module, replaced: Sequence[type[nn.Module]]) -> dict[nn.Module, str]:
    """Every module a conversion looks into, once, with the first path to it; not into what it replaces as a whole."""
    found: dict[nn.Module, str] = {}

    def visit(module: nn.Module, path: str) -> None:
        if module in found or is_closed(module) or class_of_module(module, replaced):
            return
        found[module] = path
        for name, child in children(module):
            visit(child, join(path, name))

    visit(model, "")
    return found


def is_closed(module: nn.Module) -> bool:
    """Whether its inside is none of a conversion's business: TorchScript, or an activation as a whole."""
    own = type(module).__module__ == "supple.layers" or class_of_namesake(module) is not None
    return own or isinstance(module, torch.jit.ScriptModule) or is_placed(module)


def mark_placed_(activation: nn.Module) -> nn.Module:
    """Remember, through copies and pickles, that a conversion has put this activation in."""
    activation.supple_placed = True  # type: ignore[assignment]
    return activation


def is_placed(module: nn.Module) -> bool:
    """Whether a conversion has put this module in."""
    return "supple_placed" in vars(module)


def is_traced(module: nn.Module) -> bool:
    """Whether the module's forward has to be traced to know what it calls."""
    return has_own_forward(module) and not isinstance(module, CallSites)


def children(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The module's children by name: a module held under two names comes twice."""
    return ((name, child) for name, child in list(module._modules.items()) if child is not None)


def called_by(module: nn.Module) -> Iterator[nn.Module]:
    """The children that only the module itself can be the one to call, also those in its lists."""
    for _, child in children(module):
        yield child
        if isinstance(child, CALLED_BY_OTHERS):
            yield from called_by(child)


def held_outside(module: nn.Module) -> Iterator[nn.Module]:
    """Modules in plain attributes or in lists, tuples and dicts there, where torch does not see them."""
    for value in vars(module).values():
        candidates = value.values() if type(value) is dict else value if type(value) in (list, tuple) else (value,)
        yield from (item for item in candidates if isinstance(item, nn.Module) and item not in module.children())


def join(path: str | None, name: str) -> str:
    """The path of a child; that of the model, if its holder is outside and has none."""
    if path is None:
        return ""
    return f"{path}.{name}" if path else name


def num_places(model: nn.Module) -> dict[nn.Module, int]:
    """For every module, under how many names its parents hold it."""
    places: dict[nn.Module, int] = {}
    for parent in model.modules():
        for _, child in children(parent):
            places[child] = places.get(child, 0) + 1
    return places
