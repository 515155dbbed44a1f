"""The command line. Exit code 0: done, 1: runs failed (named) or the disk is full, 2: bad usage.

Help and unknown names are answered from the registry, before a command, and with it torch, is imported.
"""

import importlib
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from supple_lab import registry
from supple_lab.commands.base import BAD_USAGE, DONE, FAILED, Command, Given, grouped, values_of, with_device
from supple_lab.commands.terminal import patient, refusals_as_sentences
from supple_lab.errors import COMPUTING_THREAD, UserError, heed_sigterm_
from supple_lab.files import DiskFull
from supple_lab.rl.games import GAMES

ORDER = ("run", "train", "play", "report", "arena", "list", "bench", "data")  # of the help; others follow
DESCRIPTION = "The laboratory of supple: run the experiments of the AID paper, and report what came out."
NAMES = {"methods": "method", "engine": "engine", "track": "tracker", "metrics": "metric"}  # options whose values are
PLACES = ("out", "data", "json", "plugin", "mirror")  # options that name a file or folder
PARTS: dict[str, dict[str, str | None]] = {  # the parts that a command has options for, and the default of each
    "run": {"method": None, "optimizer": None},
    "train": {
        "scenario": "random_label",
        "dataset": "digits",
        "model": "mlp",
        "method": "vanilla",
        "optimizer": "adam",
    },
    "play": {"game": None, "model": "nature_dqn", "method": "vanilla", "optimizer": "adam"},
}


def main() -> None:
    sys.stdout, sys.stderr = patient(sys.stdout), patient(sys.stderr)
    heed_sigterm_()
    sys.exit(supple(sys.argv[1:]))


def supple(arguments: list[str]) -> int:
    """Run one command line; return its exit code."""
    try:
        with refusals_as_sentences():
            if arguments[:1] in ([], ["--help"], ["-h"]):
                print(help_text())
                return DONE
            return command_of(arguments).run()
    except UserError as error:
        print(f"supple: {error}", file=sys.stderr)
        return FAILED if isinstance(error, DiskFull) else BAD_USAGE
    except KeyboardInterrupt as error:
        again = "starts over" if arguments[:1] == ["bench"] else "continues"  # which writes nothing until its end
        print(f"supple: {str(error) or 'interrupted'}; the same command {again}.", file=sys.stderr)
        if any(thread.name == COMPUTING_THREAD for thread in threading.enumerate()):
            sys.stdout.flush()
            os._exit(FAILED)  # torch aborts when threads that compute outlive the interpreter
        return FAILED


def help_text() -> str:
    commands = registry.entries("command")
    names = [*ORDER, *sorted(set(commands) - set(ORDER))]
    lines = [f"  {name:<8} {commands[name].summary}" for name in names]
    usage = "usage: supple COMMAND [OPTIONS], or supple COMMAND --help"
    return "\n".join([usage, "", DESCRIPTION, "", "commands:", *lines])


def command_of(arguments: Sequence[str]) -> Command:
    """The command that the arguments spell, or the parser's own exit. An open device is chosen, and said."""
    name, *rest = arguments
    commands = registry.entries("command")
    if name not in commands:
        raise registry.UnknownName(registry.no_such("command", name, commands))
    registry.use_plugin(*values_of("--plugin", rest))  # first: other options may name what it defines
    check_words(name, given := grouped(rest))
    entry = commands[name]
    command: Any = getattr(importlib.import_module(entry.module), entry.cls)
    return with_device(command.read(given))


def check_words(command: str, given: Given) -> None:
    """UnknownName for an option or a name that does not exist, as far as the sources say."""
    parts = PARTS.get(command, {})
    fields = ["help", *registry.entries("command")[command].fields]
    if command == "play":
        fields = [field for field in fields if field != "rules"] + [*registry.entries("problem")["dqn"].fields]
    flags = [f"--{field.replace('_', '-')}" for field in fields]
    for flag, times in given.items():
        head, _, field = flag.removeprefix("--").partition(".")
        if field and head in parts:
            chosen = given.get("--methods" if command == "run" and head == "method" else f"--{head}")
            for name in chosen[0] if chosen else [parts[head]]:
                check_field(head, name, flag)
        elif flag and flag not in flags:
            raise registry.UnknownName(registry.no_such("option", flag, flags))
        elif head in PLACES and [""] in times:
            raise UserError(f"{flag} takes the name of a file or folder; got ''.")
        elif head in NAMES or (head in parts and command != "run"):
            kind = NAMES.get(head, head)
            reserved = (registry.NONE, "None", *registry.RESERVED.get(kind, ()))
            named = [name for values in times for name in values if name not in reserved]
            if command == "run" and "" not in given and named and named[-1] in registry.summaries("study"):
                raise UserError(
                    f"{flag} takes all words after it, so {named[-1]} is read as a {kind}. Put the study first: "
                    f"supple run {named[-1]} {flag} ..."
                )
            for part in (part for name in named for part in (name.split("+") if command == "arena" else [name])):
                check_part(kind, part)
    check_subject(command, *given.get("", [[]])[0][:2])


def check_part(kind: str, name: str) -> None:
    """UnknownName unless something of the kind has that name; a game may be named by its title."""
    if kind != "game":
        registry.check_name(kind, name)
    elif name not in (known := [*GAMES, *registry.summaries(kind)]):
        raise registry.UnknownName(registry.no_such(kind, name, known))


def check_field(kind: str, name: str | None, flag: str) -> None:
    """UnknownName if the part of that name has no such field."""
    entry = registry.entries(kind).get("atari" if name in GAMES else name or "")
    field = flag.split(".")[1].replace("-", "_")
    if entry is not None and field not in entry.fields and flag.count(".") == 1:  # else of a method in a chain
        known = [f"--{kind}.{one.replace('_', '-')}" for one in entry.fields]
        raise registry.UnknownName(registry.no_such(f"option of {name}", flag, known or ["none"]))


def check_subject(command: str, first: str = "", second: str = "") -> None:
    """UnknownName if what the command is about has no such name."""
    if command == "run" and first:
        registry.check_name("study", first)
    if command == "report" and first and os.sep not in first and not Path(first).exists():
        try:
            registry.check_name("study", first)
        except registry.UnknownName as error:
            raise registry.UnknownName(f"there is no folder {first} here, and {error}") from None
    if command == "data" and second not in ("", *registry.RESERVED["dataset"]):
        registry.check_name("dataset", second)
