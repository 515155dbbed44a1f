"""Methods of one module: which of them are read, how often each call in them runs, and what becomes of it."""

import functools
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from torch import nn

from supple.activations import ACTIVATIONS, of_function
from supple.convert import pools
from supple.convert.reading import NO_SELF, Call, Reader
from supple.convert.source import (
    MethodPlan,
    UnwritableError,
    codes_in,
    is_own,
    original_class,
    rewritten,
    why_not_rewritable,
)

NAMES = frozenset(known.cls.__name__ for known in ACTIVATIONS) | pools.NAMES
ON_INSTANCE = "forward is an attribute of the instance"


@dataclass
class Method:
    """A method, where it was written, its calls, and what becomes of them."""

    name: str
    attribute: str
    owner: int
    function: FunctionType
    actions: dict[str, str]
    calls: list[Call] = field(default_factory=list)

    def label(self, call: Call) -> str:
        return f"{call.name} in {self.function.__qualname__}, line {call.line}"


class Methods:
    """The methods of a module that call activations or pools, or that its forward calls."""

    def __init__(self, module: nn.Module, path: str, names: frozenset[str]) -> None:
        self.module, self.path = module, path
        self.cls: Any = original_class(module)
        self.before: tuple[MethodPlan, ...] = getattr(type(module), "supple_plan", ())
        self.changes = bool(self.before)
        self.methods: dict[str, Method] = {}
        self.calls: dict[Call, Method] = {}  # in the order in which a forward meets them, then others
        held = [value for value in vars(module).values() if is_own(value)]
        self.unread: dict[FunctionType, str] = dict.fromkeys(map(inspect.unwrap, held), NO_SELF)
        methods = own_methods(self.cls)
        for name in ("forward", *mentioning(self.cls, names)):
            if name not in self.methods and self.read(name, name, 0):
                self.count_((name,), 1, conditional=False, nested=False, met=frozenset(self.calls))
            elif name not in self.methods and name in methods:  # a static method
                self.unread[methods[name]] = NO_SELF

    def read(self, name: str, attribute: str, start: int) -> bool:
        """Read a method, looked for from a place in the mro on, and those that it calls; whether there is one."""
        mro = self.cls.__mro__
        owner = next((i for i in range(start, len(mro)) if attribute in vars(mro[i])), -1)
        function: Any = vars(mro[owner]).get(attribute)
        if not is_own(function):
            return False
        actions = next((dict(plan.actions) for plan in self.before if plan.name == name), {})
        method = self.methods[name] = Method(name, attribute, owner, inspect.unwrap(function), actions)
        try:
            reader = Reader(method.function, self.module, mro[owner])
            method.calls = reader.read()
            self.unread |= dict.fromkeys(reader.helpers, NO_SELF)
        except UnwritableError as error:
            self.unread[method.function] = str(error)
        for call in method.calls:
            if call.kind == "super":  # to a copy of what it reaches, because another class may change it otherwise
                base = next((cls for cls in mro[owner + 1 :] if call.name in vars(cls)), nn.Module)
                call.target = f"_{call.name.strip('_')}_of_{base.__name__}"
            if call.kind in ("method", "super") and call.target not in self.methods:
                self.read(call.target, call.name, owner + 1 if call.kind == "super" else 0)
        return True

    def count_(
        self, around: tuple[str, ...], times: int | None, *, conditional: bool, nested: bool, met: frozenset[Call]
    ) -> None:
        """Count how often the last of these methods, each of which calls the next, runs its calls not yet met."""
        method = self.methods[around[-1]]
        for call in method.calls:
            self.calls.setdefault(call, method)
            rounds = None if times is None or call.times is None else times * call.times
            maybe, inner = conditional or call.conditional, nested or call.nested
            if call.kind in ("method", "super") and call.target in self.methods and call.target not in around:
                self.count_((*around, call.target), rounds, conditional=maybe, nested=inner, met=met)
            if call not in met:
                call.total = None if rounds is None or call.total is None else call.total + rounds
                call.conditional, call.nested, call.in_forward = maybe, inner, around[0] == "forward"

    def why_not(self, method: Method) -> str:
        """Why the method cannot be rewritten; empty if it can."""
        if method.attribute == "forward" and "forward" in vars(self.module):
            return ON_INSTANCE
        try:
            rewritten(vars(self.cls.__mro__[method.owner])[method.attribute], {})
        except UnwritableError as error:
            return str(error)
        return why_not_rewritable(self.cls)

    def plan(self) -> tuple[MethodPlan, ...]:
        """What becomes of all methods with an action; a call by ``super()`` goes to the copy of what it reaches."""
        for method in [*self.methods.values()] * len(self.methods):
            for call in method.calls:
                if call.kind == "super" and call.target in self.methods and self.methods[call.target].actions:
                    method.actions[call.key] = f"method:{call.target}"
        return tuple(
            MethodPlan(name, method.attribute, method.owner, tuple(sorted(method.actions.items())))
            for name, method in sorted(self.methods.items())
            if method.actions
        )

    def left(self, classes: Sequence[type[nn.Module]]) -> Iterator[tuple[str, str]]:
        """Yield what functions that have no self or no source name of activations, with the reason."""
        for function, why in self.unread.items():
            for known in known_in(function):
                if known.cls in classes:
                    yield f"{known.names[0]} in {function.__qualname__}", why


@functools.lru_cache(maxsize=1024)
def written_in(base: type) -> dict[str, FunctionType]:
    """The methods that stand in the class itself, static ones included, unless torch wrote it."""
    found = {name: getattr(value, "__func__", value) for name, value in vars(base).items()}
    return {name: inspect.unwrap(value) for name, value in found.items() if is_own(value)}


@functools.lru_cache(maxsize=1024)
def own_methods(cls: type) -> dict[str, FunctionType]:
    """The methods that were written outside of torch; an override hides what it overrides."""
    return {name: method for base in reversed(cls.__mro__) for name, method in written_in(base).items()}


@functools.lru_cache(maxsize=4096)
def names_in(function: FunctionType) -> frozenset[str]:
    """The names that the function uses for globals, attributes and imports."""
    return frozenset(name for code in codes_in(function.__code__) for name in (*code.co_names, *code.co_freevars))


@functools.lru_cache(maxsize=1024)
def used_in_init(cls: type) -> set[str]:
    """The methods that ``__init__`` calls: they build the module."""
    used, pending = set[str](), {"__init__"}
    while pending:
        used |= pending
        methods = [written[name] for written in map(written_in, cls.__mro__) for name in pending & written.keys()]
        pending = set().union(*map(names_in, methods)) - used
    return used


@functools.lru_cache(maxsize=4096)
def known_in(function: FunctionType) -> tuple[Any, ...]:
    """The activations whose functions or methods the function names."""
    names = names_in(function)
    held = [of_function(function.__globals__.get(name)) for name in names]
    return tuple(known for known in ACTIVATIONS if known in held or not names.isdisjoint(known.names))


def mentioning(cls: type, names: frozenset[str]) -> list[str]:
    """The methods in which activations, pools or the names may be called, without those that build the module."""
    methods = {name: method for name, method in own_methods(cls).items() if not name.startswith("__")}
    found = [name for name, method in methods.items() if known_in(method) or names_in(method) & (NAMES | names)]
    return [name for name in found if name not in used_in_init(cls)]
