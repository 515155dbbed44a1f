"""Source of methods: found and checked, rewritten in the syntax tree, compiled, and put into a subclass.

A rewritten function keeps the original's file, lines, globals, defaults and closure, so tracebacks and debuggers show
the user's own code.
"""

import __future__

import ast
import copy
import functools
import inspect
import linecache
import sys
import types
from collections.abc import Iterator, Mapping
from types import CellType, CodeType, FunctionType
from typing import Any, NamedTuple

from torch import nn

from supple.convert import pools

UNKNOWN = object()
VIEWS = {"T", "mT", "chunk", "data", "detach", "diagonal", "expand", "expand_as", "flatten", "movedim", "narrow"}
VIEWS |= {"permute", "ravel", "reshape", "select", "split", "squeeze", "swapaxes", "t", "transpose", "unbind"}
VIEWS |= {"unflatten", "unfold", "unsqueeze", "view", "view_as"}
VIEWS |= {"H", "adjoint", "as_strided", "broadcast_tensors", "broadcast_to", "dsplit", "hsplit", "moveaxis", "numpy"}
VIEWS |= {"swapdims", "tensor_split", "vsplit"}
# The tensor itself, if it is so already, or in evaluation.
VIEWS |= {"as_tensor", "bfloat16", "contiguous", "cpu", "cuda", "double", "dropout", "float", "half", "to", "type"}
VIEWS |= {"type_as"}
# What rewritten functions call without having it in their globals.
ADDED = {function.__name__: function for function in (*pools.AVERAGE_FUNCTIONS.values(), pools.average_of)}


class UnwritableError(Exception):
    """The source of a function cannot be rewritten; says why."""


class MethodPlan(NamedTuple):
    """What becomes of the calls in one method: an action by the key of each.

    ``name``: of the method in the subclass. ``owner``: the place in the original's mro of the class that defines it.
    """

    name: str
    attribute: str
    owner: int
    actions: tuple[tuple[str, str], ...]


def is_own(function: Any) -> bool:
    """Whether it is a Python function from outside of torch."""
    is_function = isinstance(function, FunctionType)
    return is_function and not str(inspect.unwrap(function).__module__).startswith("torch.")


@functools.lru_cache(maxsize=64)
def definitions(text: str) -> dict[tuple[int, str], tuple[ast.FunctionDef, CodeType]]:
    """Every function of a file, by its first line, decorators included, and its name, with what it compiles to."""
    tree = ast.parse(text)
    built = compile(tree, "", "exec", dont_inherit=True)
    codes = {(code.co_firstlineno, code.co_name): code for code in codes_in(built)}
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    keys = [(min([node.lineno, *(part.lineno for part in node.decorator_list)]), node.name) for node in nodes]
    return {key: (node, codes[key]) for key, node in zip(keys, nodes, strict=True) if key in codes}


@functools.lru_cache(maxsize=4096)
def definition(function: FunctionType) -> ast.FunctionDef:
    """Return the syntax tree that the function was compiled from."""
    code = function.__code__
    text = "".join(linecache.getlines(code.co_filename, function.__globals__))
    try:
        node, built = definitions(text)[code.co_firstlineno, code.co_name]
    except (KeyError, SyntaxError) as error:
        raise UnwritableError("its source cannot be found") from error
    if [part.co_code for part in codes_in(built)] != [part.co_code for part in codes_in(code)]:
        raise UnwritableError("its source is not what was imported")
    return node


def compiled(node: ast.FunctionDef, function: FunctionType, new_names: tuple[str, ...]) -> CodeType:
    """Compile a definition in the function's surroundings: its class, because of names with ``__``, and its closure."""
    code = function.__code__
    bare = copy.copy(node)
    bare.decorator_list = []
    owner = code.co_qualname.rpartition(".")[0].rpartition(".")[2]
    module = ast.parse("def factory():\n  class _: ...")  # their fields are not the same in every Python
    factory: Any = module.body[0]
    (holder,) = factory.body
    # Names are not changed in a class of underscores.
    holder.name, holder.body = owner if owner.isidentifier() else "_", [bare]
    outer = [name for name in (*code.co_freevars, *new_names) if name != "__class__"]
    factory.args.args = [ast.arg(name) for name in outer]
    known = [] if holder.name in outer else [ast.Global([holder.name])]  # or the function would not see the real class
    factory.body = [*known, holder]
    flags = code.co_flags & __future__.annotations.compiler_flag
    built = compile(ast.fix_missing_locations(module), code.co_filename, "exec", flags=flags, dont_inherit=True)
    for _ in range(3):  # the factory's code, the class's, the function's
        built = next(part for part in reversed(built.co_consts) if isinstance(part, CodeType))
    return built.replace(co_firstlineno=code.co_firstlineno, co_qualname=code.co_qualname)


