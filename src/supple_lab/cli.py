"""The command line. Exit code 0: done, 1: runs failed (named), 2: bad usage."""

import os
import sys
from typing import Annotated

import tyro

from supple.version import __version__
from supple_lab.atomic_write import StorageError
from supple_lab.commands.base import BAD_USAGE, DONE, FAILED, BadUsage
from supple_lab.commands.bench import Bench
from supple_lab.commands.list import List
from supple_lab.commands.report import Report
from supple_lab.commands.run import Run
from supple_lab.lookup import UnknownName

Commands = (
    Annotated[Run, tyro.conf.subcommand(name="run")]
    | Annotated[Report, tyro.conf.subcommand(name="report")]
    | Annotated[List, tyro.conf.subcommand(name="list")]
    | Annotated[Bench, tyro.conf.subcommand(name="bench")]
)


def main() -> None:
    """Entry point of the `supple` script."""
    try:
        sys.exit(supple(sys.argv[1:]))
    except BrokenPipeError:  # whoever reads our output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(DONE)


def supple(arguments: list[str]) -> int:
    """Obey one command line; the exit code."""
    if arguments == ["--version"]:
        print(f"supple {__version__}")
        return DONE
    command = tyro.cli(
        Commands,
        prog="supple",
        args=arguments or ["--help"],
        description=DESCRIPTION,
        config=(tyro.conf.FlagCreatePairsOff,),
    )
    try:
        return command.obey()
    except (UnknownName, BadUsage, StorageError) as error:
        print(f"supple: {error}", file=sys.stderr)
        return BAD_USAGE
    except KeyboardInterrupt:
        print("supple: interrupted; the same command continues.", file=sys.stderr)
        return FAILED


DESCRIPTION = "The laboratory of supple: run the experiments of the AID paper, and report what came out."
