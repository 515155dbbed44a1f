"""The command line. Exit code 0: done, 1: runs failed (named), 2: bad usage."""

import os
import sys
import threading
from dataclasses import dataclass
from typing import Annotated

import tyro

from supple_lab.commands.base import BAD_USAGE, FAILED, BadUsage, Command
from supple_lab.commands.bench import Bench
from supple_lab.commands.data import Data
from supple_lab.commands.form import values_of
from supple_lab.commands.list import List
from supple_lab.commands.messages import outlive_readers_, refusals_told
from supple_lab.commands.one_run import OneRun
from supple_lab.commands.play import Play
from supple_lab.commands.report import Report
from supple_lab.commands.run import Run
from supple_lab.commands.train import Train
from supple_lab.data.base import DataError
from supple_lab.errors import heed_sigterm_
from supple_lab.files import StorageError
from supple_lab.registry import UnknownName, use_plugin
from supple_lab.scenarios.base import Unsuitable
from supple_lab.sweep.packed import THREAD_NAME


@dataclass(frozen=True)
class ReadElsewhere:
    """A command whose options depend on the parts that are named: to the parser of all commands it is but a name."""


Commands = (
    Annotated[Run, tyro.conf.subcommand(name="run")]
    | Annotated[ReadElsewhere, tyro.conf.subcommand(name=Train.verb, description=Train.__doc__)]
    | Annotated[ReadElsewhere, tyro.conf.subcommand(name=Play.verb, description=Play.__doc__)]
    | Annotated[Report, tyro.conf.subcommand(name="report")]
    | Annotated[List, tyro.conf.subcommand(name="list")]
    | Annotated[Bench, tyro.conf.subcommand(name="bench")]
    | Annotated[Data, tyro.conf.subcommand(name="data")]
)
ONE_RUN: tuple[type[OneRun], ...] = (Train, Play)


def main() -> None:
    """Obey the command line of this process, and end it."""
    outlive_readers_()
    heed_sigterm_()
    sys.exit(supple(sys.argv[1:]))


def supple(arguments: list[str]) -> int:
    """Obey one command line; the exit code."""
    try:
        with refusals_told():
            return command_of(arguments).obey()
    except (UnknownName, BadUsage, Unsuitable, StorageError, DataError) as error:
        print(f"supple: {error}", file=sys.stderr)
        return BAD_USAGE
    except KeyboardInterrupt as error:
        print(f"supple: {str(error) or 'interrupted'}; the same command continues.", file=sys.stderr)
        if any(thread.name == THREAD_NAME for thread in threading.enumerate()):
            sys.stdout.flush()
            os._exit(FAILED)  # torch aborts when threads that compute outlive the interpreter
        return FAILED


def command_of(arguments: list[str]) -> Command:
    """The command that the arguments spell, or the parser's own exit."""
    use_plugin(*values_of("--plugin", arguments))  # first, for what it defines may be named by other options
    for one_run in ONE_RUN:
        if arguments[:1] == [one_run.verb]:
            return one_run.read(arguments[1:], CONFIG)
    command = tyro.cli(Commands, prog="supple", args=arguments or ["--help"], description=DESCRIPTION, config=CONFIG)
    assert isinstance(command, Command), "the commands of one run have been read above"
    return command


CONFIG = (tyro.conf.FlagCreatePairsOff,)
DESCRIPTION = "The laboratory of supple: run the experiments of the AID paper, and report what came out."
