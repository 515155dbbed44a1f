"""Strays: folders among a store's runs whose name is no run's: copies, renamed runs, and what cannot be told."""

import os
import re
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from supple_lab.report.written_spec import id_of
from supple_lab.runs.quarantine import LOGS, digest, read_object

RUN_ID = re.compile("[0-9a-f]{16}")


@dataclass(frozen=True, kw_only=True)
class Stray:
    """A folder that counts for nothing."""

    folder: str
    run: str  # the run whose spec it holds; empty where that cannot be read
    has_original: bool = False
    same_records: bool = False

    def words(self) -> str:
        """What it is, and what to do."""
        if not self.run:
            return f"runs/{self.folder} is no run: its spec cannot be read."
        if not self.has_original:
            return f"runs/{self.folder} is run {self.run} under another name: call it runs/{self.run} to have it count."
        records = "the same records" if self.same_records else "other records"
        return (
            f"runs/{self.folder} is a copy of run {self.run} with {records}; the run counts once, from runs/{self.run}."
        )


def strays_in(root: Path, wanted: Container[str]) -> tuple[Stray, ...]:
    """Folders without a run's name that hold a wanted run, or that cannot be read."""
    try:
        with os.scandir(root / "runs") as found:
            names = sorted(item.name for item in found if item.is_dir() and not RUN_ID.fullmatch(item.name))
    except FileNotFoundError:
        return ()
    strays = (stray_of(root / "runs", name) for name in names)
    return tuple(stray for stray in strays if not stray.run or stray.run in wanted)


def stray_of(runs: Path, name: str) -> Stray:
    """What the folder holds."""
    written = read_object(runs / name / "spec.json")
    if not written:
        return Stray(folder=name, run="")
    original = runs / id_of(written)
    return Stray(
        folder=name,
        run=original.name,
        has_original=original.is_dir(),
        same_records=digest(original / LOGS[0]) == digest(runs / name / LOGS[0]),
    )
