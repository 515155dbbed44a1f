"""Calls in a method, read from its source in the order in which Python evaluates them."""

import ast
import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from torch import nn

from supple.activations import ACTIVATIONS, BY_CLASS, of_function, writes_in_place
from supple.convert import pools
from supple.convert.source import Definition, definition, input_of, key_of, receiver
from supple.convert.syntax import UNKNOWN, arguments_of, contents, imports, name_of_call, stored_names, viewed

OF_METHOD = {name: known for known in ACTIVATIONS for name in known.methods}
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
    arms: tuple[tuple[int, int], ...] = ()  # the conditions that it stands under, and in which arm of each
    nested: bool = False
    plain: bool = True  # it is called with one positional argument
    in_place: bool = False
    noticed: bool = False
    on_argument: bool = False
    obstacle: str = ""
    loop: str = ""  # the key of the only loop around it, if that goes over known modules
    trail: tuple[str, ...] = ()  # of a child: the names that lead to it from self


class Reader:
    """Reads one method of one module; with ``module`` None a function outside of any class.

    ``kept`` are the names of tensors that have another name too, or lie in a list; ``given`` those of arguments.
    """

    def __init__(self, function: FunctionType, module: nn.Module | None, owner: type | None = None) -> None:
        self.function, self.module, self.owner = function, module, owner
        self.node: Definition = definition(function)
        self.self_name = receiver(self.node) if module is not None else None
        self.calls: dict[str, Call] = {}
        self.given = set(arguments_of(self.node))
        self.kept = set[str]()
        stored = stored_names(self.node)
        self.scopes = [self.given | stored]
        self.imports = {name: value for name, value in imports(self.node) if name not in stored | self.given}
        self.scopes[0] |= set(self.imports)
        self.times: int | None = 1
        self.arms: tuple[tuple[int, int], ...] = ()
        self.nested, self.loop = False, ""
        self.statement: Any = None
        closure = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        self.closure = {name: contents(cell) for name, cell in closure}
        self.has_self = self.self_name is not None and self.self_name not in stored

    def read(self) -> list[Call]:
        """Return the calls, in order of evaluation."""
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

    def run(self, nodes: Iterable[Any]) -> None:
        """Evaluate nodes one after the other."""
        for node in nodes:
            if isinstance(node, ast.stmt):
                self.statement = node
            self.visit(node)

    def visit(self, node: Any) -> None:
        """Evaluate a node: its parts in Python's order, then what it does itself."""
        match node:
            case ast.Call():
                self.call(node)
            case ast.Name() | ast.Attribute():
                self.refer(node)
                self.run(ast.iter_child_nodes(node))
            case ast.Assign(targets=targets, value=value):
                self.run([value, *targets])
                self.bind(targets, value)
            case ast.NamedExpr(target=target, value=value):
                self.visit(value)
                self.bind([target], value)
            case ast.If(test=first, body=body, orelse=orelse):
                self.alternatives(node, first, body, orelse)
            case ast.IfExp(test=first, body=body, orelse=orelse):
                self.alternatives(node, first, [body], [orelse])
            case ast.BoolOp(values=[first, *rest]):
                self.alternatives(node, first, rest)
            case ast.For(target=target, iter=over) | ast.AsyncFor(target=target, iter=over):
                self.run([over])
                loop = key_of(node, self.node) if self.times == 1 and isinstance(node, ast.For) else ""
                with self.inside(times=self.length(over), loop=loop):
                    for _ in range(2):  # the second round sees what the first has left behind
                        self.bind([target], None)
                        self.run([*node.body])
                self.run(node.orelse)
            case ast.While(test=test, body=body, orelse=orelse):
                with self.inside(times=None):
                    for _ in range(2):
                        self.run([test, *body, *orelse])
            case ast.Try() | ast.Match() | ast.Assert():
                with self.inside(arm=(id(node), 0)):
                    self.run(ast.iter_child_nodes(node))
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda() | ast.ClassDef():
                own = {str(self.self_name)} if isinstance(node, ast.ClassDef) else set(arguments_of(node))
                with self.inside(arm=(id(node), 0), nested=True, scope=own | stored_names(node)):
                    self.run(ast.iter_child_nodes(node))
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                times = self.length(node.generators[0].iter) if len(node.generators) == 1 else None
                arm = (id(node), 0) if any(generator.ifs for generator in node.generators) else None
                with self.inside(times=times, arm=arm, scope=stored_names(node)):
                    self.run(ast.iter_child_nodes(node))
            case _:
                self.run(ast.iter_child_nodes(node))

    def alternatives(self, node: ast.AST, test: ast.expr, *arms: list[Any]) -> None:
        """Evaluate a condition and pieces of code of which at most one runs."""
        self.run([test])
        for i, arm in enumerate(arms):
            with self.inside(arm=(id(node), i)):
                self.run(arm)

    @contextmanager
    def inside(
        self,
        *,
        times: int | None = 1,
        arm: tuple[int, int] | None = None,
        nested: bool = False,
        scope: Iterable[str] = (),
        loop: str = "",
    ) -> Iterator[None]:
        """Evaluate what runs several times, under a condition, or in a function of its own."""
        before = self.times, self.arms, self.nested, self.loop
        self.loop = self.loop if times == 1 else loop
        self.times = None if self.times is None or times is None else self.times * times
        self.arms += (arm,) if arm else ()
        self.nested |= nested
        self.scopes.append(set(scope))
        yield
        self.times, self.arms, self.nested, self.loop = before
        self.scopes.pop()

    def bind(self, targets: Iterable[ast.expr], value: ast.expr | None) -> None:
        """Give a value to names: the same tensor under two names is kept, a new one is not."""
        names = {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
        shared = {part.id for part in viewed(value)}
        if shared or any(isinstance(target, (ast.Attribute, ast.Subscript)) for target in targets):
            self.kept |= names | shared
        elif not self.arms:
            self.kept -= names
            self.given -= names

    def is_noticed(self, node: ast.Call) -> bool:
        """Whether something may read the input of a call that overwrites it, other than through the output."""
        source, statement = input_of(node), self.statement
        if isinstance(statement, ast.Expr) and statement.value is node:
            return True
        bases = viewed(source)
        if not bases:
            return isinstance(source, (ast.Attribute, ast.Subscript))  # self.state, for instance
        name = bases[0].id
        uses = [part for part in ast.walk(statement) if isinstance(part, ast.Name) and part.id == name]
        rebound = isinstance(statement, ast.Return) or any(isinstance(part.ctx, ast.Store) for part in uses)
        read = sum(isinstance(part.ctx, ast.Load) for part in uses)
        return name in self.kept or read > 1 or not rebound

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

    # Calls.

    def refer(self, node: Any) -> None:
        """Take note of an activation function or a method that is mentioned, not called."""
        value = self.resolve(node)
        if isinstance(value, FunctionType) and isinstance(node, ast.Attribute) and self.is_self(node.value):
            self.add("method", self.mangled(node.attr), node.attr, node).nested = True
        elif not isinstance(value, (Position, nn.Module)) and (known := of_function(value)):
            self.add("function", known, name_of(value), node).obstacle = NOT_CALLED

    def call(self, node: ast.Call) -> None:
        """Evaluate a call: what is called, the arguments, then the call itself."""
        func: Any = node.func
        made = self.resolve(func.func) if isinstance(func, ast.Call) else UNKNOWN
        if isinstance(func, ast.Attribute):
            self.visit(func.value)
        elif is_replaced_class(made):
            self.run([*func.args, *func.keywords])
        elif not isinstance(func, ast.Name):
            self.visit(func)
        self.run([*node.args, *node.keywords])
        call = self.call_of(node, made)
        if call is not None and call.in_place:
            call.noticed |= self.is_noticed(node)
            call.on_argument |= any(part.id in self.given for part in viewed(input_of(node)))
        if isinstance(func, ast.Attribute) and func.attr in ("add", "append", "extend", "insert"):
            self.kept |= {part.id for argument in node.args for part in viewed(argument)}

    def call_of(self, node: ast.Call, made: Any) -> Call | None:
        """Take the call in, if it is of a kind that matters."""
        func: Any = node.func
        value = self.resolve(func)
        if is_replaced_class(made):
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
            call = Call(kind, target, name, key, node.lineno, self.times, self.arms, self.nested)
            hidden = any(str(self.self_name) in scope for scope in self.scopes[1:])
            call.obstacle = NO_SELF if hidden or not self.has_self else ""
            call.loop = self.loop
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
