"""Calls in a method, read from its source in the order in which Python evaluates them."""

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import CellType, FunctionType
from typing import Any

from torch import nn

from supple.activations import ACTIVATIONS, BY_CLASS, find, of_function, operator_name, writes_in_place
from supple.convert import pools
from supple.convert.position import Position, activations_in, attribute, container, entrance, gives_back, item
from supple.convert.source import (
    UNKNOWN,
    codes_in,
    definition,
    given_to,
    imports,
    input_of,
    is_looked_up,
    is_own,
    is_stored,
    key_of,
    name_of_call,
    names_in,
    shared_with_callers,
    viewed,
)

OF_METHOD = {name: known for known in ACTIVATIONS for name in known.methods}
# A ReLU written as a clamp, a ReLU6 if it ends at 6, as a threshold or as a maximum.
CLAMP = re.compile(
    r"(clamp|clip|clamp_min)_?\((.*, )?(min=)?0(\.0)?(?P<cap>, (max=)?6(\.0)?)?(, (max=)?None)?\)$"
    r"|threshold_?\(.*, (\w+=)?0(\.0)?, (\w+=)?0(\.0)?(, (\w+=)?\w+)?\)$|max(imum)?\(.*zeros"
)

# Functions of Python that give back nothing of what they are given, and methods that hold it.
LETTING_GO = {"abs", "all", "any", "bool", "float", "hasattr", "int", "isinstance", "len", "print", "range", "sum"}
HOLDING = {"add", "append", "extend", "insert", "setdefault", "update"}

NO_SELF = "it is in a function that has no self"
NOT_CALLED = "it is stored or passed on, not called"
MADE = "it is made in one place and called in another"
NO_CHILD = "it is not held as a submodule there"
NOT_WRITTEN_OUT = "its arguments are not written out"
LOOKED_UP = "it is looked up when the forward runs"
UNSETTLED = "whether it overwrites its input, which is read later, is known when the forward runs"


@dataclass(eq=False)
class Call:
    """A call in the source of one method.

    ``kind``: "function" (of an activation), "pool", "clamp", "child" (a module or a function held as an attribute),
    "round" (the variable of a loop over modules), "method" or "super". ``target``: what is called. ``times``: how often
    the loops around it run, None if unknown. ``noticed``: the call overwrites its input, and that is read later.
    ``why_not``: why it cannot be rewritten.
    """

    kind: str
    target: Any
    name: str
    key: str
    line: int
    times: int | None
    conditional: bool
    nested: bool  # in a function of its own
    why_not: str
    plain: bool = True  # it is called with one positional argument
    in_place: bool = False
    unsettled: bool = False  # whether in place is known to the run alone
    noticed: bool = False
    trail: tuple[str, ...] = ()  # of a child: the names that lead to it from self
    total: int | None = 0  # how often one forward calls it, or one other method if forward does not; None if unknown
    in_forward: bool = False