class Rewriter(ast.NodeTransformer):
    """Replaces calls by the action planned for their key.

    "call:NAME" calls the submodule of that name, "item:I" the I-th activation of the module called before,
    "method:NAME" another method of self, "average:NAME" a function that averages. "restart:NAME" has no call: with
    every call of the method the call sites of that name count from the first again.
    """

    def __init__(self, start: ast.FunctionDef, actions: Mapping[str, str], *, self_name: str) -> None:
        self.start, self.actions, self.self_name, self.done = start, actions, self_name, set[str]()

    def visit_Call(self, node: ast.Call) -> ast.expr:
        key = key_of(node, self.start)
        self.generic_visit(node)
        if key not in self.actions:
            return node
        self.done.add(key)
        kind, _, name = self.actions[key].partition(":")
        if kind == "call":
            # Not self.NAME: nn.Module's own __getattr__ would cost as much as a small activation.
            child = ast.Subscript(self.attribute("_modules"), ast.Constant(name), ast.Load())
            return ast.copy_location(ast.Call(child, [input_of(node)], []), node)
        if kind == "item":
            node.func = ast.Subscript(node.func, ast.Constant(int(name)), ast.Load())
        elif kind == "method":
            node.func = self.attribute(name)
        elif isinstance(node.func, ast.Call):  # nn.MaxPool2d(2)(x)
            node.func = ast.Call(ast.Name(name, ast.Load()), [node.func], [])
        else:
            node.func = ast.Name(name, ast.Load())
        return node

    def restart_sites_(self) -> None:
        """Put a statement before all others for each of the method's own call sites."""
        for key, action in self.actions.items():
            kind, _, name = action.partition(":")
            if kind == "restart":
                sites = ast.Subscript(self.attribute("_modules"), ast.Constant(name), ast.Load())
                call = ast.Call(ast.Attribute(sites, "count_from_", ast.Load()), [ast.Constant(0)], [])
                self.start.body.insert(0, ast.copy_location(ast.Expr(call), self.start.body[0]))
                self.done.add(key)

    def attribute(self, name: str) -> ast.expr:
        return ast.Attribute(ast.Name(self.self_name, ast.Load()), name, ast.Load())


def rewritten(function: FunctionType, actions: Mapping[str, str]) -> FunctionType:
    """Return the function with its calls changed as planned; what it is wrapped in stays around it."""
    inner = inspect.unwrap(function)
    node = copy.deepcopy(definition(inner))
    rewriter = Rewriter(node, actions, self_name="".join(inner.__code__.co_varnames[:1]))
    rewriter.generic_visit(node)
    rewriter.restart_sites_()
    if rewriter.done != set(actions):
        raise UnwritableError(f"the source of {inner.__qualname__} has changed since the model was converted")
    named = {action.partition(":")[2] for action in actions.values()}
    added = tuple(name for name in ADDED if name in named and name not in inner.__code__.co_freevars)
    code = compiled(node, inner, added)
    cells = dict(zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=True))
    cells |= {name: CellType(ADDED[name]) for name in added}
    closure = tuple(cells[name] for name in code.co_freevars)
    return rewrapped(function, inner, twin(inner, code, closure))


def rewrapped(wrapper: FunctionType, inner: FunctionType, new: FunctionType) -> FunctionType:
    """Return the decorated function with another one inside, which a decorator holds in its closure."""
    if wrapper is inner:
        return new
    if "_torchdynamo_orig_callable" in vars(wrapper):
        raise UnwritableError("it is compiled")
    cells = list(wrapper.__closure__ or ())
    for i, held in enumerate([cell.cell_contents for cell in cells]):
        if isinstance(held, FunctionType) and inspect.unwrap(held) is inner:
            cells[i] = CellType(rewrapped(held, inner, new))
    if tuple(cells) == (wrapper.__closure__ or ()):
        raise UnwritableError("its decorator does not show what it wraps")
    copied: Any = twin(wrapper, wrapper.__code__, tuple(cells))
    copied.__wrapped__ = new
    return copied


def twin(function: FunctionType, code: CodeType, closure: tuple[CellType, ...]) -> Any:
    """Return a copy of the function with other code."""
    new = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    new.__kwdefaults__ = function.__kwdefaults__
    return functools.update_wrapper(new, function)


@functools.cache
def rewritten_class(original: type[nn.Module], plan: tuple[MethodPlan, ...]) -> type[nn.Module]:
    """Return the subclass that follows the plan; to people and to isinstance it looks like the original."""
    body: dict[str, Any] = {name: getattr(original, name) for name in ("__module__", "__qualname__", "__doc__")}
    body |= {"__reduce_ex__": reduce_rewritten, "supple_original_class": original, "supple_plan": plan}
    for method in plan:
        body[method.name] = rewritten(vars(original.__mro__[method.owner])[method.attribute], dict(method.actions))
    return types.new_class(original.__name__, (original,), exec_body=lambda space: space.update(body))


