"""What a conversion swapped, what it left and why, and what a user should know about the rest."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from supple.activations import BY_CLASS

NUM_PLACES_SHOWN = 4  # the rest is counted; the fields hold them all


@dataclass(frozen=True)
class Entry:
    """One place in the model (a module's path), what is or was there, and what became of it or why nothing did."""

    where: str
    what: str
    how: str


@dataclass(frozen=True)
class ConversionReport:
    """The outcome of ``supple.convert``, printable.

    ``swapped``: every activation and pool put in, by its own path. ``left``: what stayed, and why. ``retyped``: modules
    whose class changed, because functional activations or pools in their forward had to be replaced. ``notes``: what
    works otherwise than one might expect.
    """

    model: str
    activation: str
    pool: str
    swapped: tuple[Entry, ...] = ()
    left: tuple[Entry, ...] = ()
    retyped: tuple[Entry, ...] = ()
    notes: tuple[Entry, ...] = ()
    num_averaged: int = 0  # of those swapped, how many are pools
    steps: tuple[dict[str, Any], ...] = ()  # what was asked for, as plain data, one conversion after the other

    @property
    def has_new_activations(self) -> bool:
        return len(self.swapped) > self.num_averaged

    def after(self, earlier: "ConversionReport") -> "ConversionReport":
        """Return this report with what an earlier conversion of the same model had changed."""
        activations = [report.activation for report in (earlier, self) if report.has_new_activations]
        added = ("swapped", "retyped", "notes", "num_averaged", "steps")
        both: dict[str, Any] = {name: getattr(earlier, name) + getattr(self, name) for name in added}
        pool = "average" if "average" in (earlier.pool, self.pool) else self.pool
        return replace(
            self, activation=", then ".join(dict.fromkeys(activations)) or self.activation, pool=pool, **both
        )

    def why_unchanged(self, others: Mapping[type, int]) -> str:
        """What to tell a user whose model stayed as it was; empty if it changed or was converted before."""
        if self.swapped or any(entry.how.startswith("already") for entry in self.left):
            return ""
        message = f"convert changed nothing in {self.model}: it found nothing to replace"
        bounded = {cls for cls in others if BY_CLASS[cls].bounded}  # often gates, which convert should not replace
        shown = {cls: n for cls, n in others.items() if cls not in bounded} or others
        names = ", ".join(f"nn.{cls.__name__}" for cls in shown)
        if names:
            message += f" but has {', '.join(f'{n} {cls.__name__}' for cls, n in shown.items())}. "
            return f"{message}To replace them name their classes, as in convert(model, ..., replace=({names},))."
        return f"{message}. print(supple.conversion_report(model)) lists what was left, and why."

    def __str__(self) -> str:
        verb = "converted" if self.has_new_activations else "has no activation converted"
        lines = [f"{self.model} {verb} to {self.activation}, max-pools: {self.pool}"]
        sections = {"Swapped": self.swapped, "Left": self.left, "Class changed": self.retyped, "Notes": self.notes}
        for name, entries in sections.items():
            lines += [f"{name}:", *grouped(entries, " -> " if name == "Swapped" else ": ")] if entries else []
        return "\n".join(lines)


def grouped(entries: Sequence[Entry], joint: str) -> list[str]:
    """A line for each thing and its fate, with the number and the first of its places."""
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for entry in entries:
        places[entry.what, entry.how].append(entry.where or "the model itself")
    lines = []
    for (what, how), where in places.items():
        shown, more = ", ".join(where[:NUM_PLACES_SHOWN]), len(where) - NUM_PLACES_SHOWN
        lines.append(f"  {len(where)} x {what}{joint}{how} [{shown}{f' and {more} more' if more > 0 else ''}]")
    return lines
