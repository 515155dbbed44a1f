"""Registry: what is chosen by name (methods, datasets, studies, commands), and the class of each name.

Names are read from the sources in a kind's folder, so that a list or an unknown name imports nothing. Besides the
folders there may be one file of the user's own, the plugin. An environment variable names it for the processes that
execute runs.
"""

import ast
import dataclasses
import difflib
import importlib
import inspect
import os
import re
import sys
import traceback
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from supple_lab.errors import UserError

T = TypeVar("T")

BASES = {  # of each kind: the base class. The classes lie in the folder of its module
    "method": "supple.methods.base.Method",
    "metric": "supple.metrics.base.Metric",
    "scenario": "supple_lab.scenarios.base.Scenario",
    "dataset": "supple_lab.data.base.Dataset",
    "model": "supple_lab.models.base.Model",
    "optimizer": "supple_lab.optimizer.Optimizer",
    "game": "supple_lab.rl.base.Game",
    "task": "supple_lab.rl.control.Task",
    "problem": "supple_lab.spec.Problem",
    "study": "supple_lab.paper.study.Study",
    "engine": "supple_lab.sweep.executor.Executor",
    "tracker": "supple_lab.run.recorder.Tracker",
    "command": "supple_lab.commands.base.Command",
}
NO_OPTION = ("ClassVar", "'place'")  # in the source of a field that is no option
ALSO_IN = {"problem": "supple_lab.rl"}
NONE = "none"  # an absent part or value, as it is typed
RESERVED = {"method": ("all", "missing"), "metric": ("all",), "dataset": ("all",)}  # what commands take besides names
PLUGIN = "SUPPLE_PLUGIN"  # the variable
PLUGIN_MODULE = "supple_plugin"  # the file's module, once it is imported
OURS = ("supple", "supple_lab")  # the packages; what lies elsewhere is the plugin's, in its file or in one it imports


class UnknownName(UserError, LookupError):
    """There is nothing of that name; the message says what was meant and what there is."""


class Entry(NamedTuple):
    """A class as its source describes it."""

    module: str
    cls: str
    summary: str  # the docstring's first line
    fields: tuple[str, ...]  # those that are options


@cache
def entries(kind: str) -> dict[str, Entry]:
    """Every named class of a kind in our sources, in the order of names. Nothing is imported."""
    if kind not in BASES:
        return {}
    module, _, base = BASES[kind].rpartition(".")
    classes: dict[str, tuple[str, ast.ClassDef]] = {}
    for package in filter(None, (module.rpartition(".")[0], ALSO_IN.get(kind))):
        for file in sorted(folder_of(package).glob("*.py")):
            for node in ast.parse(file.read_bytes()).body:
                if isinstance(node, ast.ClassDef):
                    classes[node.name] = (f"{package}.{file.stem}", node)

    def bases(name: str) -> list[str]:
        """The class and those of its folder that it builds upon, nearest first."""
        if name not in classes:
            return [name]
        parents = [getattr(parent, "id", getattr(parent, "attr", "")) for parent in classes[name][1].bases]
        return [name, *(one for parent in parents if parent != name for one in bases(parent))]

    found = {}
    for cls, (place, node) in classes.items():
        lineage = bases(cls)
        if (name := _name_in(node)) is not None and base in lineage:
            known = [classes[one][1] for one in reversed(lineage) if one in classes]
            fields = dict.fromkeys(field for one in known for field in _fields_in(one))
            summary = (ast.get_docstring(node) or "").partition("\n")[0]
            found[name] = Entry(place, cls, summary, tuple(fields))
    return dict(sorted(found.items()))


def folder_of(package: str) -> Path:
    """Where a package lies, found without importing it: supple itself would import torch."""
    top, _, rest = package.partition(".")
    spec = find_spec(top)
    assert spec is not None, "both packages are installed together"
    return Path(str(spec.origin)).parent.joinpath(*filter(None, rest.split(".")))


def _name_in(node: ast.ClassDef) -> str | None:
    for statement in node.body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id="name")], value=ast.Constant(value=str(name)))
                | ast.AnnAssign(target=ast.Name(id="name"), value=ast.Constant(value=str(name)))
            ):
                return name
    return None


def _fields_in(node: ast.ClassDef) -> list[str]:
    if not any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        return []
    annotated = [one for one in node.body if isinstance(one, ast.AnnAssign)]
    return [ast.unparse(one.target) for one in annotated if not any(word in ast.unparse(one) for word in NO_OPTION)]


