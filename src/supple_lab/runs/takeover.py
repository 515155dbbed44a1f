"""Takeover: a run whose holder may be dead, but not so that this machine could tell at once, is watched for a while."""

import time
from collections.abc import Callable
from pathlib import Path

from supple_lab.runs import lease

SECONDS_BETWEEN_LOOKS = 1.0


def await_silent_holder(folder: Path, *, tell: Callable[[str], None]) -> None:
    """Wait while a holder elsewhere is silent, and free the run of one that is dead. Says what it waits for.

    It returns at once where there is nothing to wait for, and as soon as the holder shows life: then the run is busy.
    """
    watch = lease.LeaseWatch(folder)
    if watch.seen is None or lease.standing(watch.seen) != "unknown":
        return
    tell(
        f"run {folder.name} is held by a process of another machine, or of this one before it was restarted "
        f"({watch.seen.who}); it is taken over in {lease.SECONDS_TO_DEATH:.0f} s unless that process shows life."
    )
    while not watch.broke() and not watch.has_changed:
        time.sleep(SECONDS_BETWEEN_LOOKS)
