"""Code with an error in it: planted when a file is imported, compared function by function, and traced line by line."""

import hashlib
import importlib.machinery
import importlib.util
import linecache
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, ClassVar

IS_FUNCTION = 1  # CO_OPTIMIZED, of a code object's flags


def digest(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:16]


class Planted(importlib.machinery.SourceFileLoader):
    """Loads a file's planted text in its place; inspect, and so Triton and TorchScript, sees that text as well."""

    sources: ClassVar[dict[str, str]] = {}

    def get_code(self, fullname: str) -> Any:
        show(self.path, self.sources[self.path])
        return compile(self.sources[self.path], self.path, "exec", dont_inherit=True)

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.origin not in cls.sources:
            return None
        return importlib.util.spec_from_file_location(name, spec.origin, loader=cls(name, spec.origin))

    @classmethod
    def plant(cls, sources: dict[str, str]) -> None:
        cls.sources = {str(Path(file).resolve()): text for file, text in sources.items()}
        sys.meta_path.insert(0, cls)


def show(path: str, text: str) -> None:
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)


class Tracer:
    """Notes the lines of these files that are executed between start and stop."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.lines: dict[str, set[int]] = {path: set() for path in paths}

    def enter(self, frame: FrameType, event: str, _: Any) -> Any:
        lines = self.lines.get(frame.f_code.co_filename)
        if lines is None:
            return None
        add = lines.add
        add(frame.f_lineno)

        def step(frame: FrameType, event: str, _: Any) -> Any:
            add(frame.f_lineno)
            return step

        return step

    def __enter__(self) -> "Tracer":
        threading.settrace(self.enter)
        sys.settrace(self.enter)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]


def changed_functions(old: CodeType, new: CodeType) -> dict[CodeType, CodeType] | None:
    """The functions that differ, those in others too, or None where a module's or a class's own code differs.

    That runs on import. So does, maybe, a function around another: what it made then has the inner function's code.
    """
    if old == new:
        return {}
    inner_old, inner_new = ([c for c in code.co_consts if isinstance(c, CodeType)] for code in (old, new))
    changes = {old: new} if old.co_flags & IS_FUNCTION else {}
    if len(inner_old) != len(inner_new):  # a function or comprehension fewer, made anew in each call
        return changes or None
    if not changes and bare(old) != bare(new):
        return None
    for one, other in zip(inner_old, inner_new, strict=True):
        if (found := changed_functions(one, other)) is None:
            return None
        changes |= found
    return changes


def bare(code: CodeType) -> CodeType:
    """A code without the code in it, and without its columns, which move with a change on the same line."""
    constants = tuple("code" if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.replace(co_consts=constants, co_linetable=b"")


def changed_line(old: str, new: str) -> int:
    pairs = enumerate(zip(old.splitlines(), new.splitlines(), strict=True), start=1)
    return next(number for number, (one, other) in pairs if one != other)
