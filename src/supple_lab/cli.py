"""The command line. Exit code 0: done, 1: runs failed (named) or the disk is full, 2: bad usage.

Help and an unknown command are answered from the registry, before a command, and with it torch, is imported.
"""

import importlib
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any

from supple_lab import registry
from supple_lab.commands.base import BAD_USAGE, DONE, FAILED, Command, grouped, values_of, with_device
from supple_lab.commands.terminal import patient, refusals_as_sentences
from supple_lab.errors import COMPUTING_THREAD, UserError, heed_sigterm_
from supple_lab.files import DiskFull

ORDER = ("run", "train", "play", "report", "arena", "list", "bench", "data")  # of the help; others follow
DESCRIPTION = "The laboratory of supple: run the experiments of the AID paper, and report what came out."


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
    entry = commands[name]
    command: Any = getattr(importlib.import_module(entry.module), entry.cls)
    return with_device(command.read(grouped(rest)))
