"""Names to classes: what the command line and the store call a method, a dataset, a study. Nothing else looks up.

Besides the folders there may be one file of the user's own, the plugin. An environment variable names it, so that the
processes that execute runs find what is in it as well.
"""

import dataclasses
import difflib
import importlib
import inspect
import os
import pkgutil
import sys
import traceback
from abc import ABC
from collections.abc import Iterable
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")

PLUGIN = "SUPPLE_PLUGIN"  # the variable
PLUGIN_MODULE = "supple_plugin"  # what the file is called once it is imported
OURS = ("supple", "supple_lab")  # the packages; what lies elsewhere is the plugin's, in its file or in one it imports


class UnknownName(LookupError):
    """There is nothing of that name; the message says what was meant and what there is."""


def use_plugin(*files: str) -> None:
    """Have what a file defines found by its name, here and in the processes that this one starts."""
    if not files:
        return
    if len(files) > 1:
        raise UnknownName(f"--plugin takes one file; got {' and '.join(files)}. Import the others in it.")
    (file,) = files
    if not Path(file).is_file():
        raise UnknownName(f"--plugin names a Python file with methods of your own; there is no file {file!r}.")
    os.environ[PLUGIN] = str(Path(file).resolve())


def known(base: type[T]) -> dict[str, type[T]]:
    """Every finished class of a kind by its name: whatever the folder of the base class holds, and the plugin."""
    _import_folder(_package_of(base))
    import_plugin()
    return {cls.name: cls for cls in sorted(_named(base), key=lambda cls: cls.name)}  # type: ignore[attr-defined]


def import_plugin() -> None:
    """Import the user's file, if there is one, and refuse it where one of its classes cannot be used."""
    if PLUGIN in os.environ:
        _check_plugin(os.environ[PLUGIN])


@cache  # of what was found: ten thousand specs are read back in seconds
def find(base: type[T], name: str) -> type[T]:
    """The class of that name, or UnknownName."""
    classes = known(base)
    if name not in classes:
        own = "" if PLUGIN in os.environ else " What is in a file of your own is found with --plugin FILE."
        raise UnknownName(no_such(getattr(base, "kind", base.__name__.lower()), name, classes) + own)
    return classes[name]


def no_such(kind: str, name: str, names: Iterable[str]) -> str:
    """The sentence for a name that does not exist."""
    names = list(names)
    close = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return f"no {kind} named '{name}'.{hint} Known: {', '.join(names)}."


def _named(base: type[T]) -> list[type[T]]:
    """The finished classes of a kind."""
    return [cls for cls in _descendants(base) if not inspect.isabstract(cls) and "name" in vars(cls)]


def _descendants(base: type[T]) -> list[type[T]]:
    children = base.__subclasses__()
    return children + [cls for child in children for cls in _descendants(child)]


def _package_of(base: type) -> ModuleType:
    return importlib.import_module(base.__module__.rpartition(".")[0])


@cache
def _import_folder(package: ModuleType) -> None:
    if package.__name__ == "supple_lab":  # problems and optimizers: those beside their base, and this one
        importlib.import_module("supple_lab.rl.dqn_problem")
        return
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")


@cache
def _check_plugin(file: str) -> None:
    """Import the user's file, and look at all its classes at once, whether or not anybody looks for them.

    A study takes its own methods from its table: one of the plugin's with such a name would never be seen.
    """
    _import_plugin(file)
    for kind in _kinds():
        own = [cls for cls in _descendants(kind) if not _is_ours(cls) and not inspect.isabstract(cls)]
        if own:
            _import_folder(_package_of(kind))
            _check_classes(own, _named(kind))


def _check_classes(own: list[type[T]], named: list[type[T]]) -> None:
    """Refuse the plugin where one of its classes of a kind cannot be told from all others of it, or written down."""
    _check_named(own)
    _check_names([cls for cls in own if cls in named], named)
    if any(dataclasses.is_dataclass(cls) for cls in named if _is_ours(cls)):
        _check_fields([cls for cls in own if cls in named])


