"""Overview: the studies whose reports lie in one folder, on one self-contained page."""

import json
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path

from supple_lab.report.figure import StudyReport
from supple_lab.report.page import VERDICT_SIGNS, template
from supple_lab.report.study_json import ReportInfo
from supple_lab.report.tables import selection_of
from supple_lab.results.results import Results


@dataclass(frozen=True, kw_only=True)
class Card:
    """A study on the overview. Its JSON lies beside the reports, so that the overview needs no other study's runs."""

    study: str
    title: str
    question: str
    scale: str
    num_finished: int
    num_runs: int
    claims: list[dict[str, str]]  # claim, section, measured, selection, verdict; in the order of the study's page
    num_damaged: int = 0

    def __post_init__(self) -> None:
        if any(claim["verdict"] not in VERDICT_SIGNS for claim in self.claims):
            raise ValueError(f"a verdict is one of {', '.join(VERDICT_SIGNS)}.")


def card_of(info: ReportInfo, results: Results, report: StudyReport) -> Card:
    """What the overview says of a study: its claims without what only the page has room for."""
    return Card(
        study=info.study,
        title=info.title,
        question=info.question,
        scale=info.scale,
        num_finished=len(results.finished),
        num_runs=len(results.runs),
        num_damaged=sum(run.state == "damaged" for run in results.runs),
        claims=[
            {
                "claim": row.claim,
                "section": row.section,
                "measured": row.brief,
                "verdict": row.verdict,
                "selection": selection_of(row, (*info.notes, *report.notes)),
            }
            for row in report.claims
        ],
    )


def cards_in(folder: Path) -> list[Card]:
    """The cards of all studies with a report in the folder, by name; one that cannot be read is left out."""
    cards = []
    for path in sorted((folder / "cards").glob("*.json")):
        try:
            content = json.loads(path.read_bytes())
            cards.append(Card(**{one.name: content[one.name] for one in fields(Card) if one.name in content}))
        except (ValueError, TypeError, KeyError, RecursionError):
            continue  # no card of this version or one before: its report replaces it
    return cards


def overview(cards: list[Card]) -> str:
    found = Counter(claim["verdict"] for card in cards for claim in card.claims)
    counts = {verdict: found[verdict] for verdict in VERDICT_SIGNS if found[verdict]}
    return template("overview.html").render(cards=cards, counts=counts, num_claims=found.total())