class Reader:
    """Reads one method of one module.

    ``local`` are the names assigned anywhere in the function, ``kept`` those of tensors that the caller or another name
    has too, or that lie in a list. A ``self`` with a second meaning anywhere is not known.
    """

    def __init__(self, function: FunctionType, module: nn.Module, owner: type) -> None:
        self.function, self.module, self.owner = function, module, owner
        self.node = definition(function)
        code, *nested = codes_in(function.__code__)
        stored = {part.id for part in ast.walk(self.node) if isinstance(part, ast.Name) and is_stored(part)}
        self.local = {name for part in (code, *nested) for name in (*part.co_varnames, *part.co_cellvars)}
        self.kept = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
        self.imports = {name: value for name, value in imports(self.node) if name not in stored | self.kept}
        hidden = stored.union(*(part.co_varnames for part in nested))
        first = code.co_varnames[0] if code.co_argcount else None
        self.self_name = None if first in hidden else first
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        self.closure = {name: cell.cell_contents for name, cell in cells if cell != CellType()}  # may be empty still
        self.calls: dict[str, Call] = {}
        self.rounds: dict[str, nn.Module] = {}  # the modules that a loop's variable goes over
        self.callees, self.helpers, self.looped = set[int](), set[FunctionType](), set[str]()
        self.times: int | None = 1
        self.conditional = self.nested = False
        self.statement: Any = None

    def read(self) -> list[Call]:
        self.run(self.node.body)
        return list(self.calls.values())

    # What a node is, known before it runs.

    def resolve(self, node: Any) -> Any:
        """Return what the expression stands for, self's attributes included, or UNKNOWN."""
        match node:
            case ast.Name(id=name) if name in self.local:
                return self.module if name == self.self_name else self.imports.get(name, UNKNOWN)
            case ast.Name(id=name):
                return self.closure.get(name, self.function.__globals__.get(name, UNKNOWN))
            case ast.Attribute(value=value, attr=name):
                return attribute(self.resolve(value), self.mangled(name))
            case ast.Subscript(value=value, slice=index):
                return item(self.resolve(value), self.constant(index))
        return UNKNOWN

    def trail(self, node: ast.expr) -> tuple[str, ...]:
        """The names from self to the child that the expression stands for."""
        if isinstance(node, ast.Attribute | ast.Subscript):
            return (*self.trail(node.value), self.resolve(node).name)
        return ()

    def mangled(self, name: str) -> str:
        """The name of an attribute as Python stores it: ``__act`` with its class."""
        owner = self.function.__qualname__.rpartition(".")[0].rpartition(".")[2].lstrip("_")
        return f"_{owner}{name}" if name.startswith("__") and not name.endswith("__") else name

    def method_of_self(self, node: ast.expr) -> str:
        """The name of the method that ``self.name`` stands for; empty if it is none."""
        if not isinstance(node, ast.Attribute) or self.resolve(node.value) is not self.module:
            return ""
        return self.mangled(node.attr) if isinstance(self.resolve(node), FunctionType) else ""

    def constant(self, node: ast.expr) -> Any:
        """Return the value of a literal or of one of self's plain attributes, or UNKNOWN."""
        try:
            return ast.literal_eval(node)
        except ValueError:
            value = self.resolve(node)
            is_plain = type(value) in (int, float, bool, str, list, tuple, type(None))
            return value if is_plain else UNKNOWN

    def options(self, node: ast.Call, function: Any) -> dict[str, Any]:
        """The values of a call's arguments by name, UNKNOWN if only the run knows them."""
        known = isinstance(function, (FunctionType, type))
        names = inspect.signature(function).parameters if known else ()
        given = {**dict(zip(names, node.args, strict=False)), **{str(k.arg): k.value for k in node.keywords}}
        return {name: self.constant(value) for name, value in given.items()}

    def length(self, iterated: ast.expr) -> int | None:
        """How often a loop runs: as long as the first of self's modules that it goes over, or a range."""
        for part in ast.walk(iterated):
            if isinstance(part, ast.expr) and (over := container(self.resolve(part))) is not None:
                return len(over._modules)
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "range":
                ends = [self.constant(end) for end in part.args]
                if all(isinstance(end, int) for end in ends):
                    return len(range(*ends))
        return None

    # What a node does, in order.

    def run(self, nodes: Iterable[Any]) -> None:
        for node in nodes:
            self.visit(node)

    def visit(self, node: Any) -> None:
        """Evaluate a node: its parts, then what it does itself."""
        if isinstance(node, ast.stmt):
            self.statement = node
        match node:
            case ast.Call(func=func):
                self.callees.add(id(func))
                self.run(ast.iter_child_nodes(node))
                self.call(node)
            case ast.Subscript(slice=index) if id(node) in self.callees and self.resolve(node) is not UNKNOWN:
                self.visit(index)
            case ast.Name() | ast.Attribute():
                self.refer(node)
                self.run(ast.iter_child_nodes(node))
            case ast.Assign(targets=targets, value=value):
                self.run(ast.iter_child_nodes(node))
                self.bind(targets, value)
            case ast.NamedExpr(target=target, value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                self.visit(value)
                self.bind([target], value)
            case ast.AugAssign(value=ast.Tuple() | ast.List() as value):
                self.visit(value)
                self.kept |= set(viewed(value))
            case ast.If() | ast.IfExp() | ast.BoolOp() | ast.Try() | ast.Match() | ast.Assert():
                first, *rest = ast.iter_child_nodes(node)
                self.visit(first)
                with self.inside(conditional=True):
                    self.run(rest)
            case ast.For(target=target, iter=over):
                self.visit(over)
                self.looped |= names_in(target)
                if isinstance(target, ast.Name) and (modules := container(self.resolve(over))) is not None:
                    self.rounds[target.id] = modules
                with self.inside(times=self.length(over)):
                    for _ in range(2):  # the second round sees what the first has left behind
                        self.kept |= names_in(target)  # what a loop goes over holds it, too
                        self.run(node.body)
                self.run(node.orelse)
            case ast.While():
                with self.inside(times=None):
                    for _ in range(2):
                        self.run(ast.iter_child_nodes(node))
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda() | ast.ClassDef():
                self.kept |= shared_with_callers(node)
                with self.inside(conditional=True, nested=True):
                    self.run(ast.iter_child_nodes(node))
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                times = self.length(node.generators[0].iter) if len(node.generators) == 1 else None
                for generator in node.generators:
                    self.kept |= {*names_in(generator.target), *viewed(generator.iter)}
                    self.looped |= names_in(generator.target)
                with self.inside(times=times, conditional=any(generator.ifs for generator in node.generators)):
                    self.run(ast.iter_child_nodes(node))
            case _:
                self.run(ast.iter_child_nodes(node))

    @contextmanager
    def inside(self, *, times: int | None = 1, conditional: bool = False, nested: bool = False) -> Iterator[None]:
        """Evaluate what runs several times, under a condition, or in a function of its own."""
        before = self.times, self.conditional, self.nested
        self.times = None if self.times is None or times is None else self.times * times
        self.conditional |= conditional
        self.nested |= nested
        yield
        self.times, self.conditional, self.nested = before

    def bind(self, targets: list[ast.expr], value: ast.expr) -> None:
        """Give a value to names: the same tensor under two names is kept, a new one is not."""
        names = set().union(*map(names_in, targets))
        calls = (part for part in ast.walk(value) if isinstance(part, ast.Call))
        writing = [part for part in calls if getattr(self.calls.get(key_of(part, self.node)), "in_place", False)]
        own = (part for part in writing if container(self.resolve(part.func)) is None)
        given_back = {name for part in own for name in viewed(input_of(part))}
        shared = {*viewed(value), *(given_back - names)}
        if isinstance(value, ast.Call) and gives_back(self.resolve(value.func)):
            shared |= {*viewed(input_of(value))} - names
        if isinstance(value, ast.Call) and self.may_hold(value):
            shared |= given_to(value)
        if shared == names and len(names) == 1:  # the same tensor under the same name
            return
        if shared or len(targets) > 1 or any(isinstance(target, (ast.Attribute, ast.Subscript)) for target in targets):
            self.kept |= names | shared
        elif not self.conditional:
            self.kept -= names

    def is_noticed(self, node: ast.Call) -> bool:
        """Whether something may read the input of a call that overwrites it, other than through the output."""
        source, statement = input_of(node), self.statement
        if isinstance(statement, ast.Expr) and statement.value is node:
            return True
        if not (names := viewed(source)):
            return isinstance(source, (ast.Attribute, ast.Subscript))  # self.state, for instance
        uses = [part for part in ast.walk(statement) if isinstance(part, ast.Name) and part.id == names[0]]
        rebound = isinstance(statement, ast.Return) or any(map(is_stored, uses))
        return names[0] in self.kept or not rebound or sum(not is_stored(part) for part in uses) > 1

    # Calls.

    def refer(self, node: Any) -> None:
        """Take note of a function outside of the class, and of one or a method that is mentioned, not called."""
        value, name, is_called = self.resolve(node), self.method_of_self(node), id(node) in self.callees
        is_function = not isinstance(value, (Position, nn.Module)) and not operator_name(value)
        if name and not is_called:
            self.add("method", name, name, node).nested = True
        elif is_own(value) and not isinstance(self.resolve(getattr(node, "value", None)), (Position, nn.Module)):
            self.helpers.add(inspect.unwrap(value))
        elif is_function and not is_called and (known := of_function(value)):
            self.add("function", known, name_of(value), node).why_not = NOT_CALLED
        for known, held in activations_in(value):
            key, now = f"{name_of(held)} of {id(value)}", (self.times, self.conditional, self.nested)
            self.calls.setdefault(key, Call("function", known, name_of(held), key, node.lineno, *now, LOOKED_UP))

    def call(self, node: ast.Call) -> None:
        if (call := self.call_of(node)) is not None and call.in_place:
            call.noticed |= self.is_noticed(node)
            if call.noticed and call.unsettled:
                call.why_not = UNSETTLED
        if self.may_hold(node):
            self.kept |= given_to(node)

    def may_hold(self, node: ast.Call) -> bool:
        """Whether a call may keep what it is given, or give it back: other code than torch's and the modules'."""
        value, name = self.resolve(node.func), name_of_call(node)
        if value is not UNKNOWN:
            return is_own(value) or isinstance(value, type)
        if isinstance(node.func, ast.Name):
            return name not in LETTING_GO | self.looped
        return name in HOLDING or (isinstance(self.statement, ast.Expr) and self.statement.value is node)

    def call_of(self, node: ast.Call) -> Call | None:
        func: Any = node.func
        value = self.resolve(func)
        made: Any = self.resolve(func.func) if isinstance(func, ast.Call) else UNKNOWN
        if is_replaced_class(made):  # nn.ReLU()(x)
            call = self.add_made(node, made)
            call.in_place = bool(self.options(func, made).get("inplace", False))
            return call
        if is_replaced_class(value):
            if id(node) not in self.callees:
                self.add_made(node, value).why_not = MADE
            return None
        if name := self.super_method(func):
            return self.add("super", name, name, node)
        if isinstance(value, Position):
            return self.add_child(node, value)
        if isinstance(func, ast.Name) and func.id in self.rounds:
            return self.add_round(node, self.rounds[func.id])
        if known := of_function(value):
            return self.add_activation(node, known, value)
        if isinstance(value, nn.Module) and (known := find(value)):  # a global, or of the class
            self.add("function", known, type(value).__name__, node).why_not = NO_CHILD
            return None
        if pools.is_pool_function(value.func if isinstance(value, partial) else value):
            return self.add_pool(node, value)
        if name := self.method_of_self(func):
            return self.add("method", name, name, node)
        bare = isinstance(func, ast.Attribute) and not node.args and not node.keywords
        if bare and func.attr in OF_METHOD and self.resolve(func.value) is UNKNOWN:
            return self.add_activation(node, OF_METHOD[func.attr], func.attr)
        name = name_of_call(node)
        if name.startswith(("cl", "thr", "max")) and (clamp := CLAMP.search(ast.unparse(node))):
            return self.add("clamp", nn.ReLU6 if clamp["cap"] else nn.ReLU, name, node)
        return None

    def super_method(self, node: ast.expr) -> str:
        """The name of the method that ``super().name`` or ``super(Owner, self).name`` stands for; empty if none."""
        match node:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=args), attr=name):
                return name if [self.resolve(part) for part in args] in ([], [self.owner, self.module]) else ""
        return ""

    def add(self, kind: str, target: Any, name: str, node: ast.expr) -> Call:
        """Take a call in, or find it again in the second round of a loop."""
        key, why_not = key_of(node, self.node), "" if self.self_name else NO_SELF
        if kind in ("function", "pool") and is_looked_up(getattr(node, "func", None)):
            why_not = LOOKED_UP
        call = Call(kind, target, name, key, node.lineno, self.times, self.conditional, self.nested, why_not)
        return self.calls.setdefault(key, call)

    def add_made(self, node: ast.Call, cls: type) -> Call:
        kind = "pool" if cls in pools.MAX_POOLS else "function"
        return self.add(kind, BY_CLASS.get(cls, cls), cls.__name__, node)

    def add_activation(self, node: ast.Call, known: Any, value: Any) -> Call:
        call = self.add("function", known, name_of(value), node)
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg in (None, "out") for k in node.keywords):
            call.why_not = NOT_WRITTEN_OUT
        call.in_place = self.overwrites(node, value)
        call.unsettled = self.options(node, value).get("inplace") is UNKNOWN
        return call

    def add_child(self, node: ast.Call, position: Position) -> Call:
        call = self.add("child", position, position.name, node)
        call.trail = self.trail(node.func)
        call.plain = len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred)
        call.in_place = self.overwrites(node, entrance(position).value)
        return call

    def add_round(self, node: ast.Call, modules: nn.Module) -> Call:
        first = [entrance(Position(modules, name)) for name in modules._modules]
        call = self.add("round", [position for position in first if writes_in_place(position.value)], "", node)
        call.in_place = call.target != []
        return call

    def overwrites(self, node: ast.Call, value: Any) -> bool:
        in_place = value.endswith("_") if isinstance(value, str) else writes_in_place(value)
        return in_place or bool(self.options(node, value).get("inplace", False))

    def add_pool(self, node: ast.Call, value: Any) -> Call:
        call = self.add("pool", value, name_of(value), node)
        if isinstance(value, partial):
            call.why_not = NOT_WRITTEN_OUT
        else:
            options = self.options(node, pools.AVERAGE_FUNCTIONS.get(value))
            known = {name: option for name, option in options.items() if option is not UNKNOWN}
            call.why_not = pools.why_not_function(value, known) or call.why_not
        return call


def is_replaced_class(value: Any) -> bool:
    return isinstance(value, type) and (value in BY_CLASS or value in pools.MAX_POOLS)


def name_of(value: Any) -> str:
    """How a function or method is written in code."""
    value = value.func if isinstance(value, partial) else value
    return value if isinstance(value, str) else value.__name__
