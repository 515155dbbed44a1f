"""Command: one subcommand of `supple`, its options as fields, its exit code as result."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

DONE, FAILED, BAD_USAGE = 0, 1, 2


class BadUsage(Exception):
    """What was asked cannot be done; the message says why and what can."""


@dataclass(frozen=True, kw_only=True)
class Command(ABC):
    """A frozen dataclass in every subclass; the command line is made from its fields and their docstrings."""

    plugin: Path | None = None
    """One Python file of yours: methods (or models, scenarios, ...) in it are found by their names, as our own."""

    @abstractmethod
    def obey(self) -> int:
        """Do it; the exit code."""