def summaries(kind: str) -> dict[str, str]:
    """Each name of a kind, the plugin's included, with what its class says of itself."""
    found = {name: entry.summary for name, entry in entries(kind).items()}
    if PLUGIN in os.environ:
        import_plugin()
        module, _, base = BASES[kind].rpartition(".")
        others = [cls for cls in _named(getattr(importlib.import_module(module), base)) if not is_ours(cls)]
        found |= {cls.name: (cls.__doc__ or "").partition("\n")[0] for cls in others}
    return dict(sorted(found.items()))


def check_name(kind: str, name: str) -> None:
    """UnknownName unless there is a class of that name; imports nothing if there is no plugin."""
    if name not in entries(kind) and name not in (names := summaries(kind)):
        raise unknown(kind, name, names)


def unknown(kind: str, name: str, names: Iterable[str]) -> UnknownName:
    """The error for a name of a kind that a plugin may add to."""
    own = "" if PLUGIN in os.environ else " What is in a file of your own is found with --plugin FILE."
    return UnknownName(no_such(kind, name, names) + own)


def known(base: type[T]) -> dict[str, type[T]]:
    """Every finished class of a kind by its name, all imported."""
    import_plugin()
    return {cls.name: cls for cls in sorted(_all_named(base), key=lambda cls: cls.name)}  # type: ignore[attr-defined]


@cache  # of what was found: ten thousand specs are read back in seconds
def find(base: type[T], name: str) -> type[T]:
    """The class of that name, or UnknownName. Of our own, its module alone is imported."""
    import_plugin()
    entry = entries(kind_of(base)).get(name)
    if entry is not None:
        found: type[T] = getattr(importlib.import_module(entry.module), entry.cls)
        return found
    others = {cls.name: cls for cls in _named(base)}  # type: ignore[attr-defined]
    if name not in others:
        check_name(kind_of(base), name)
    return others[name]


def kind_of(base: type) -> str:
    """What users call one of these; empty if its classes are not chosen by name."""
    path = f"{base.__module__}.{base.__qualname__}"
    return next((kind for kind, known in BASES.items() if known == path), "")


def no_such(kind: str, name: str, names: Iterable[str]) -> str:
    names = list(names)
    head = name[: name.rfind(".") + 1]  # if it is common to all options, it makes none of them likelier
    shared = head if head and all(known.startswith(head) for known in names) else "--"
    by_end = {known.removeprefix(shared): known for known in names}
    close = difflib.get_close_matches(name.removeprefix(shared), by_end, n=1)
    hint = f" Did you mean '{by_end[close[0]]}'?" if close else ""
    return f"no {kind} named {name!r}.{hint} Known: {', '.join(names)}."


def _all_named(base: type[T]) -> list[type[T]]:
    for entry in entries(kind_of(base)).values():
        importlib.import_module(entry.module)
    return _named(base)


def _named(base: type[T]) -> list[type[T]]:
    return [cls for cls in _descendants(base) if not inspect.isabstract(cls) and "name" in vars(cls)]


def _descendants(base: type[T]) -> list[type[T]]:
    children = base.__subclasses__()
    return children + [cls for child in children for cls in _descendants(child)]


def is_ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] in OURS


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


def import_plugin() -> None:
    """Import the user's file, if there is one, and refuse it if one of its classes cannot be used."""
    if PLUGIN in os.environ:
        _check_plugin(os.environ[PLUGIN])


@cache
def _check_plugin(file: str) -> None:
    """Check all its classes at once, also those that nothing looks for.

    A study takes its own methods from its table: one of the plugin's with such a name would never be seen.
    """
    _import_plugin(file)
    places = [path.rpartition(".") for path in BASES.values()]
    # The plugin imports the base classes that it builds upon.
    bases = [getattr(sys.modules[module], name) for module, _, name in places if module in sys.modules]
    brought = {
        base: [cls for cls in _descendants(base) if not is_ours(cls) and not inspect.isabstract(cls)] for base in bases
    }
    if not any(brought.values()):
        raise UnknownName(
            f"--plugin {file} brings nothing: none of its classes builds upon Method, Model, Scenario, Dataset, Study "
            "or another base class of ours."
        )
    for base, own in brought.items():
        if own:
            named = _all_named(base)
            in_specs = any(dataclasses.is_dataclass(cls) for cls in named if is_ours(cls))
            for mine in own:
                check_class(mine, named, in_specs=in_specs, reserved=(NONE, *RESERVED.get(kind_of(base), ())))
                if kind_of(base) == "method" and "name" in vars(mine):
                    check_acts(mine, base)
                    check_activation(mine)
                    check_space(mine)


