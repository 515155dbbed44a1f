"""The words of the paper's claims, as claims.py has them, and where its numbers may stand beside ours."""

from dataclasses import replace

from supple_lab.report.figure import ClaimRow, Table
from supple_lab.report.verdict import Words
from supple_lab.studies.claims import claim_named
from supple_lab.studies.order import Order

PAPERS_NUMBER = "not decided: the paper's number belongs to the paper's scale"


def words_of(key: str) -> Words:
    """What is said of a claim besides the numbers, to be handed to report/verdict.py."""
    claim = claim_named(key)
    return Words(claim=claim.claim, paper=claim.paper, section=claim.section, study=claim.study, rule=claim.test)


def at_paper_scale(row: ClaimRow, order: Order) -> ClaimRow:
    """The row of a claim whose threshold is a number of the paper: at other scales it says what was measured alone."""
    if order.scale == "paper" or row.verdict == "not run":
        return row
    return replace(row, verdict="not decided", measured=f"{row.measured}; {PAPERS_NUMBER}", chance=1.0)


def beside_the_paper(table: Table, order: Order) -> Table:
    """The table without the paper's numbers at other scales than its own: they are of its networks and data."""
    if order.scale == "paper":
        return table
    ours = [place for place, name in enumerate(table.header) if not name.endswith("paper")]
    return table.part(rows=range(len(table.rows)), columns=ours)
