"""Calls in a method, read from its source in the order in which Python evaluates them."""

import ast
import inspect
import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from torch import nn

from supple.activations import ACTIVATIONS, BY_CLASS, of_function, writes_in_place
from supple.convert import pools
from supple.convert.source import Definition, definition, input_of, key_of, receiver

UNKNOWN = object()
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
OF_METHOD = {name: known for known in ACTIVATIONS for name in known.methods}
VIEWS = {"T", "mT", "chunk", "data", "detach", "diagonal", "expand", "expand_as", "flatten", "movedim", "narrow"}
VIEWS |= {"permute", "ravel", "reshape", "select", "split", "squeeze", "swapaxes", "t", "transpose", "unbind"}
VIEWS |= {"unflatten", "unsqueeze", "view", "view_as"}
# A ReLU written as a clamp: the names of the arguments after the input.
CLAMPS = {"clamp": ("min", "max"), "clip": ("min", "max"), "clamp_min": ("min",), "threshold": ("threshold", "value")}
ZEROS = {"zeros", "zeros_like", "new_zeros"}
POOL_OPTIONS = ("input", "kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
ADAPTIVE_OPTIONS = ("input", "output_size", "return_indices")

NO_SELF = "it has no self there"
NOT_CALLED = "it is stored or passed on, not called"
MADE = "it is made in one place and called in another"
NOT_WRITTEN_OUT = "its arguments are not written out"


class Position(NamedTuple):
    """A module's child, or a function that it holds as an attribute, by name."""

    parent: nn.Module
    name: str

    @property
    def value(self) -> Any:
        """What is there now."""
        children = self.parent._modules
        return children[self.name] if self.name in children else vars(self.parent).get(self.name)


@dataclass(eq=False)
class Call:
    """A call in the source of one method.

    ``kind``: "function" (of an activation), "pool", "clamp", "child" (a module or a function held as an attribute),
    "method" or "super". ``target``: what is called. ``times``: how often the loops around it run, None if unknown.
    ``noticed``: the call overwrites its input, and that is read later. ``obstacle``: why it cannot be rewritten.
    """

    kind: str
    target: Any
    name: str
    key: str
    line: int
    times: int | None = 1
    conditional: bool = False
    nested: bool = False
    plain: bool = True  # it is called with one positional argument
    in_place: bool = False
    noticed: bool = False
    on_argument: bool = False
    obstacle: str = ""
    trail: tuple[str, ...] = ()  # of a child: the names that lead to it from self


class Reader:
    """Reads one method of one module; with ``module`` None a function outside of any class.

    ``tensors`` says for each local name which tensors it may share memory with, as numbers.
    """

    def __init__(self, function: FunctionType, module: nn.Module | None, owner: type | None = None) -> None:
        self.function, self.module, self.owner = function, module, owner
        self.node: Definition = definition(function)
        self.self_name = receiver(self.node) if module is not None else None
        self.calls: dict[str, Call] = {}
        self.scopes = [bound_names(self.node)]
        self.imports = imported_names(self.node)
        self.tensors: dict[str, frozenset[int]] = {}
        self.arguments: set[int] = set()
        self.overwritten: dict[int, list[Call]] = {}
        self.numbers = itertools.count()
        self.times: int | None = 1
        self.conditional = self.nested = False
        closure = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        self.closure = {name: contents(cell) for name, cell in closure}
        rebound = {part.id for part in ast.walk(self.node) if isinstance(part, ast.Name) and is_stored(part)}
        self.has_self = self.self_name is not None and self.self_name not in rebound

    def read(self) -> list[Call]:
        """Return the calls, in order of evaluation."""
        for argument in arguments_of(self.node):
            self.bind(ast.Name(argument, ast.Store()), frozenset())
        self.arguments = set().union(*self.tensors.values()) if self.tensors else set()
        self.run(self.node.body)
        return list(self.calls.values())

    # What a node is, known before it runs.

    def resolve(self, node: ast.expr) -> Any:
        """Return what the expression stands for, self's attributes included, or UNKNOWN."""
        match node:
            case ast.Name(id=name):
                return self.named(name)
            case ast.Attribute(value=value, attr=name):
                return attribute(self.resolve(value), self.mangled(name))
            case ast.Subscript(value=value, slice=index) if (base := container(self.resolve(value))) is not None:
                names, i = list(base._modules), self.constant(index)
                if isinstance(i, int) and -len(names) <= i < len(names):
                    i = names[i]
                return Position(base, i) if i in names else UNKNOWN
        return UNKNOWN

    def named(self, name: str) -> Any:
        """Return the value of a name; a local one is known only if it is self or an import."""
        if any(name in scope for scope in self.scopes[1:]):
            return UNKNOWN
        if name in self.scopes[0]:
            return self.module if name == self.self_name and self.has_self else self.imports.get(name, UNKNOWN)
        return self.closure.get(name, self.function.__globals__.get(name, UNKNOWN))

    def trail(self, node: ast.expr) -> tuple[str, ...]:
        """The names from self to the child that the expression stands for."""
        match node:
            case ast.Attribute(value=value, attr=name):
                return (*self.trail(value), self.mangled(name))
            case ast.Subscript(value=value):
                return (*self.trail(value), self.resolve(node).name)
        return ()

    def mangled(self, name: str) -> str:
        """The name of an attribute as Python stores it: ``__act`` with its class."""
        owner = self.function.__qualname__.rpartition(".")[0].rpartition(".")[2].lstrip("_")
        return f"_{owner}{name}" if name.startswith("__") and not name.endswith("__") else name

    def is_self(self, node: ast.expr) -> bool:
        """Whether the expression is the module whose method this is."""
        return self.module is not None and self.resolve(node) is self.module

    # What a node does, in order.

    def run(self, nodes: list[Any]) -> None:
        """Evaluate statements."""
        for node in nodes:
            self.visit(node)

    def visit(self, node: Any) -> frozenset[int]:
        """Evaluate a node; return the tensors that its value may share memory with."""
        match node:
            case None:
                return frozenset()
            case ast.Call():
                return self.call(node)
            case ast.Name(id=name):
                self.refer(node)
                return self.look(self.tensors.get(name, frozenset()))
            case ast.Attribute(value=value, attr=name):
                self.refer(node)
                below = self.visit(value)
                return below if name in VIEWS else frozenset()
            case ast.Subscript(value=value, slice=index):
                below = self.visit(value)
                self.visit(index)
                return below
            case ast.NamedExpr(target=target, value=value):
                return self.bind(target, self.visit(value))
            case ast.Starred(value=value) | ast.Await(value=value):
                return self.visit(value)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return frozenset().union(*map(self.visit, parts))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self.visit(test)
                with self.inside(conditional=True):
                    return self.visit(body) | self.visit(orelse)
            case ast.BoolOp(values=[first, *rest]):
                found = self.visit(first)
                with self.inside(conditional=True):
                    return found.union(*map(self.visit, rest))
            case ast.Assign(targets=targets, value=value):
                found = self.visit(value)
                for target in targets:
                    self.bind(target, found)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self.bind(target, self.visit(value))
            case ast.AugAssign(target=target, value=value):
                self.visit(target)
                self.visit(value)
            case ast.Expr(value=value):
                self.visit(value)
                if isinstance(value, ast.Call) and (call := self.calls.get(key_of(value, self.node))):
                    call.noticed |= call.in_place
            case ast.If(test=test, body=body, orelse=orelse):
                self.visit(test)
                self.branches([body], [orelse])
            case ast.For(target=target, iter=over) | ast.AsyncFor(target=target, iter=over):
                found = self.visit(over)
                with self.inside(times=self.length(over)):
                    for _ in range(2):  # the second time sees what the first has left behind
                        self.bind(target, found)
                        self.run(node.body)
                self.branches([node.orelse])
            case ast.While(test=test, body=body):
                with self.inside(times=None):
                    for _ in range(2):
                        self.visit(test)
                        self.run(body)
                self.branches([node.orelse])
            case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final):
                self.branches([body, orelse], *([handler.body] for handler in handlers))
                self.run(final)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                for item in items:
                    found = self.visit(item.context_expr)
                    if item.optional_vars:
                        self.bind(item.optional_vars, found)
                self.run(body)
            case ast.Match(subject=subject, cases=cases):
                self.visit(subject)
                self.branches(*([[case.guard] if case.guard else [], case.body] for case in cases))
            case ast.Dict(keys=keys, values=values):
                self.run(list(itertools.chain.from_iterable(zip(keys, values, strict=True))))
            case ast.Assert():
                self.branches([[node.test]])
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                self.function_inside(node)
            case ast.ClassDef(body=body):
                with self.inside(scope={str(self.self_name)}, nested=True):
                    self.run(body)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self.comprehension(node)
            case ast.AST():
                self.run(list(ast.iter_child_nodes(node)))
        return frozenset()

    @contextmanager
    def inside(
        self, *, conditional: bool = False, times: int | None = 1, nested: bool = False, scope: set[str] | None = None
    ) -> Iterator[None]:
        """Evaluate what runs under a condition, several times, or in a function of its own."""
        before = self.times, self.conditional, self.nested
        self.times = None if self.times is None or times is None else self.times * times
        self.conditional |= conditional
        self.nested |= nested
        if scope is not None:
            self.scopes.append(scope)
        yield
        self.times, self.conditional, self.nested = before
        if scope is not None:
            self.scopes.pop()

    def branches(self, *alternatives: Any) -> None:
        """Evaluate pieces of code of which at most one runs."""
        start, ends = dict(self.tensors), [dict(self.tensors)]
        for pieces in alternatives:
            self.tensors = dict(start)
            with self.inside(conditional=True):
                for piece in pieces:
                    self.run(piece)
            ends.append(self.tensors)
        names = set().union(*ends)
        self.tensors = {name: frozenset().union(*(end.get(name, frozenset()) for end in ends)) for name in names}

    def function_inside(self, node: Any) -> None:
        """Evaluate a function or lambda defined here, as if it were called once."""
        for part in (*getattr(node, "decorator_list", ()), *node.args.defaults, *node.args.kw_defaults):
            self.visit(part)
        before = dict(self.tensors)
        with self.inside(conditional=True, nested=True, scope=bound_names(node)):
            for argument in arguments_of(node):
                self.bind(ast.Name(argument, ast.Store()), frozenset())
            self.run(node.body if isinstance(node.body, list) else [node.body])
        self.tensors = before

    def comprehension(self, node: Any) -> None:
        """Evaluate a comprehension as the loop that it is."""
        first, *rest = node.generators
        found = self.visit(first.iter)
        is_conditional = any(generator.ifs for generator in node.generators)
        times = self.length(first.iter) if not rest else None
        before = dict(self.tensors)
        with self.inside(times=times, conditional=is_conditional, scope=bound_names(node)):
            self.bind(first.target, found)
            for generator in rest:
                self.bind(generator.target, self.visit(generator.iter))
            self.run([test for generator in node.generators for test in generator.ifs])
            self.run([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])
        self.tensors = before

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

    def constant(self, node: ast.expr) -> Any:
        """Return the value of a literal or of one of self's plain attributes, or UNKNOWN."""
        try:
            return ast.literal_eval(node)
        except ValueError:
            value = self.resolve(node)
            return UNKNOWN if isinstance(value, Position) else value

    def bind(self, target: ast.expr, found: frozenset[int]) -> frozenset[int]:
        """Give the value to a name; a new tensor gets a number."""
        match target:
            case ast.Name(id=name):
                self.tensors[name] = found or frozenset((next(self.numbers),))
                return self.tensors[name]
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self.bind(part, found)
            case ast.Starred(value=value):
                self.bind(value, found)
            case ast.Attribute(value=value) | ast.Subscript(value=value):
                self.visit(value)
        return found

    def look(self, found: frozenset[int]) -> frozenset[int]:
        """Read tensors: calls that have overwritten them are noticed."""
        for number in found:
            for call in self.overwritten.get(number, ()):
                call.noticed = True
        return found

    # Calls.

    def refer(self, node: Any) -> None:
        """Take note of an activation function or a method that is mentioned, not called."""
        value = self.resolve(node)
        if isinstance(value, FunctionType) and isinstance(node, ast.Attribute) and self.is_self(node.value):
            self.add("method", self.mangled(node.attr), node.attr, node).nested = True
        elif not isinstance(value, (Position, nn.Module)) and (known := of_function(value)):
            self.add("function", known, name_of(value), node).obstacle = NOT_CALLED

    def call(self, node: ast.Call) -> frozenset[int]:
        """Evaluate a call: what is called, the arguments, then the call itself."""
        made = self.resolve(node.func.func) if isinstance(node.func, ast.Call) else UNKNOWN
        below = frozenset[int]()
        if isinstance(node.func, ast.Attribute):
            below = self.visit(node.func.value)
        elif isinstance(node.func, ast.Call) and is_replaced_class(made):
            self.run([*node.func.args, *node.func.keywords])
        elif not isinstance(node.func, ast.Name):
            self.visit(node.func)
        inputs = [self.visit(argument) for argument in node.args]
        inputs += [self.visit(keyword.value) for keyword in node.keywords]
        call = self.call_of(node, made)
        first = inputs[0] if inputs else below
        if call is not None and call.in_place:
            return self.overwrite(call, input_of(node), first)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        return below | first if name in VIEWS or (name.endswith("_") and not name.endswith("__")) else frozenset()

    def overwrite(self, call: Call, source: ast.expr | None, found: frozenset[int]) -> frozenset[int]:
        """Evaluate a call that writes into its input; its output counts as a tensor of its own."""
        for number in found:
            self.overwritten.setdefault(number, []).append(call)
        call.on_argument |= not found.isdisjoint(self.arguments)
        call.noticed |= not found and isinstance(source, (ast.Attribute, ast.Subscript))  # self.state, for instance
        return frozenset((next(self.numbers),))

    def call_of(self, node: ast.Call, made: Any) -> Call | None:
        """Take the call in, if it is of a kind that matters."""
        func: Any = node.func
        value = self.resolve(func)
        if isinstance(made, type):
            return self.made_and_called(node, made)
        if (name := super_method(func, self)) is not None:
            return self.add("super", name, name, node)
        if isinstance(value, Position):
            return self.child(node, value)
        if known := of_function(value):
            return self.activation(node, known, value)
        if pools.is_pool_function(value.func if isinstance(value, partial) else value):
            return self.pool(node, value)
        if is_replaced_class(value):
            call = self.add("pool" if value in pools.MAX_POOLS else "function", value, value.__name__, node)
            call.target, call.obstacle = BY_CLASS.get(value, value), MADE
            return call
        if isinstance(value, FunctionType) and isinstance(func, ast.Attribute) and self.is_self(func.value):
            return self.add("method", self.mangled(func.attr), func.attr, node)
        bare = isinstance(func, ast.Attribute) and not node.args and not node.keywords
        if bare and func.attr in OF_METHOD and self.resolve(func.value) is UNKNOWN:
            return self.activation(node, OF_METHOD[func.attr], func.attr)
        if cls := self.clamped(node):
            return self.add("clamp", BY_CLASS[cls], name_of_call(node), node)
        return None

    def add(self, kind: str, target: Any, name: str, node: ast.expr) -> Call:
        """Take a call in, or find it again in the second round of a loop."""
        key = key_of(node, self.node)
        if key not in self.calls:
            call = Call(kind, target, name, key, node.lineno, self.times, self.conditional, self.nested)
            hidden = any(str(self.self_name) in scope for scope in self.scopes[1:])
            call.obstacle = NO_SELF if hidden or not self.has_self else ""
            self.calls[key] = call
        return self.calls[key]

    def activation(self, node: ast.Call, known: Any, value: Any) -> Call:
        """Take the call of an activation function in."""
        call = self.add("function", known, name_of(value), node)
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg in (None, "out") for k in node.keywords):
            call.obstacle = NOT_WRITTEN_OUT
        call.in_place = name_of(value).endswith("_") or writes_in_place(value) or self.asks_in_place(node, value)
        return call

    def asks_in_place(self, node: ast.Call, value: Any) -> bool:
        """Whether the arguments ask to overwrite the input; if it is not known which, they do."""
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        if isinstance(value, (FunctionType, type)):
            names = [name for name in inspect.signature(value).parameters if name != "self"]
            given |= dict(zip(names, node.args, strict=False))
        return bool(self.constant(given["inplace"])) if "inplace" in given else False

    def made_and_called(self, node: ast.Call, made: type) -> Call | None:
        """Take a module in that is made where it is called: ``nn.ReLU()(x)``."""
        if made in pools.MAX_POOLS:
            return self.add("pool", made, made.__name__, node)
        if made not in BY_CLASS:
            return None
        call = self.add("function", BY_CLASS[made], made.__name__, node)
        call.in_place = isinstance(node.func, ast.Call) and self.asks_in_place(node.func, made)
        return call

    def child(self, node: ast.Call, position: Position) -> Call:
        """Take the call of a child in."""
        call = self.add("child", position, position.name, node)
        call.trail = self.trail(node.func)
        call.plain = len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred)
        known = of_function(position.value)
        call.in_place = writes_in_place(position.value) or (
            known is not None and self.asks_in_place(node, position.value)
        )
        return call

    def pool(self, node: ast.Call, value: Any) -> Call:
        """Take the call of a max-pool function in, with the reason why it cannot average."""
        call = self.add("pool", value, name_of(value), node)
        names = ADAPTIVE_OPTIONS if "adaptive" in name_of(value) else POOL_OPTIONS
        given: dict[Any, ast.expr] = dict(zip(names, node.args, strict=False))
        given |= {keyword.arg: keyword.value for keyword in node.keywords}
        options = {name: self.constant(given[name]) for name in ("dilation", "return_indices") if name in given}
        known = {name: option for name, option in options.items() if option is not UNKNOWN}
        if isinstance(value, partial):
            call.obstacle = NOT_WRITTEN_OUT
        else:
            call.obstacle = pools.why_not_function(value, known) or call.obstacle
        return call

    def clamped(self, node: ast.Call) -> type[nn.Module] | None:
        """Return the class that the call computes as a clamp, a threshold or a maximum, if any."""
        name = name_of_call(node).rstrip("_")
        values = [*node.args, *(keyword.value for keyword in node.keywords)]
        if name == "maximum":
            zeros = any(isinstance(value, ast.Call) and name_of_call(value) in ZEROS for value in values)
            return nn.ReLU if zeros else None
        if name not in CLAMPS or not isinstance(node.func, ast.Attribute):
            return None
        is_method = self.resolve(node.func.value) is UNKNOWN
        given = dict(zip(CLAMPS[name], node.args[0 if is_method else 1 :], strict=False))
        given |= {str(keyword.arg): keyword.value for keyword in node.keywords}
        options = {option: self.constant(value) for option, value in given.items()}
        if any(options.get(option, UNKNOWN) != 0 for option in CLAMPS[name] if option != "max"):
            return None
        ceiling = options.get("max")
        return nn.ReLU if ceiling is None else nn.ReLU6 if ceiling == 6 else None