def reduce_rewritten(module: Any, protocol: Any) -> tuple[Any, ...]:
    """Copy and pickle a rewritten module by its original class, which can be found by name, and the plan."""
    return blank, (module.supple_original_class, module.supple_plan), module.__getstate__()


def blank(original: Any, plan: tuple[MethodPlan, ...]) -> nn.Module:
    """Return an instance of the rewritten class without its contents."""
    cls = rewritten_class(original, plan)
    return cls.__new__(cls)


def original_class(module: nn.Module) -> Any:
    """The class that the module was made as."""
    return getattr(type(module), "supple_original_class", type(module))


def why_not_rewritable(cls: Any) -> str:
    """Why a module of this class cannot be given another class; empty if it can."""
    if cls.__reduce_ex__ is not nn.Module.__reduce_ex__ or cls.__reduce__ is not nn.Module.__reduce__:
        return f"{cls.__name__} defines itself how it is pickled"
    if hasattr(cls, "__deepcopy__"):
        return f"{cls.__name__} defines itself how it is copied"
    try:
        rewritten_class(cls, ())
    except Exception as error:  # __init_subclass__ and metaclasses may refuse in any way
        return f"{cls.__name__} cannot be subclassed ({error})"
    return ""


# What a syntax tree says by itself.


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """Yield the code and that of the lambdas, comprehensions and functions defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


def key_of(node: ast.expr, start: ast.FunctionDef) -> str:
    """Name a call by its lines, counted from the def, and columns."""
    last = (node.end_lineno or node.lineno) - start.lineno
    return f"{node.lineno - start.lineno}:{node.col_offset}-{last}:{node.end_col_offset}"


def input_of(node: ast.Call) -> Any:
    """The tensor that an activation is called on: ``F.relu(x)``, ``F.relu(input=x)`` or ``x.relu()``.

    An operator, ``torch.ops.aten.relu``, names it self.
    """
    if not node.args and not node.keywords:
        return node.func.value if isinstance(node.func, ast.Attribute) else None
    named = next((keyword.value for keyword in node.keywords if keyword.arg in ("input", "self")), None)
    return node.args[0] if node.args else named


def is_stored(name: ast.Name) -> bool:
    return not isinstance(name.ctx, ast.Load)


def is_looked_up(called: Any) -> bool:
    """Whether an index that only the run knows chooses it: ``ACTS[self.name](x)``, ``CLASSES[self.name]()(x)``."""
    chosen = called.func if isinstance(called, ast.Call) else called
    if not isinstance(chosen, ast.Subscript):
        return False
    index = chosen.slice.operand if isinstance(chosen.slice, ast.UnaryOp) else chosen.slice  # -1
    return not isinstance(index, ast.Constant)


def viewed(node: Any) -> list[str]:
    """The names whose tensors the expression gives back, itself, as views or in a list."""
    parts: list[Any] = []
    match node:
        case ast.Name(id=name):
            return [name]
        case ast.Subscript(value=value) | ast.Starred(value=value):
            parts = [value]
        case ast.Attribute(value=value, attr=name) if name in VIEWS:
            parts = [value]
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=args) if name in VIEWS or name.endswith("_"):
            parts = [value, *args[:1]]
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts) | ast.BoolOp(values=parts):
            pass
        case ast.BinOp(left=left, right=right):  # lists and tuples, end to end
            parts = [part for part in (left, right) if isinstance(part, (ast.Tuple, ast.List))]
        case ast.IfExp(body=body, orelse=orelse):
            parts = [body, orelse]
    return [name for part in parts for name in viewed(part)]


def names_in(target: ast.expr) -> set[str]:
    """The names that a target of an assignment or a loop consists of."""
    return {part.id for part in ast.walk(target) if isinstance(part, ast.Name)}


def name_of_call(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def given_to(node: ast.Call) -> set[str]:
    """The names whose tensors a call is given, themselves, as views or in a list."""
    parts = (*node.args, *(keyword.value for keyword in node.keywords))
    return {name for part in parts for name in viewed(part)}


def shared_with_callers(node: ast.AST) -> set[str]:
    """The arguments of the functions that a node defines, and what their defaults hold."""
    given = [part for part in ast.walk(node) if isinstance(part, ast.arguments)]
    defaults = (default for part in given for default in (*part.defaults, *filter(None, part.kw_defaults)))
    held = {name for default in defaults for name in viewed(default)}
    return held | {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}


def imports(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """Yield what the imports in a function bring, if it is loaded."""
    for part in ast.walk(node):
        for alias in part.names if isinstance(part, (ast.Import, ast.ImportFrom)) else ():
            if isinstance(part, ast.ImportFrom):
                module = None if part.level else sys.modules.get(part.module or "")
                yield alias.asname or alias.name, vars(module).get(alias.name, UNKNOWN) if module else UNKNOWN
            else:
                name = alias.asname or alias.name.partition(".")[0]
                yield name, sys.modules.get(alias.name if alias.asname else name, UNKNOWN)