def check_class(mine: Any, named: Iterable[Any], *, in_specs: bool, reserved: Iterable[str] = ()) -> None:
    """UnknownName if a class of the plugin has no name, another's, or fields that a spec of a run cannot hold."""
    who = f"the plugin's {mine.__name__}"
    example = f"give it one: name = '{mine.__name__.lower()}'"
    if "name" not in vars(mine):
        if mine.__subclasses__():
            return  # others build upon it, and it is no choice itself
        raise UnknownName(f"{who} has no name of its own; {example}.")
    if not isinstance(mine.name, str):
        raise UnknownName(f"{who} has a name that is no text; {example}.")
    if not re.fullmatch(r"\w+", mine.name):  # a+b is a chain of the arena's, a/b another folder
        raise UnknownName(f"the name {mine.name!r} of {who} is no word of letters, digits and underscores; {example}.")
    if mine.name in reserved:
        raise UnknownName(f"the name '{mine.name}' of {who} is a word of the command line's own; give yours another.")
    for other in named:
        if other is not mine and other.name == mine.name:
            place = f"{other.__module__}.{other.__name__}"
            raise UnknownName(f"the name '{mine.name}' of {who} is taken by {place}; give yours another.")
    if in_specs:
        is_decorated = "__dataclass_params__" in vars(mine) or not inspect.get_annotations(mine)
        if not (is_decorated and dataclasses.is_dataclass(mine) and mine.__dataclass_params__.frozen):  # type: ignore[union-attr]
            raise UnknownName(
                f"{who} is no frozen dataclass, and its fields are what a run is known by; "
                "write @dataclass(frozen=True, kw_only=True) above it."
            )
        for field in dataclasses.fields(mine):
            if field.name == "kind":
                raise UnknownName(f"{who} has a field named 'kind', the word for its name in a run's files; rename it.")
            if not _is_plain(default := default_of(field)):
                raise UnknownName(
                    f"{who}.{field.name} is {default!r} by default, but a run is known by "
                    "numbers, text, None and tuples of them; make it one of these."
                )


def check_acts(mine: Any, base: Any) -> None:
    """UnknownName if a method of the plugin never acts, which is mostly a hook under another name."""
    hooks = ("activation", "after_backward", "after_step", "end_stage", "begin_stage")
    if all(getattr(mine, hook) is getattr(base, hook) for hook in hooks):
        raise UnknownName(f"the plugin's {mine.__name__} never acts: it has none of the hooks {', '.join(hooks)}.")


def check_activation(mine: Any) -> None:
    """UnknownName if a method of the plugin gives no module to build networks with, as far as its defaults show."""
    from torch import nn  # which the plugin's method has imported

    if needed_field(mine) is not None:
        return
    who = f"the plugin's {mine.__name__}.activation()"
    try:
        made = mine().activation()
    except Exception as error:  # whatever the user's own code raises
        raise UnknownName(f"{who} cannot be called: {type(error).__name__}: {error}.") from error
    if not isinstance(made, nn.Module):
        raise UnknownName(f"{who} must return a module, such as nn.Tanh(); got {made!r}.")


def check_space(mine: Any) -> None:
    """UnknownName if what the arena shall tune of the plugin's method are no fields of it, or no ranges."""
    who, space = f"the plugin's {mine.__name__}.space", getattr(mine, "space", {})
    if not isinstance(space, Mapping) or not all(hasattr(within, "at") for within in space.values()):
        raise UnknownName(
            f"{who} must map fields to ranges of supple_lab.arena.spaces, as in {{'rate': LogUniform(1e-5, 1e-1)}}; "
            f"got {space!r}."
        )
    own = [field.name for field in dataclasses.fields(mine)]
    for name in space:
        if name not in own:
            raise UnknownName(f"{who} tunes a field that is none: {no_such('field', name, own or ['none'])}")


@cache
def _import_plugin(file: str) -> str:
    """Import the user's file; return the name of its module."""
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
        words: str = str(error)
        place: Any = traceback.extract_tb(error.__traceback__)[-1]
        if isinstance(error, SyntaxError):
            words, place = error.msg, error
        said = f"{type(error).__name__}: {words} ({place.filename}, line {place.lineno})"
        raise UnknownName(f"--plugin {file} cannot be imported: {said}.") from error
    return PLUGIN_MODULE


def default_of(field: dataclasses.Field[Any]) -> Any:
    """The value if none is given; MISSING if one must be."""
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def needed_field(cls: Any) -> str | None:
    """The first field that has no default, without which the class cannot be used by its name alone."""
    return next((field.name for field in dataclasses.fields(cls) if default_of(field) is dataclasses.MISSING), None)


def _is_plain(value: Any) -> bool:
    """Whether a spec can hold it; a part in a part is held by its own fields."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    is_part = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return is_part or value is None or value is dataclasses.MISSING or isinstance(value, (int, float, str))
