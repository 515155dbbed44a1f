"""Tracker: a program outside the laboratory that is told what a run records. It changes no number."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

Kind = Literal["stage", "epoch"]


class TrackerMissing(Exception):
    """The tracker cannot be used here; the message says what to install."""


class Tracker(ABC):
    """Told each record of one run once, from the first on.

    A run that is continued gets a new tracker, which is told again what the run still stands on: what an earlier one
    left of the run is out of date, and the new one begins by replacing it.
    """

    name: ClassVar[str]

    @abstractmethod
    def __init__(self, folder: Path, spec: Mapping[str, Any]) -> None:
        """Begin anew for the run of that spec; files of the tracker's own go into a folder of its own below."""

    @classmethod  # noqa: B027
    def check_installed(cls) -> None:
        """Raise TrackerMissing where a package that the tracker needs is not there."""

    @abstractmethod
    def record(self, kind: Kind, values: Mapping[str, float]) -> None:
        """Take what a stage or an epoch ended with."""

    @abstractmethod
    def close(self) -> None:
        """Nothing more will come; what was told must last."""