def attribute(base: Any, name: str) -> Any:
    """Return an attribute without running code: of a Python module, a network's module or its class."""
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


def container(value: Any) -> nn.Module | None:
    """The modules that a loop may go over or an index choose from, or None."""
    module = value.value if isinstance(value, Position) else value
    return module if isinstance(module, (nn.ModuleList, nn.ModuleDict, nn.Sequential)) else None


def is_replaced_class(value: Any) -> bool:
    """Whether it is the class of an activation or a max-pool."""
    return isinstance(value, type) and (value in BY_CLASS or value in pools.MAX_POOLS)


def super_method(node: ast.expr, reader: Reader) -> str | None:
    """The name of the method that ``super().name`` or ``super(Owner, self).name`` stands for, or None."""
    match node:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=[]), attr=name):
            return name
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=[cls, own]), attr=name):
            return name if reader.resolve(cls) is reader.owner and reader.is_self(own) else None
    return None


def name_of(value: Any) -> str:
    """How a function or method is written in code."""
    value = value.func if isinstance(value, partial) else value
    return value if isinstance(value, str) else value.__name__


def name_of_call(node: ast.Call) -> str:
    """The last name of what is called."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def arguments_of(node: Any) -> list[str]:
    """The names of a function's arguments."""
    arguments = node.args
    listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return [argument.arg for argument in listed if argument is not None]


