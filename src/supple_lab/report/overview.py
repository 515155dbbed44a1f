"""Overview: the studies whose reports lie in one folder, on one self-contained page."""

import base64
import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from supple_lab.report.about import About
from supple_lab.report.colours import DARK_PAGE, LIGHT_PAGE
from supple_lab.report.figure import Drawing, Verdict
from supple_lab.report.page import VERDICT_SIGNS
from supple_lab.report.plots.picture import thumbnail
from supple_lab.report.results import Results
from supple_lab.report.templates import template


@dataclass(frozen=True, kw_only=True)
class Card:
    """A study on the overview."""

    study: str
    title: str
    question: str
    scale: str
    num_finished: int
    num_runs: int
    verdicts: dict[Verdict, int]
    picture: str  # a small PNG in base 64; empty for a study without figures


def card_of(about: About, results: Results, drawing: Drawing) -> Card:
    """What the overview says of a study."""
    counts = Counter(row.verdict for row in drawing.claims)
    return Card(
        study=about.study,
        title=about.title,
        question=about.question,
        scale=about.scale,
        num_finished=len(results.finished),
        num_runs=len(results.runs),
        verdicts={verdict: counts[verdict] for verdict in VERDICT_SIGNS if counts[verdict]},
        picture=base64.b64encode(thumbnail(drawing.figures[0])).decode() if drawing.figures else "",
    )


def card_json(card: Card) -> str:
    """The card as it lies beside the reports, so that the overview needs no other study's runs."""
    return json.dumps(asdict(card), indent=1, ensure_ascii=False) + "\n"


def cards_in(folder: Path) -> list[Card]:
    """The cards of all studies with a report in the folder, by name; one that cannot be read is left out."""
    cards = []
    for path in sorted((folder / "cards").glob("*.json")):
        try:
            cards.append(Card(**json.loads(path.read_bytes())))
        except (ValueError, TypeError):
            continue  # written by another version: its own report makes it anew
    return cards


def overview(cards: list[Card]) -> str:
    """The whole file as text."""
    views = [
        {
            "card": card,
            "verdicts": [
                {
                    "number": number,
                    "verdict": verdict,
                    "sign": VERDICT_SIGNS[verdict],
                    "kind": verdict.replace(" ", "-"),
                }
                for verdict, number in card.verdicts.items()
            ],
        }
        for card in cards
    ]
    return template("overview.html").render(views=views, light_page=LIGHT_PAGE, dark_page=DARK_PAGE)
