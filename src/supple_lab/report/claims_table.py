"""The claims as a table: what the paper says beside what was measured, and what must be known to read it."""

from collections.abc import Sequence

from supple_lab.report.figure import ClaimRow, Table
from supple_lab.report.select import REPORTED_SEEDS
from supple_lab.report.tables import ABSENT, show_interval

CAPTION = "Claims of the paper and what was measured; 95% intervals of the mean over seeds."
SELECTED = f"Some settings were selected on {REPORTED_SEEDS}, so that their methods look better than they are."


def claims_table(claims: Sequence[ClaimRow], *, notes: Sequence[str] = ()) -> Table:
    """A row a claim; notes: the study's."""
    return Table(
        name="claims",
        caption=caption_with(notes),
        header=("claim", "section", "paper", "measured", "95% interval", "n", "verdict", "rule set", "note"),
        rows=tuple(
            (
                row.claim,
                row.section or ABSENT,
                row.paper,
                row.told or ABSENT,
                show_interval(row.interval),
                str(row.n),
                row.verdict,
                row.rule_set or ABSENT,
                selection_of(row, notes) or ABSENT,
            )
            for row in claims
        ),
    )


def printed_claims(claims: Sequence[ClaimRow], *, notes: Sequence[str] = ()) -> Table:
    """The same for a page of paper, which has room for four columns: without lists of the parts; the caption notes."""
    return Table(
        name="claims",
        caption=caption_with(notes),
        header=("claim", "the paper says", "measured", "verdict"),
        rows=tuple((row.claim, _said(row), _measured(row), _decided(row)) for row in claims),
    )


def _decided(row: ClaimRow) -> str:
    return f"{row.verdict} (rule set {row.after_data})" if row.after_data else row.verdict


def _said(row: ClaimRow) -> str:
    return f"{row.paper} ({row.section})" if row.section else row.paper


def _measured(row: ClaimRow) -> str:
    interval = f"95% interval {show_interval(row.interval)}" if row.interval else ""
    return "; ".join(part for part in (row.brief, interval, f"n = {row.n}" if row.n else "") if part) or ABSENT


def selection_of(row: ClaimRow, notes: Sequence[str]) -> str:
    """What a claim's verdict must not be read without, where settings were selected on its seeds; else nothing."""
    return f"some settings were selected on {REPORTED_SEEDS}" if row.n and on_reported_seeds(notes) else ""


def on_reported_seeds(notes: Sequence[str]) -> bool:
    """Whether a study's notes tell of a selection on the seeds that are reported."""
    return any(REPORTED_SEEDS in note for note in notes)


def caption_with(notes: Sequence[str]) -> str:
    """The caption, and what the notes say that a verdict must not be read without."""
    selected = [SELECTED] if on_reported_seeds(notes) else []
    number = "A note" if len(notes) == 1 else f"{len(notes)} notes"
    told = [f"{number} on the study's page tell{'s' * (len(notes) == 1)} what differs from the paper."] if notes else []
    return " ".join([CAPTION, *selected, *told])
