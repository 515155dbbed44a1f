"""Small errors in Python source, one at a time: a mutant is a file with one expression or statement changed.

Left alone: docstrings and other strings, annotations, decorators, base classes, `raise` and what a warning says.
"""

import ast
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}
METHODS = FUNCTIONS | {"mean": "sum", "zeros": "ones", "zeros_like": "ones_like", "floor": "ceil", "sin": "cos"}
# Swapped arguments are a TypeError here, or change nothing.
NOT_SWAPPED = {"isinstance", "issubclass", "getattr", "hasattr", "checked", "min", "max", "maximum", "minimum", "equal"}
SKIPPED_FIELDS = {"annotation", "returns", "decorator_list", "bases", "format_spec"}


@dataclass(frozen=True)
class Mutant:
    """One change of one file; `number` is its place among all changes of the file, if it is none planted by hand."""

    file: str
    where: str
    before: str
    after: str
    number: int | None = None


def mutants_of(path: Path) -> list[Mutant]:
    """Return every mutant of a file. Of two that read the same the first is kept."""
    found: dict[tuple[str, ...], Mutant] = {}
    for number, change in enumerate(changes(ast.parse(path.read_text()))):
        where, before, after = change
        found.setdefault(change, Mutant(str(path), where, *shortened(before, after), number))
    return list(found.values())


def shortened(before: str, after: str) -> tuple[str, str]:
    """Cut what two long statements share, but for 40 characters on either side of the change."""
    start = max(num_equal(before, after) - 40, 0)
    end = max(num_equal(before[start:][::-1], after[start:][::-1]) - 40, 0)
    if len(before) < 120 or (start == 0 and end == 0):
        return before, after
    return tuple(f"{'...' * (start > 0)}{s[start : len(s) - end]}{'...' * (end > 0)}" for s in (before, after))


def num_equal(one: str, other: str) -> int:
    """How many characters the two begin with in common."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def source_of(mutant: Mutant) -> str:
    """Return the whole source with the mutant's change."""
    tree = ast.parse(Path(mutant.file).read_text())
    for number, _ in enumerate(changes(tree)):
        if number == mutant.number:
            return ast.unparse(tree)
    raise LookupError(f"{mutant.file} has no change number {mutant.number}: was it edited meanwhile?")


def changes(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """Make each change in turn and undo it; yield (function, statement before, statement after) while it stands."""

    def visit(node: ast.AST, where: str, statement: ast.AST) -> Iterator[tuple[str, str, str]]:
        for field, value in ast.iter_fields(node):
            if field in SKIPPED_FIELDS or (isinstance(node, ast.ClassDef) and field == "keywords"):
                continue
            places = value if isinstance(value, list) else [value]
            for index, child in enumerate(places):
                if not isinstance(child, ast.AST) or isinstance(child, ast.Raise) or is_guard(child):
                    continue
                named = isinstance(child, (ast.FunctionDef, ast.ClassDef))
                inner = f"{where}.{child.name}".lstrip(".") if named else where
                own = child if isinstance(child, ast.stmt) else statement
                before = head(own)
                for new in replacements(child, field):
                    put(node, field, index, new)
                    yield inner, before, head(new if own is child else own)
                    put(node, field, index, child)
                if not is_warning(child):
                    yield from visit(child, inner, own)

    yield from visit(tree, "", tree)


def put(node: ast.AST, field: str, index: int, child: ast.AST) -> None:
    value = getattr(node, field)
    if isinstance(value, list):
        value[index] = child
    else:
        setattr(node, field, child)


def head(statement: ast.AST) -> str:
    """The first line of a statement, without its decorators and body."""
    lines = ast.unparse(statement).splitlines() or [""]
    return next((line for line in lines if not line.startswith("@")), lines[0])


def is_guard(node: ast.AST) -> bool:
    """Whether this is `strict=True`, a guard against errors elsewhere, or a device, of which a CPU shows nothing."""
    return isinstance(node, ast.keyword) and node.arg in ("strict", "device")


def is_warning(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and ast.unparse(node).startswith("warnings.warn")


def replacements(node: ast.AST, field: str) -> Iterator[ast.AST]:
    """What may stand in the place of a node."""
    if field in ("test", "ifs") and not is_its_own_negation(node):
        yield ast.UnaryOp(ast.Not(), node)
    match node:
        case ast.Compare(left, ops, comparators):
            for i, op in enumerate(ops):
                yield ast.Compare(left, [*ops[:i], COMPARISONS[type(op)](), *ops[i + 1 :]], comparators)
        case ast.BinOp(left, op, right) if type(op) in OPERATORS:
            yield ast.BinOp(left, OPERATORS[type(op)](), right)
        case ast.AugAssign(target, op, value) if type(op) in OPERATORS:
            yield ast.AugAssign(target, OPERATORS[type(op)](), value)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield operand
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(float(value)):
            yield ast.Constant(2.0 * value if value else 1.0)
        case ast.Return(ast.expr() as value) if ast.unparse(value) != "None":
            yield ast.Return(None)
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()
        case ast.Expr(ast.Call()):
            yield ast.Pass()
        case ast.Call():
            yield from changed_calls(node)


def is_its_own_negation(test: ast.AST) -> bool:
    """Whether another change, of the comparison or the `not`, already negates it."""
    opposite = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
    is_comparison = isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], opposite)
    return is_comparison or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not))


def changed_calls(call: ast.Call) -> Iterator[ast.Call]:
    """Another function, the first two arguments swapped, one keyword left out."""
    match call.func:
        case ast.Name(name) if name in FUNCTIONS:
            yield ast.Call(ast.Name(FUNCTIONS[name]), call.args, call.keywords)
        case ast.Attribute(value, name) if name in METHODS:
            yield ast.Call(ast.Attribute(value, METHODS[name]), call.args, call.keywords)
    first, second, *rest = [*call.args, None, None]
    is_pair = first is not None and second is not None and not any(isinstance(a, ast.Starred) for a in (first, second))
    if is_pair and ast.unparse(call.func).split(".")[-1] not in NOT_SWAPPED:
        yield ast.Call(call.func, [second, first, *rest[:-2]], call.keywords)
    is_class = ast.unparse(call.func).split(".")[-1][:1].isupper()  # most need every field
    for i, keyword in enumerate(call.keywords):
        if keyword.arg is not None and not is_guard(keyword) and not is_class:
            yield ast.Call(call.func, call.args, call.keywords[:i] + call.keywords[i + 1 :])
