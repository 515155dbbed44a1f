"""A place in a model that holds a module or a function, and what a call of it does with its input."""

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

from torch import nn
from torch._ops import OpOverloadPacket, _OpNamespace

from supple.activations import Activation, of_function, writes_in_place
from supple.convert import pools
from supple.convert.source import UNKNOWN


class Position(NamedTuple):
    """A module's child, or a function that it holds as an attribute, by name."""

    parent: nn.Module
    name: str

    @property
    def value(self) -> Any:
        """What is there now."""
        children = self.parent._modules
        return children[self.name] if self.name in children else vars(self.parent).get(self.name)


def container(value: Any) -> nn.Module | None:
    """The modules that a loop may go over or an index choose from, or None."""
    module = value.value if isinstance(value, Position) else value
    return module if isinstance(module, (nn.ModuleList, nn.ModuleDict, nn.Sequential)) else None


def item(base: Any, index: Any) -> Any:
    """Return what an index chooses of a network's container, or the function or class that it does of a plain one.

    Modules in plain lists and dicts are no position: a conversion replaces them where they are.
    """
    if (modules := container(base)) is not None:
        names = list(modules._modules)
        if isinstance(index, int) and -len(names) <= index < len(names):
            index = names[index]
        return Position(modules, index) if index in names else UNKNOWN
    items = dict(zip(range(-len(base), len(base)), 2 * base, strict=True)) if type(base) in (list, tuple) else base
    chosen = items.get(index) if type(items) is dict and isinstance(index, (int, str)) else None
    return chosen if callable(chosen) and not isinstance(chosen, nn.Module) else UNKNOWN


def activations_in(value: Any) -> Iterator[tuple[Activation, Any]]:
    """Yield the functions of activations in a plain list or dict, each after what is known of it."""
    items = value.values() if type(value) is dict else value if type(value) in (list, tuple) else ()
    return ((known, one) for one in items if callable(one) and (known := of_function(one)))


def entrance(position: Position) -> Position:
    """Where the input of a module is met first: in a Sequential, at its first module."""
    while getattr(type(position.value), "forward", None) is nn.Sequential.forward and position.value._modules:
        position = Position(position.value, next(iter(position.value._modules)))
    return position


def gives_back(value: Any) -> bool:
    """Whether it is a module whose output may be its input, or a view of it."""
    module = value.value if isinstance(value, Position) else value
    if type(module) is nn.Sequential:
        return all(map(gives_back, module))
    passing = (nn.Identity, nn.Flatten, nn.Unflatten, nn.modules.dropout._DropoutNd)
    return isinstance(module, passing) or (isinstance(module, nn.Module) and writes_in_place(module))


def attribute(base: Any, name: str) -> Any:
    """Return an attribute without running code: of a Python module, a network's module or its class."""
    if isinstance(base, _OpNamespace | OpOverloadPacket):  # torch.ops.aten makes its operators when they are asked for
        return getattr(base, name, UNKNOWN)
    if isinstance(base, ModuleType):
        return vars(base).get(name, UNKNOWN)
    module = base.value if isinstance(base, Position) else base
    if not isinstance(module, nn.Module):
        return UNKNOWN
    held = vars(module).get(name)
    if name in module._modules or of_function(held) or pools.is_pool_function(held):
        return Position(module, name)
    if name in vars(module):
        return held
    value = inspect.getattr_static(type(module), name, UNKNOWN)
    return value.__func__ if isinstance(value, staticmethod) else value
