"""Methods of one module: which of them are read, and how often each call in them runs within one forward."""

import dis
import functools
import inspect
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from torch import nn

from supple.activations import ACTIVATIONS, of_function
from supple.convert import pools
from supple.convert.reading import Call, Reader
from supple.convert.source import MethodPlan, UnwritableError, original_class, rewritten_class
from supple.convert.syntax import with_nested

NAMES = frozenset(name for known in ACTIVATIONS for name in (*known.names, known.cls.__name__)) | pools.NAMES


@dataclass
class Method:
    """A method, where it was written, its calls, and what becomes of them; ``why_unread`` if it has no source."""

    name: str
    attribute: str
    owner: int
    function: FunctionType
    calls: list[Call] = field(default_factory=list)
    why_unread: str = ""
    actions: dict[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Its name with that of its class."""
        return inspect.unwrap(self.function).__qualname__


class Run(NamedTuple):
    """A call as one call of ``door`` meets it: how often, under which conditions, in a function of its own or not."""

    door: str
    call: Call
    method: Method
    times: int | None
    arms: tuple[tuple[int, int], ...]
    nested: bool


class Methods:
    """The methods of a module that call activations or pools, or that its forward calls.

    ``doors`` are called from outside: forward, and what is not called by forward.
    """

    def __init__(self, module: nn.Module, path: str, names: frozenset[str]) -> None:
        self.module, self.path = module, path
        self.cls: Any = original_class(module)
        self.name = self.cls.__name__
        self.methods: dict[str, Method] = {}
        self.known_runs: dict[str, list[Run]] = {}
        self.doors: list[str] = []
        self.changes = "supple_plan" in vars(type(module))
        planned = getattr(type(module), "supple_plan", ())
        self.planned = {method.name: dict(method.actions) for method in planned}
        for name in ("forward", *mentioning(self.cls, names)):
            if name not in self.methods and self.read(name, name, 0):
                self.doors.append(name)

    def read(self, name: str, attribute: str, start: int) -> bool:
        """Read a method, looked for from a place in the mro on, and those that it calls; whether there is one."""
        mro = self.cls.__mro__
        owner = next((i for i in range(start, len(mro)) if attribute in vars(mro[i])), len(mro))
        function: Any = vars(mro[owner]).get(attribute) if owner < len(mro) else None
        if not is_own(function):
            return False
        method = self.methods[name] = Method(name, attribute, owner, function, actions=self.planned.get(name, {}))
        try:
            method.calls = Reader(inspect.unwrap(function), self.module, mro[owner]).read()
        except UnwritableError as error:
            method.why_unread = str(error)
        for call in method.calls:
            if call.kind == "method" and call.target not in self.methods:
                self.read(call.target, call.target, 0)
            elif call.kind == "super":
                call.target = self.read_base(call.name, owner)
        return True

    def read_base(self, attribute: str, owner: int) -> str:
        """Read the method that ``super()`` reaches; return the name of its copy, empty if torch wrote it."""
        base = next((cls for cls in self.cls.__mro__[owner + 1 :] if attribute in vars(cls)), None)
        name = f"_{attribute.strip('_')}_of_{base.__name__}" if base else ""
        return name if name in self.methods or (base and self.read(name, attribute, owner + 1)) else ""

    def runs(self, door: str) -> list[Run]:
        """Return the calls that one call of a method meets, in order, those in methods it calls included."""
        if door not in self.known_runs:
            self.known_runs[door] = list(self.expand((door,), 1, (), False)) if door in self.methods else []
        return self.known_runs[door]

    def expand(self, around: tuple[str, ...], times: int | None, arms: Any, nested: bool) -> Iterator[Run]:
        """Yield the calls of the last of these methods, each of which calls the next."""
        method = self.methods[around[-1]]
        for call in method.calls:
            rounds = None if times is None or call.times is None else times * call.times
            run = Run(around[0], call, method, rounds, arms + call.arms, nested or call.nested)
            yield run
            calls_method = call.kind in ("method", "super") and call.target in self.methods
            if calls_method and call.target not in around:
                yield from self.expand((*around, call.target), *run[3:])

    @functools.cached_property
    def meetings(self) -> dict[Call, list[Run]]:
        """For each call how one forward meets it; if none does, the first other method from outside."""
        found: dict[Call, list[Run]] = {}
        for door in self.doors:
            met: dict[Call, list[Run]] = {}
            for run in self.runs(door):
                met.setdefault(run.call, []).append(run)
            found = {**met, **found}
        return found

    def is_met(self, call: Call) -> bool:
        """Whether forward calls it, or nothing does because there is no forward."""
        return not self.runs("forward") or any(run.call is call for run in self.runs("forward"))

    def plan(self) -> tuple[MethodPlan, ...]:
        """What becomes of all methods with an action; a call by ``super()`` goes to the copy of what it reaches."""
        changed = {name for name, method in self.methods.items() if method.actions}
        grown = True
        while grown:
            grown = False
            for method in self.methods.values():
                for call in method.calls:
                    if call.kind == "super" and call.target in changed and call.key not in method.actions:
                        method.actions[call.key] = f"method:{call.target}"
                        changed.add(method.name)
                        grown = True
        return tuple(
            MethodPlan(name, self.methods[name].attribute, self.methods[name].owner, tuple(sorted(actions.items())))
            for name in sorted(changed)
            if (actions := self.methods[name].actions)
        )

    def install_(self) -> None:
        """Give the module the class that follows the plan."""
        self.module.__class__ = rewritten_class(self.cls, self.plan())


def is_own(function: Any) -> bool:
    """Whether it is a Python function from outside of torch."""
    if not isinstance(function, FunctionType):
        return False
    return not str(inspect.unwrap(function).__module__).startswith("torch.")


@functools.lru_cache(maxsize=1024)
def written_in(base: type) -> dict[str, FunctionType]:
    """The methods that stand in the class itself, static ones included, unless torch wrote it."""
    if base.__module__.startswith("torch."):
        return {}
    found = {name: getattr(value, "__func__", value) for name, value in vars(base).items()}
    return {name: inspect.unwrap(value) for name, value in found.items() if is_own(value)}


@functools.lru_cache(maxsize=1024)
def own_methods(cls: type) -> dict[str, FunctionType]:
    """The methods that were written outside of torch; an override hides what it overrides."""
    return {name: method for base in reversed(cls.__mro__) for name, method in written_in(base).items()}


@functools.lru_cache(maxsize=4096)
def names_in(function: FunctionType) -> frozenset[str]:
    """The names that the function uses for globals, attributes and imports."""
    return frozenset(name for code in with_nested(function.__code__) for name in (*code.co_names, *code.co_freevars))


@functools.lru_cache(maxsize=1024)
def used_in_init(cls: type) -> frozenset[str]:
    """The methods that ``__init__`` calls: they build the module."""
    used, pending = set[str](), ["__init__"]
    while pending:
        name = pending.pop()
        if name not in used:
            used.add(name)
            for method in [written_in(base)[name] for base in cls.__mro__ if name in written_in(base)]:
                pending += names_in(method)
    return frozenset(used)


def mentioning(cls: type, names: frozenset[str]) -> list[str]:
    """The methods in which activations, pools or the names may be called, without those that build the module."""
    return [
        name
        for name, method in own_methods(cls).items()
        if not name.startswith("__")
        and name not in used_in_init(cls)
        and not names_in(method).isdisjoint(NAMES | names)
    ]


@functools.lru_cache(maxsize=4096)
def functions_used(function: FunctionType) -> tuple[FunctionType, ...]:
    """The functions from outside of torch that a function loads from its globals or from modules there."""
    found: list[FunctionType] = []
    value: Any = None
    for code in with_nested(function.__code__):
        for now in dis.get_instructions(code):
            if now.opname == "LOAD_GLOBAL":
                value = function.__globals__.get(now.argval)
            elif now.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(value, ModuleType):
                value = vars(value).get(now.argval)  # by vars, because a module may import others when it is asked
            else:
                value = None
            if is_own(value):
                found.append(inspect.unwrap(value))
    return tuple(dict.fromkeys(found))


def helpers(method: Method) -> Iterator[FunctionType]:
    """Yield the functions outside of a class that the method calls, and those that they call."""
    found, pending = set[FunctionType](), [inspect.unwrap(method.function)]
    while pending:
        for function in functions_used(pending.pop()):
            if function not in found:
                found.add(function)
                pending.append(function)
                yield function


def mentioned_activations(function: FunctionType) -> list[Any]:
    """What is known of the activation functions among the names of a function without source."""
    values = {name: function.__globals__.get(name) for name in names_in(function)}
    known = [of_function(value) for value in values.values()]
    named = [one for one in ACTIVATIONS if not names_in(function).isdisjoint(one.names)]
    return list(dict.fromkeys(one for one in (*known, *named) if one))


def activations_in(function: FunctionType, classes: Sequence[type[nn.Module]]) -> Iterator[str]:
    """Yield the calls of activations of these classes in a function; without source, the names."""
    mentioned = [known for known in mentioned_activations(function) if known.cls in classes]
    try:
        calls = Reader(function, None).read() if mentioned else []
    except UnwritableError:
        yield from (f"{known.names[0]} in {function.__qualname__}" for known in mentioned)
        return
    for call in calls:
        if call.kind == "function" and call.target.cls in classes:
            yield f"{call.name} in {function.__qualname__}, line {call.line}"


def forward_first(runs: list[Run]) -> list[Run]:
    """Return the calls that a forward meets; all, if it meets none."""
    return [run for run in runs if run.door == "forward"] or runs


def may_repeat(runs: list[Run]) -> bool:
    """Whether one forward may run more than one of the calls: they are not arms of the same condition."""
    pairs = itertools.combinations((dict(run.arms) for run in runs), 2)
    exclusive = all(any(first[node] != other[node] for node in first.keys() & other.keys()) for first, other in pairs)
    return not exclusive or any(run.times != 1 for run in runs)


def total(runs: list[Run]) -> int | None:
    """How often the calls run in one forward; None if that is unknown."""
    times = [run.times for run in runs]
    return None if any(number is None for number in times) else sum(number or 0 for number in times)