def _kinds() -> list[type[object]]:
    """What a plugin may add to: our base classes, each of which says that a finished one has a name."""
    return [cls for cls in ABC.__subclasses__() if _is_ours(cls) and "name" in inspect.get_annotations(cls)]


def _is_ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] in OURS


@cache
def _import_plugin(file: str) -> str:
    """Import the user's file; the name of its module."""
    script = getattr(sys.modules["__main__"], "__file__", None)
    if script is not None and Path(script).resolve() == Path(file):
        return "__main__"  # the file is the program that runs: its classes are there already
    spec = spec_from_file_location(PLUGIN_MODULE, file)
    if spec is None or spec.loader is None:
        raise UnknownName(f"--plugin names a Python file, ending in .py; got {file}.")
    sys.modules[PLUGIN_MODULE] = module = module_from_spec(spec)
    if (folder := str(Path(file).parent)) not in sys.path:
        sys.path.append(folder)  # its neighbours can be imported, and hide nothing that is installed
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever the user's own code raises
        del sys.modules[PLUGIN_MODULE]
        raise UnknownName(f"--plugin {file} cannot be imported: {_summary(error)}.") from error
    return PLUGIN_MODULE


def _summary(error: BaseException) -> str:
    """What went wrong and in which line, without the way there."""
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} ({error.filename}, line {error.lineno})"
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({last.filename}, line {last.lineno})"


def _check_named(own: list[type[T]]) -> None:
    """Refuse a class of the plugin that nobody could name; one that others build upon needs no name."""
    for mine in own:
        example = f"give it one: name = '{mine.__name__.lower()}'"
        if "name" not in vars(mine) and not mine.__subclasses__():
            raise UnknownName(f"the plugin's {mine.__name__} has no name of its own; {example}.")
        if "name" in vars(mine) and not isinstance(mine.name, str):  # type: ignore[attr-defined]
            raise UnknownName(f"the plugin's {mine.__name__} has a name that is no text; {example}.")


def _check_names(own: list[type[T]], classes: list[type[T]]) -> None:
    """Refuse a class of the plugin that has the name of another one."""
    for mine in own:
        for other in classes:
            if other is not mine and other.name == mine.name:  # type: ignore[attr-defined]
                raise UnknownName(
                    f"the name '{mine.name}' of the plugin's {mine.__name__} is taken by "  # type: ignore[attr-defined]
                    f"{other.__module__}.{other.__name__}; give yours another."
                )


def _check_fields(own: list[type[T]]) -> None:
    """Refuse a class of the plugin whose fields cannot be written into a run's spec, and read back."""
    for mine in own:
        is_decorated = "__dataclass_params__" in vars(mine) or not inspect.get_annotations(mine)
        if not (is_decorated and dataclasses.is_dataclass(mine) and mine.__dataclass_params__.frozen):  # type: ignore[attr-defined]
            raise UnknownName(
                f"the plugin's {mine.__name__} is no frozen dataclass, and its fields are what a run is known by; "
                "write @dataclass(frozen=True, kw_only=True) above it."
            )
        for field in dataclasses.fields(mine):
            if not _is_plain(default := default_of(field)):
                raise UnknownName(
                    f"the plugin's {mine.__name__}.{field.name} is {default!r} by default, but a run is known by "
                    "numbers, text, None and tuples of them; make it one of these."
                )


def default_of(field: dataclasses.Field[Any]) -> Any:
    """What stands there if nothing is given; MISSING where something must be."""
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def needed_field(cls: Any) -> str | None:
    """The first field that has no default, without which the class cannot be used by its name alone."""
    return next((field.name for field in dataclasses.fields(cls) if default_of(field) is dataclasses.MISSING), None)


def _is_plain(value: Any) -> bool:
    """Whether a spec can hold it; a part in a part is held by its own fields."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    is_part = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return is_part or value is dataclasses.MISSING or value is None or isinstance(value, (bool, int, float, str))
