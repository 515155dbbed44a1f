"""Command lines in processes of their own: what a plugin defines stays in the process that read it.

They are forked from one that has imported the packages and no test.
"""

import multiprocessing
import os
import sys
from pathlib import Path
from typing import NamedTuple

from supple_lab import cli

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["supple", "supple_lab.commands.arena", "supple_lab.cli"])


class Done(NamedTuple):
    returncode: int | None
    stdout: str
    stderr: str


def supple_alone(folder: Path, *arguments: str) -> Done:
    """Execute `supple` with these arguments in the folder."""
    logs = folder / "stdout", folder / "stderr"
    process = SERVER.Process(target=command_line, args=(folder, logs, arguments))
    process.start()
    process.join()
    return Done(process.exitcode, *(log.read_text() for log in logs))


def command_line(folder: Path, logs: tuple[Path, ...], arguments: tuple[str, ...]) -> None:
    os.chdir(folder)
    sys.argv = ["supple", *arguments]
    for number, log in enumerate(logs, start=1):
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT), number)
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    cli.main()
