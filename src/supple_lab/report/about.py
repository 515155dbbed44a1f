"""About: what a report must know of its study besides the results."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class About:
    """Which study was run, at which scale, by which command."""

    study: str  # its name, also the stem of its JSON file
    title: str
    question: str
    scale: str
    command: str  # typed again, it gives the same runs
