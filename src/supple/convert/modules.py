"""Modules of a model that a conversion looks into, and the positions in them that get a new activation."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule

from supple.activations import BY_CLASS, computes_one_of, find, is_activation, of_function, operator_name
from supple.convert.call_sites import CallSites
from supple.convert.pools import is_pool_function
from supple.convert.position import Position
from supple.convert.reading import CLAMP, OF_METHOD
from supple.convert.source import original_class
from supple.layers import AID


@dataclass(frozen=True)
class Slot:
    """A position that gets a new activation, and what is there: a module, or a function held as an attribute."""

    position: Position
    path: str
    old: Any
    cls: type[nn.Module]

    @property
    def what(self) -> str:
        return type(self.old).__name__ if isinstance(self.old, nn.Module) else f"{self.position.name}, a function"

    def put_(self, activation: nn.Module) -> None:
        """Make the activation a child of the parent, in sight of the parent's own ``__setstate__``."""
        parent, name = self.position
        was_plain = vars(parent).pop(name, None) is not None
        parent.add_module(name, activation)
        # nn.TransformerDecoderLayer and nn.Transformer, copied or unpickled, look for their function among the plain
        # attributes alone, and put F.relu there if it is missing, which would hide the child.
        if was_plain and original_class(parent).__setstate__ is not nn.Module.__setstate__:
            vars(parent)[name] = activation


def walk(model: nn.Module, replaced: Sequence[type[nn.Module]]) -> dict[nn.Module, str]:
    """Return every module to look into, once, with the first path to it; not what is replaced as a whole."""
    found: dict[nn.Module, str] = {}

    def visit(module: nn.Module, path: str) -> None:
        # Not the inside of an activation as a whole.
        whole = find(module) is not None or (is_activation(module) and not isinstance(module, tuple(BY_CLASS)))
        closed = whole or isinstance(module, torch.jit.ScriptModule) or is_placed(module)
        if module in found or closed or computes_one_of(module, replaced):
            return
        found[module] = path
        for name, child in children(module):
            visit(child, join(path, name))

    visit(model, "")
    return found


def is_placed(module: Any) -> bool:
    """Whether a conversion has put this module in."""
    return isinstance(module, nn.Module) and "supple_placed" in vars(module)


def has_own_code(module: nn.Module) -> bool:
    """Whether methods of the module were written outside of torch."""
    written = any(not cls.__module__.startswith("torch.") for cls in original_class(module).__mro__[:-1])
    return written and not isinstance(module, CallSites)


def calls_in_graph(module: nn.Module) -> Iterator[tuple[str, str, type[nn.Module] | None]]:
    """Yield the nodes of a torch.fx graph that call an activation, with its name and class, or a max-pool (None)."""
    for node in module.graph.nodes if isinstance(module, GraphModule) else ():
        target: Any = node.target
        if node.op in ("call_function", "call_method"):
            name = target if isinstance(target, str) else operator_name(target) or getattr(target, "__name__", "")
            known = OF_METHOD.get(name) if isinstance(target, str) else of_function(target)
            given = [*map(str, node.args), *(f"{key}={value}" for key, value in node.kwargs.items())]
            clamp = CLAMP.match(f"{name}({', '.join(given)})")
            if known is not None or clamp is not None:
                yield node.name, name, known.cls if known else nn.ReLU6 if clamp and clamp["cap"] else nn.ReLU
            elif is_pool_function(target) or name.startswith("max_pool"):
                yield node.name, name, None


def children(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the module's children by name: a module held under two names comes twice."""
    return ((name, child) for name, child in list(module._modules.items()) if child is not None)


def held_by(value: Any) -> Iterator[nn.Module]:
    """Yield the modules that an attribute holds: itself, in lists, partials and functions, however deep."""
    todo, seen = [value], set[int]()
    while todo:
        one = todo.pop()
        if isinstance(one, nn.Module):
            yield one
        elif id(one) not in seen:
            seen.add(id(one))
            match one:
                case list() | tuple() | set() | frozenset():
                    todo += one
                case dict():
                    todo += one.values()
                case partial():
                    todo += [one.func, one.args, one.keywords]
                case MethodType():
                    todo.append(one.__self__)
                case FunctionType():
                    cells = (cell for cell in one.__closure__ or () if cell != CellType())
                    todo += [one.__defaults__, one.__kwdefaults__, *(cell.cell_contents for cell in cells)]


def join(path: str | None, name: str) -> str:
    """The path of a child; that of the model, if its holder is outside and has none."""
    if path is None:
        return ""
    return f"{path}.{name}" if path else name


def leave_fast_paths_(model: nn.Module) -> None:
    """Keep nn.TransformerEncoder in evaluation from a fused kernel that knows ReLU and GELU only."""
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoderLayer) and is_placed(module.activation):
            module.activation_relu_or_gelu = 0
        if isinstance(module, nn.TransformerEncoder) and any(map(is_placed, module.modules())):
            module.use_nested_tensor = False


def change_settings_(activation: nn.Module, other: nn.Module) -> bool:
    """Give a placed activation the settings of another of its class; whether anything changed.

    One with a state of its own keeps everything, because it may have been trained.
    """
    if type(activation) is not type(other) or activation.state_dict():
        return False
    kept = {"training", "inplace", "supple_placed"}
    settings = {name: value for name, value in vars(other).items() if name not in kept and not name.startswith("_")}
    changed = {name: value for name, value in settings.items() if vars(activation).get(name) != value}
    vars(activation).update(copy.deepcopy(changed))
    return bool(changed)


def consequence(replaced: type[nn.Module], activation: nn.Module) -> str:
    """What is lost when the activation stands for the replaced class; empty for ReLU, whose relatives they are."""
    if issubclass(replaced, nn.ReLU6):
        return "its cap at 6 is gone"
    if issubclass(replaced, nn.ReLU) or isinstance(activation, replaced):
        return ""
    if replaced in BY_CLASS and BY_CLASS[replaced].bounded:
        return f"its bounds are gone: where it was a gate, {type(activation).__name__} does not serve"
    curve = f"{activation} computes another"
    if isinstance(activation, AID):
        slopes = f"{activation.p:g} above zero, {1 - activation.p:g} below"
        curve = f"{activation} in evaluation is a leaky ReLU of slope {slopes}"
    unfit = f"weights trained with {replaced.__name__} no longer fit, so train them further, or from the start"
    return f"its curve is gone: {curve}; {unfit}"
