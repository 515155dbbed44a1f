"""Names to classes: what the command line and the store call a method, a dataset, a study. Nothing else looks up."""

import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Iterable
from functools import cache
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


class UnknownName(LookupError):
    """There is nothing of that name; the message says what was meant and what there is."""


def known(base: type[T]) -> dict[str, type[T]]:
    """Every finished class of a kind by its name: whatever the folder of the base class holds."""
    _import_folder(importlib.import_module(base.__module__.rpartition(".")[0]))
    classes = [cls for cls in _descendants(base) if not inspect.isabstract(cls) and "name" in vars(cls)]
    return {cls.name: cls for cls in sorted(classes, key=lambda cls: cls.name)}  # type: ignore[attr-defined]


@cache  # of what was found: ten thousand specs are read back in seconds
def find(base: type[T], name: str) -> type[T]:
    """The class of that name, or UnknownName."""
    classes = known(base)
    if name not in classes:
        raise UnknownName(no_such(getattr(base, "kind", base.__name__.lower()), name, classes))
    return classes[name]


def no_such(kind: str, name: str, names: Iterable[str]) -> str:
    """The sentence for a name that does not exist."""
    names = list(names)
    close = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return f"no {kind} named '{name}'.{hint} Known: {', '.join(names)}."


def _descendants(base: type[T]) -> list[type[T]]:
    children = base.__subclasses__()
    return children + [cls for child in children for cls in _descendants(child)]


@cache
def _import_folder(package: ModuleType) -> None:
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