def bound_names(node: Any) -> set[str]:
    """The names that are local to a function, lambda or comprehension; some more, if it has others inside."""
    names = set(arguments_of(node)) if isinstance(node, FUNCTIONS) else set()
    shared: set[str] = set()
    for part in ast.walk(node):
        match part:
            case ast.Name(id=name) if is_stored(part):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name) if (
                part is not node
            ):
                names.add(name)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names |= {(alias.asname or alias.name).partition(".")[0] for alias in aliases}
            case ast.Global(names=listed):
                shared |= set(listed)
    return names - shared


def imported_names(node: Definition) -> dict[str, Any]:
    """What the imports in a function bring, if they are loaded; a name that is also assigned to is left out."""
    found: dict[str, Any] = {}
    for part in ast.walk(node):
        if isinstance(part, ast.Import):
            for alias in part.names:
                name = alias.asname or alias.name.partition(".")[0]
                found[name] = sys.modules.get(alias.name if alias.asname else name, UNKNOWN)
        elif isinstance(part, ast.ImportFrom) and not part.level:
            module = sys.modules.get(part.module or "")
            found |= {
                alias.asname or alias.name: vars(module).get(alias.name, UNKNOWN) for alias in part.names if module
            }
    stored = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and is_stored(part)}
    return {name: value for name, value in found.items() if name not in stored and name not in arguments_of(node)}


def is_stored(node: ast.Name) -> bool:
    """Whether the name is assigned to or deleted."""
    return isinstance(node.ctx, (ast.Store, ast.Del))


def contents(cell: Any) -> Any:
    """What a closure holds; a name that is defined later holds nothing yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return UNKNOWN
