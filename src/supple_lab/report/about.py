"""About: what a report must know of its study besides the results."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class About:
    """Which study was run, at which scale, by which command."""

    study: str  # its name, also the stem of its page and its JSON file
    title: str
    question: str
    scale: str
    command: str  # typed again, it gives the same runs
    notes: tuple[str, ...] = ()  # what sets these runs apart from the paper's protocol

    def stem(self, name: str) -> str:
        """A figure's or table's file name without its ending: studies in one folder do not overwrite each other."""
        return name if name == self.study or name.startswith(f"{self.study}_") else f"{self.study}_{name}"
