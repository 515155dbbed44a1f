"""Command: one subcommand of `supple`, its options as fields, its exit code as result."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import ClassVar, Literal, Self, get_args, get_origin, get_type_hints

import tyro

from supple_lab.errors import UserError

DONE, FAILED, BAD_USAGE = 0, 1, 2
Device = Literal["auto", "cpu", "cuda"]


class BadUsage(UserError):
    """What was asked cannot be done; the message says why and what can."""


@dataclass(frozen=True, kw_only=True)
class Command(ABC):
    """A frozen dataclass in every subclass; the command line is made from its fields and their docstrings."""

    name: ClassVar[str]
    plugin: Path | None = None
    """One Python file of yours: methods (or models, scenarios, ...) in it are found by their names, as our own."""

    @abstractmethod
    def run(self) -> int:
        """Do it; return the exit code."""

    @classmethod
    def read(cls, arguments: Sequence[str]) -> Self:
        """The command that the arguments spell, or BadUsage; after its help the process ends."""
        prog, config = f"supple {cls.name}", (tyro.conf.FlagCreatePairsOff,)
        try:
            with redirect_stderr(StringIO()) as box:
                command = tyro.cli(cls, prog=prog, args=list(arguments), config=config)
        except SystemExit as end:
            if end.code == DONE:
                raise
            check_numbers(cls, arguments)
            # What it says stands in a box, below a title and above rules.
            lines = (line.strip("\N{BOX DRAWINGS LIGHT VERTICAL}| ") for line in box.getvalue().splitlines()[1:])
            blocks = itertools.groupby(lines, key=lambda line: any(map(str.isalpha, line)))
            sentence = next(" ".join(block) for is_text, block in blocks if is_text)
            raise BadUsage(f"{sentence.rstrip('.')}. See {prog} --help.") from None
        for flag, times in grouped(arguments).items():
            if [] in times and isinstance(getattr(command, flag[2:].replace("-", "_"), None), tuple):
                raise BadUsage(f"{flag} takes one value or more; got none. Leave it out for its default.")
        return command


def check_numbers(cls: type[Command], arguments: Sequence[str]) -> None:
    """UserError, in the words of `supple train`, if an option has a value that is none of its numbers."""
    from supple_lab.codec import from_text  # with it torch, which a list of names needs not

    given = grouped(arguments)
    for name, kind in get_type_hints(cls).items():
        flag, members = f"--{name.replace('_', '-')}", get_args(kind) or (kind,)
        if int in members or float in members:
            several = get_origin(kind) is tuple
            for value in (value for values in given.get(flag, ()) for value in (values if several else values[:1])):
                from_text(value, members[0] if several else kind, flag)


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


def grouped(arguments: Sequence[str]) -> dict[str, list[list[str]]]:
    """The values that follow each option, for each time that it is given; those before any option under ''."""
    given: dict[str, list[list[str]]] = {}
    values: list[str] = []
    for argument in arguments:
        if argument.startswith("--") or argument == "-h":
            flag, equals, value = ("--help" if argument == "-h" else argument).partition("=")
            values = [value] if equals else []
            given.setdefault(flag.replace("_", "-"), []).append(values)
        elif given:
            values.append(argument)
        else:
            given[""] = [values]
            values.append(argument)
    return given


def values_of(option: str, arguments: Sequence[str]) -> list[str]:
    """The first value of an option, each time that it is given."""
    return [values[0] if values else "" for values in grouped(arguments).get(option, ())]
