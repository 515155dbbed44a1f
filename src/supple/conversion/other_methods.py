"""Methods of a module that its forward does not call: the functions in them stay, and are named."""

import dis
import functools
import itertools
from collections.abc import Iterator
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


def report_other_methods(module: nn.Module, path: str, *, positions: Positions) -> None:
    """Name the functions that would have been replaced, had forward called them."""
    cls: Any = original_class(module)
    for name, method in other_methods(cls).items():
        called = {forms.form_name(form) for form in called_forms(method) if is_wanted(form, positions)}
        if called:
            positions.findings.left(path, f"{', '.join(sorted(called))} in {cls.__name__}.{name}", how=NOT_FORWARD)


def is_wanted(form: Any, positions: Positions) -> bool:
    """Whether the form is one to be replaced."""
    return forms.CLASS_OF_FORM.get(form) in positions.request.classes or (positions.average and is_pool(form))


def is_pool(value: Any) -> bool:
    """Whether it is a max-pool function."""
    return any(value is pool for pool in pools.POOL_FUNCTIONS)


@functools.lru_cache(maxsize=1024)
def other_methods(cls: type[nn.Module]) -> dict[str, FunctionType]:
    """The methods of the class that were written outside of torch and that neither forward nor __init__ calls."""
    own = [vars(base) for base in reversed(cls.__mro__) if not base.__module__.startswith("torch.")]
    written = {name: value for attributes in own for name, value in attributes.items() if isinstance(value, METHODS)}
    methods = {name: function for name, value in written.items() if is_own(function := unwrapped(value))}
    reached, pending = set(), ["forward", "__init__"]
    while pending:
        name = pending.pop()
        if name in methods and name not in reached:
            reached.add(name)
            pending += [called for code in with_nested(methods[name].__code__) for called in code.co_names]
    return {name: function for name, function in methods.items() if name not in reached}


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
            value = getattr(value, now.argval, None) if loads_attribute and isinstance(value, ModuleType) else None
        if forms.class_of_function(value) or is_pool(value):
            yield value.func if isinstance(value, functools.partial) else value
        elif loads_attribute and now.argval in forms.CLASS_OF_FORM and is_empty_call(after):
            yield now.argval


def is_empty_call(instruction: dis.Instruction) -> bool:
    """Whether it calls with no arguments, as one calls ``x.relu()`` and does not ``block.relu(x)``."""
    return instruction.opname in ("PRECALL", "CALL") and instruction.arg == 0
