"""What a syntax tree says by itself: names, imports, and which tensors an expression gives back."""

import ast
import sys
from collections.abc import Iterator
from typing import Any

UNKNOWN = object()
VIEWS = {"T", "mT", "chunk", "data", "detach", "diagonal", "expand", "expand_as", "flatten", "movedim", "narrow"}
VIEWS |= {"permute", "ravel", "reshape", "select", "split", "squeeze", "swapaxes", "t", "transpose", "unbind"}
VIEWS |= {"unflatten", "unsqueeze", "view", "view_as"}


def name_of_call(node: ast.Call) -> str:
    """The last name of what is called."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def arguments_of(node: Any) -> list[str]:
    """The names of a function's arguments."""
    arguments = node.args
    listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return [argument.arg for argument in listed if argument is not None]


def viewed(node: Any) -> list[ast.Name]:
    """The names whose tensors the expression gives back, itself, as views or in a list."""
    match node:
        case ast.Name():
            return [node]
        case ast.Subscript(value=value) | ast.Starred(value=value):
            return viewed(value)
        case ast.Attribute(value=value, attr=name) if name in VIEWS:
            return viewed(value)
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=args):
            if name in VIEWS or (name.endswith("_") and not name.endswith("__")):
                return viewed(value) + [found for argument in args[:1] for found in viewed(argument)]
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            return [found for part in parts for found in viewed(part)]
        case ast.IfExp(body=body, orelse=orelse):
            return viewed(body) + viewed(orelse)
    return []


def stored_names(node: Any) -> set[str]:
    """The names that code assigns to, those in functions inside it included, without global ones."""
    names, shared = set[str](), set[str]()
    for part in ast.walk(node):
        match part:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names |= {name} if part is not node else set()
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.Global(names=listed):
                shared |= set(listed)
    return names - shared


def imports(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """Yield what the imports in a function bring, if it is loaded."""
    for part in ast.walk(node):
        if isinstance(part, ast.Import):
            for alias in part.names:
                name = alias.asname or alias.name.partition(".")[0]
                yield name, sys.modules.get(alias.name if alias.asname else name, UNKNOWN)
        elif isinstance(part, ast.ImportFrom):
            module = None if part.level else sys.modules.get(part.module or "")
            for alias in part.names:
                yield alias.asname or alias.name, vars(module).get(alias.name, UNKNOWN) if module else UNKNOWN


def contents(cell: Any) -> Any:
    """What a closure holds; a name that is defined later holds nothing yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return UNKNOWN
