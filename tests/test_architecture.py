"""The arrows of the architecture: a package imports only what stands to its left."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"

# Each entry may import the ones before it, never those after. Entries in one tuple do not import each other.
LIBRARY = [
    ("version", "random", "fields", "remedies", "saved", "warn"),
    ("processes",),
    ("unchanged",),
    ("kernels",),
    ("functional",),
    ("layers", "theory", "inject"),
    ("activations",),
    ("convert", "units"),
    ("inputs",),
    ("taps",),
    ("learner",),
    ("methods", "metrics"),
    ("monitor_table",),
    ("alarms", "monitor_plot"),
    ("attach", "checkup"),
    ("gap_training", "fresh_networks"),
    ("gap", "diagnosis"),
    ("monitor",),
    ("integrations",),
    ("__main__",),
]
LABORATORY = [
    ("errors", "flock", "streams", "provenance", "precision"),
    ("registry", "files"),
    ("codec",),
    ("options",),
    ("data", "models", "optimizer"),
    ("scenarios",),
    ("spec",),
    ("rl", "store"),
    ("run",),
    ("sweep", "results"),
    ("report",),
    ("paper", "arena"),
    ("bench",),
    ("commands",),
    ("cli",),
    ("entry",),
]


def imports_of(path: Path) -> set[str]:
    """Dotted names of all that a file imports; `from supple import x` counts as supple.x."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def arrows(package: str) -> list[tuple[str, str]]:
    """(what a file is part of, what it imports from) within one package."""
    return [
        (path.relative_to(SOURCE / package).with_suffix("").parts[0], module.split(".")[1])
        for path in (SOURCE / package).rglob("*.py")
        if path != SOURCE / package / "__init__.py"
        for module in imports_of(path)
        if module.startswith(f"{package}.")
    ]


@pytest.mark.parametrize(("package", "order"), [("supple", LIBRARY), ("supple_lab", LABORATORY)])
def test_imports_point_from_right_to_left(package, order):
    rank = {name: place for place, names in enumerate(order) for name in names}
    outward = [(here, there) for here, there in arrows(package) if here != there]
    assert not [f"{here} imports {there}" for here, there in outward if rank[there] >= rank[here]]


def test_library_never_imports_the_laboratory():
    imports = {path: imports_of(path) for path in (SOURCE / "supple").rglob("*.py")}
    assert not [path for path, modules in imports.items() if any(m.startswith("supple_lab") for m in modules)]


def test_methods_and_scenarios_do_not_know_each_other():
    for folder, stranger in (("supple_lab/scenarios", "supple.methods"), ("supple_lab/models", "supple.methods")):
        for path in (SOURCE / folder).rglob("*.py"):
            assert not any(module.startswith(stranger) for module in imports_of(path)), path


def test_no_file_is_named_after_nothing():
    assert not [p for p in SOURCE.rglob("*.py") if p.stem in {"utils", "helpers", "common", "misc"}]


def test_every_module_says_what_it_knows():
    assert not [p for p in SOURCE.rglob("*.py") if not ast.get_docstring(ast.parse(p.read_text()))]
