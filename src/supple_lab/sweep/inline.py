"""Inline: each run in this very process, one after the other, so that a debugger works."""

from concurrent.futures import Future

from supple_lab.runs.run import execute
from supple_lab.runs.run_folder import State
from supple_lab.runs.spec import RunSpec
from supple_lab.sweep.executor import Executor


class Inline(Executor):
    """Runs one after the other in this process, for a debugger."""

    name = "inline"
    can_limit = False

    def submit(self, spec: RunSpec) -> Future[State]:
        future: Future[State] = Future()
        try:
            terms = self.terms
            state = execute(
                spec, self.store, device=self.device, pace=terms.pace, track=terms.track, settled=terms.settled
            )
            future.set_result(state)
        except Exception as error:  # told by whoever asks the future, as with every other engine
            future.set_exception(error)
        return future
