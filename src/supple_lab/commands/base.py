"""Command: one subcommand of `supple`, its options as fields, its exit code as result."""

import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from supple_lab.errors import UserError

DONE, FAILED, BAD_USAGE = 0, 1, 2
Device = Literal["auto", "cpu", "cuda"]
# The values that follow each option, for each time that it is given; words that follow none are under "".
Given = dict[str, list[list[str]]]


class BadUsage(UserError):
    """What was asked cannot be done; the message says why and what can."""


@dataclass(frozen=True, kw_only=True)
class Command(ABC):
    """A frozen dataclass in every subclass; the command line is made from its fields and their docstrings."""

    name: ClassVar[str]
    description: ClassVar[str] = ""  # at the head of the help, in place of the docstring
    aliases: ClassVar[Mapping[str, Mapping[str, dict[str, Any]]]] = {}  # short names of parts, as in options.py
    plugin: Path | None = None
    """One Python file of yours: methods (or models, scenarios, ...) in it are found by their names, as our own."""

    @abstractmethod
    def run(self) -> int:
        """Do it; return the exit code."""

    @classmethod
    def read(cls, given: Given) -> Self:
        """The command that the options spell, or UserError; after its help the process ends."""
        from supple_lab.options import Form, read, wrapped  # with it torch, which a list of names needs not

        if "--help" not in given:
            return read(cls, given, aliases=cls.aliases)
        form = Form(cls, given, cls.aliases)
        places = [place.flag if place.default is MISSING else f"[{place.flag}]" for place in form.places]
        usage = " ".join(["usage: supple", cls.name, *places, "[OPTIONS]"])
        print(usage, wrapped(cls.description or str(inspect.getdoc(cls))), form.help(), sep="\n\n")
        sys.exit(DONE)


def with_device(command: Command) -> Command:
    """The command with its device chosen, and said, if it was left open: a CUDA GPU if torch sees one."""
    if getattr(command, "device", None) != "auto":
        return command
    device = "cuda" if sees_gpu() else "cpu"
    if not getattr(command, "quiet", False):
        print("device: cuda" if device == "cuda" else "device: cpu (torch sees no CUDA GPU here)", flush=True)
    return replace(command, device=device)  # type: ignore[call-arg]


def check_device(device: Device) -> None:
    if device == "cuda" and not sees_gpu():
        raise BadUsage("--device cuda needs a CUDA GPU, and torch sees none. Use --device cpu.")


def sees_gpu() -> bool:
    """Whether torch, imported not before a command needs it, sees a CUDA GPU."""
    import torch

    return torch.cuda.is_available()


def grouped(arguments: Sequence[str]) -> Given:
    """The options that the arguments spell."""
    given: Given = {}
    values: list[str] | None = None
    for argument in arguments:
        if argument.startswith("--") or argument == "-h":
            flag, equals, value = ("--help" if argument == "-h" else argument).partition("=")
            given.setdefault(flag.replace("_", "-"), []).append(values := [value] if equals else [])
            values = None if equals else values
        else:
            (given.setdefault("", [[]])[0] if values is None else values).append(argument)
    return given


def values_of(option: str, arguments: Sequence[str]) -> list[str]:
    """The first value of an option, each time that it is given."""
    return [values[0] if values else "" for values in grouped(arguments).get(option, ())]
