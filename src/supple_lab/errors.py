"""Interrupted: what ended a run from outside it, so that the same run, taken up again, may well go on."""

import os
import sys
from typing import NoReturn


class Interrupted(Exception):
    """The run was ended by something outside it: no state is written, it goes on from its checkpoint when retried."""


class BrokenProcess(Interrupted):
    """This process can execute no run any more; another one can."""


def end_process(error: Interrupted) -> NoReturn:
    """Let whoever started this process start another one and continue the run there. What broke may hang at an exit."""
    print(error, file=sys.stderr, flush=True)
    os._exit(1)
