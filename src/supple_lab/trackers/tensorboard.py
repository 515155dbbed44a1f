"""TensorBoard: a run's curves as event files in RUN/tensorboard; `tensorboard --logdir OUT/runs` shows them all."""

import json
import os
from collections import Counter
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from supple_lab.trackers.base import Kind, Tracker, TrackerMissing

SECONDS_BETWEEN_FLUSHES = 10  # onlookers are no more patient; the package's own 120 are for many small values
PLACES = ("stage", "epoch")  # values that say where a record stands; the step does


class TensorBoard(Tracker):
    """Event files for TensorBoard, in the run's folder."""

    name = "tensorboard"

    def __init__(self, folder: Path, spec: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter  # needs a package that not everybody has

        own = folder / "tensorboard"
        for old in own.glob("events.out.tfevents.*"):
            os.truncate(old, 0)  # not removed: a TensorBoard that has it open would never look at another
        # purge_step: what an open TensorBoard has read of the old file, it forgets when the new one says so.
        self._writer = SummaryWriter(str(own), purge_step=0, flush_secs=SECONDS_BETWEEN_FLUSHES)
        self._writer.add_text("spec", f"```json\n{json.dumps(spec, indent=1)}\n```")
        self._num_told: Counter[Kind] = Counter()

    @classmethod
    def check_installed(cls) -> None:
        if find_spec("tensorboard") is None:
            raise TrackerMissing(
                "--track tensorboard needs the package tensorboard: pip install -e '.[tensorboard]' in a checkout."
            )

    def record(self, kind: Kind, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            if name not in PLACES:
                self._writer.add_scalar(f"{kind}/{name}", value, self._num_told[kind])
        self._num_told[kind] += 1

    def close(self) -> None:
        self._writer.close()
