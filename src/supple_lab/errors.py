"""Errors that say how to go on: the user's to mend (UserError), or from outside a run, which can be continued."""

import os
import sys
from typing import NoReturn


class UserError(Exception):
    """The message says in a sentence what is wrong and what to do; a command prints it and ends with exit code 2."""


class Interrupted(Exception):
    """Something outside the run ended it: no state is written, and a retry continues from the checkpoint."""


COMPUTING_THREAD = "packed run"  # the name of threads that compute, as torch aborts if they outlive the interpreter


class BrokenProcess(Interrupted):
    """This process can execute no run any more; another one can."""


def end_process(error: Interrupted) -> NoReturn:
    """End this process, so that its driver continues the run in another. What broke may hang at an exit."""
    print(error, file=sys.stderr, flush=True)
    os._exit(1)
