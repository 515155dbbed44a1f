"""Methods of a module that its forward does not call: the functions in them stay, and are named."""

import dis
import functools
import itertools
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

from torch import nn

from supple.conversion import forms, pools
from supple.conversion.own_code import is_own, original_class, unwrapped, with_nested
from supple.conversion.positions import Positions

NOT_FORWARD = (
    "forward does not call this method, and only what forward calls is replaced; "
    "hold it as a submodule (nn.ReLU, nn.MaxPool2d) and convert again"
)
METHODS = (FunctionType, staticmethod, classmethod)


def report_other_methods(paths: Mapping[nn.Module, str], *, positions: Positions) -> None:
    """Name the functions that would have been replaced, had a forward called them, be it another module's."""
    classes: dict[nn.Module, Any] = {module: original_class(module) for module in paths}
    used = frozenset().union(*(names_used(cls) for cls in set(classes.values())))
    for module, cls in classes.items():
        for name, method in own_methods(cls).items():
            called = {forms.form_name(form) for form in called_forms(method) if is_wanted(form, positions)}
            if called and name not in used:
                what = f"{', '.join(sorted(called))} in {cls.__name__}.{name}"
                positions.findings.left(paths[module], what, how=NOT_FORWARD)


def is_wanted(form: Any, positions: Positions) -> bool:
    """Whether the form is one to be replaced."""
    return forms.CLASS_OF_FORM.get(form) in positions.request.classes or (positions.average and is_pool(form))


def is_pool(value: Any) -> bool:
    """Whether it is a max-pool function."""
    return any(value is pool for pool in pools.POOL_FUNCTIONS)


def own_methods(cls: type[nn.Module]) -> dict[str, FunctionType]:
    """The methods of the class that were written outside of torch; an override hides what it overrides."""
    return {name: method for base in reversed(cls.__mro__) for name, method in written_in(base).items()}


@functools.lru_cache(maxsize=1024)
def written_in(base: type) -> dict[str, FunctionType]:
    """The methods that stand in the class itself."""
    if base.__module__.startswith("torch."):
        return {}
    found = {name: unwrapped(value) for name, value in vars(base).items() if isinstance(value, METHODS)}
    return {name: method for name, method in found.items() if is_own(method)}


@functools.lru_cache(maxsize=1024)
def names_used(cls: type[nn.Module]) -> frozenset[str]:
    """All names that forward and __init__ use, and what they call by them, those behind super() and getattr too."""
    used, pending = set(), ["forward", "__init__"]
    while pending:
        name = pending.pop()
        if name not in used:
            used.add(name)
            for method in [written_in(base)[name] for base in cls.__mro__ if name in written_in(base)]:
                for code in with_nested(method.__code__):
                    pending += [*code.co_names, *(text for text in code.co_consts if isinstance(text, str))]
    return frozenset(used)


@functools.lru_cache(maxsize=1024)
def called_forms(method: FunctionType) -> frozenset[Any]:
    """The activation and pool functions that the method names, and as strings the methods of tensors that it calls."""
    return frozenset(form for code in with_nested(method.__code__) for form in forms_in(code, method.__globals__))


def forms_in(code: CodeType, names: dict[str, Any]) -> Iterator[Any]:
    """The same for one piece of code and the globals that it sees."""
    value = None
    for now, after in itertools.pairwise(dis.get_instructions(code)):
        loads_attribute = now.opname in ("LOAD_ATTR", "LOAD_METHOD")
        if now.opname == "LOAD_GLOBAL":
            value = names.get(now.argval)
        else:  # an attribute of a module such as F, or of something that is known when the code runs
            # By vars, for a module may import others when it is asked for an attribute.
            value = vars(value).get(now.argval) if loads_attribute and isinstance(value, ModuleType) else None
        if forms.class_of_function(value) or is_pool(value):
            yield value.func if isinstance(value, functools.partial) else value
        elif loads_attribute and now.argval in forms.CLASS_OF_FORM and is_empty_call(after):
            yield now.argval


def is_empty_call(instruction: dis.Instruction) -> bool:
    """Whether it calls with no arguments, as one calls ``x.relu()`` and does not ``block.relu(x)``."""
    return instruction.opname in ("PRECALL", "CALL") and instruction.arg == 0
