"""Inline: each run in this very process, one after the other, so that a debugger works."""

from concurrent.futures import Future

from supple_lab.runs.run_folder import State
from supple_lab.runs.spec import RunSpec
from supple_lab.sweep.attempts import execute_here
from supple_lab.sweep.executor import Executor


class Inline(Executor):
    """Runs one after the other in this process, for a debugger."""

    name = "inline"
    can_limit = False

    def submit(self, spec: RunSpec) -> Future[State]:
        future: Future[State] = Future()
        try:
            future.set_result(execute_here(spec, self))
        except Exception as error:  # told by whoever asks the future, as with every other engine
            future.set_exception(error)
        return future
