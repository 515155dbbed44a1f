"""The claims as a table: what the paper says beside what was measured, and what must be known to read it."""

from collections.abc import Sequence

from supple_lab.report.figure import ClaimRow, Table
from supple_lab.report.select import REPORTED_SEEDS
from supple_lab.report.tables import ABSENT, show_interval

CAPTION = "Claims of the paper and what was measured; 95% intervals of the mean over seeds."
SELECTED = f"Some settings were selected on {REPORTED_SEEDS}, so that their methods look better than they are."


def claims_table(claims: Sequence[ClaimRow], *, notes: Sequence[str] = (), brief: bool = False) -> Table:
    """A row a claim; notes: the study's, which the caption points to; brief: without lists of the parts."""
    return Table(
        name="claims",
        caption=caption_with(notes),
        header=("claim", "section", "paper", "measured", "95% interval", "n", "verdict"),
        rows=tuple(
            (
                row.claim,
                row.section or ABSENT,
                row.paper,
                (row.brief if brief else row.measured) or ABSENT,
                show_interval(row.interval),
                str(row.n),
                row.verdict,
            )
            for row in claims
        ),
    )


def caption_with(notes: Sequence[str]) -> str:
    """The caption, and what the notes say that a verdict must not be read without."""
    selected = [SELECTED] if any(REPORTED_SEEDS in note for note in notes) else []
    number = "A note" if len(notes) == 1 else f"{len(notes)} notes"
    told = [f"{number} on the study's page tell{'s' * (len(notes) == 1)} what differs from the paper."] if notes else []
    return " ".join([CAPTION, *selected, *told])
