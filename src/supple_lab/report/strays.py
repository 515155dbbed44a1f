"""Strays: folders among a store's runs whose name is not their run's: copies, renamed runs, what cannot be told."""

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
    """Folders that hold a wanted run under another name, or that have no run's name and cannot be read."""
    try:
        with os.scandir(root / "runs") as found:
            names = sorted(item.name for item in found if item.is_dir() and item.name not in wanted)
    except FileNotFoundError:
        return ()
    strays = (stray_of(root / "runs", name, wanted) for name in names)
    return tuple(stray for stray in strays if stray is not None)


def stray_of(runs: Path, name: str, wanted: Container[str]) -> Stray | None:
    """What the folder holds; None for a run that nobody asked for, which may lie under its own name."""
    written = read_object(runs / name / "spec.json")
    if not written:
        return None if RUN_ID.fullmatch(name) else Stray(folder=name, run="")
    original = runs / id_of(written)
    if original.name not in wanted:
        return None
    return Stray(
        folder=name,
        run=original.name,
        has_original=original.is_dir(),
        same_records=same_files(original / LOGS[0], runs / name / LOGS[0]),
    )


def same_files(one: Path, other: Path) -> bool:
    """Whether both can be read and hold the same."""
    try:
        return digest(one) == digest(other)
    except OSError:
        return False
