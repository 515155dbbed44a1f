"""What a syntax tree says by itself: names, imports, and which tensors an expression gives back."""

import ast
import sys
from collections.abc import Iterator
from types import CodeType
from typing import Any

Definition = ast.FunctionDef | ast.AsyncFunctionDef
UNKNOWN = object()
VIEWS = {"T", "mT", "chunk", "data", "detach", "diagonal", "expand", "expand_as", "flatten", "movedim", "narrow"}
VIEWS |= {"permute", "ravel", "reshape", "select", "split", "squeeze", "swapaxes", "t", "transpose", "unbind"}
VIEWS |= {"unflatten", "unsqueeze", "view", "view_as"}


def with_nested(code: CodeType) -> Iterator[CodeType]:
    """Yield the code and that of the lambdas, comprehensions and functions defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from with_nested(constant)


def key_of(node: ast.expr, start: Definition) -> str:
    """Name a call by its lines, counted from the def, and columns."""
    last = (node.end_lineno or node.lineno) - start.lineno
    return f"{node.lineno - start.lineno}:{node.col_offset}-{last}:{node.end_col_offset}"


def input_of(node: ast.Call) -> Any:
    """The tensor that an activation is called on: ``F.relu(x)``, ``F.relu(input=x)`` or ``x.relu()``."""
    if not node.args and not node.keywords:
        return node.func.value if isinstance(node.func, ast.Attribute) else None
    named = next((keyword.value for keyword in node.keywords if keyword.arg == "input"), None)
    return node.args[0] if node.args else named


def is_stored(name: ast.Name) -> bool:
    return not isinstance(name.ctx, ast.Load)


def name_of_call(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


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
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            pass
        case ast.IfExp(body=body, orelse=orelse):
            parts = [body, orelse]
    return [name for part in parts for name in viewed(part)]


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
