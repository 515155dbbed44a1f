"""CheckpointInterval: how often a run writes a checkpoint, and how much of its time that may take."""

import torch

from small_games import chain_spec
from supple_lab.run import recorder
from supple_lab.run.recorder import MAX_SHARE_OF_TIME, CheckpointInterval, Journal
from supple_lab.store.store import Store


class Clock:
    """Time that passes only when it is told to."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


def test_what_a_snapshot_takes_counts_as_the_time_of_its_checkpoint(tmp_path, monkeypatch):
    clock, taken = Clock(), []
    monkeypatch.setattr(recorder, "time", clock)
    folder = Store.create(tmp_path).folder(chain_spec())
    folder.create(chain_spec())
    with folder.held(chain_spec()):
        journal = Journal(folder, torch.device("cpu"), CheckpointInterval(seconds=10.0))

        def slow_snapshot() -> dict[str, int]:
            clock.now += 1.0
            taken.append(clock.now)
            return {}

        for _ in range(100):
            clock.now += 1.0
            journal.checkpoint_if_due(slow_snapshot)
    assert taken[0] == 1011.0  # after ten seconds, and one of its own
    pause = taken[1] - taken[0]
    assert pause >= 1.0 / MAX_SHARE_OF_TIME
