"""Overview: the studies whose reports lie in one folder, on one self-contained page."""

import base64
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from supple_lab.report.colours import DARK_PAGE, LIGHT_PAGE
from supple_lab.report.draw import thumbnail
from supple_lab.report.figure import ClaimRow, StudyReport, Verdict
from supple_lab.report.page import VERDICT_SIGNS, kind_of, template
from supple_lab.report.study_json import ReportInfo
from supple_lab.report.tables import minus, selection_of
from supple_lab.results.results import Results


@dataclass(frozen=True, kw_only=True)
class Card:
    """A study on the overview."""

    study: str
    title: str
    question: str
    scale: str
    num_finished: int
    num_runs: int
    claims: list[dict[str, str]]  # claim, section, measured, selection, verdict; in the order of the study's page
    num_damaged: int = 0
    picture: str = ""  # a small PNG in base 64; empty for a study without figures

    def __post_init__(self) -> None:
        if any(claim["verdict"] not in VERDICT_SIGNS for claim in self.claims):
            raise ValueError(f"a verdict is one of {', '.join(VERDICT_SIGNS)}.")


def card_of(about: ReportInfo, results: Results, drawing: StudyReport) -> Card:
    """What the overview says of a study."""
    return Card(
        study=about.study,
        title=about.title,
        question=about.question,
        scale=about.scale,
        num_finished=len(results.finished),
        num_runs=len(results.runs),
        num_damaged=sum(run.state == "damaged" for run in results.runs),
        claims=[claim_of(row, notes=(*about.notes, *drawing.notes)) for row in drawing.claims],
        picture=base64.b64encode(thumbnail(drawing.figures[0])).decode() if drawing.figures else "",
    )


def claim_of(row: ClaimRow, *, notes: Sequence[str]) -> dict[str, str]:
    """What the overview says of a claim: as the page has it, without what only the page has room for."""
    told = {"claim": row.claim, "section": row.section, "measured": row.brief, "verdict": row.verdict}
    return {**told, "selection": selection_of(row, notes)}


def card_json(card: Card) -> str:
    """The card as it lies beside the reports, so that the overview needs no other study's runs."""
    return json.dumps(asdict(card), indent=1, ensure_ascii=False) + "\n"


def cards_in(folder: Path) -> list[Card]:
    """The cards of all studies with a report in the folder, by name; one that cannot be read is left out."""
    cards = []
    for path in sorted((folder / "cards").glob("*.json")):
        try:
            cards.append(Card(**json.loads(path.read_bytes())))
        except (ValueError, TypeError, KeyError, RecursionError):
            continue  # written by another version: its own report makes it anew
    return cards


def overview(cards: list[Card]) -> str:
    """The whole file as text."""
    counts = Counter(claim["verdict"] for card in cards for claim in card.claims)
    return template("overview.html").render(
        views=[{"card": card, "claims": [_claim_view(claim) for claim in card.claims]} for card in cards],
        verdicts=[_verdict_view(verdict, counts[verdict]) for verdict in VERDICT_SIGNS if counts[verdict]],
        num_claims=counts.total(),
        light_page=LIGHT_PAGE,
        dark_page=DARK_PAGE,
    )


def _claim_view(claim: dict[str, Any]) -> dict[str, Any]:
    return {"selection": "", **claim, "measured": minus(claim["measured"]), **_verdict_view(claim["verdict"], 1)}


def _verdict_view(verdict: Verdict, number: int) -> dict[str, Any]:
    return {"verdict": verdict, "kind": kind_of(verdict), "sign": VERDICT_SIGNS[verdict], "number": number}
