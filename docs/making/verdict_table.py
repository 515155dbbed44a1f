"""The table of docs/verdicts.md, a row for each claim of the paper, from the published reports; its counts in index.md.

python docs/making/verdict_table.py, after a report was published or a rule has changed; then draw.py verdicts
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from supple_lab.paper.register import STUDIES, registered_claims
from supple_lab.report.figure import Verdict
from supple_lab.report.page import VERDICT_SIGNS

DOCS = Path(__file__).parent.parent
BEGIN, END = "<!-- by docs/making/verdict_table.py -->", "<!-- end -->"
COUNTED: dict[Verdict, str] = {
    "holds": "hold",
    "fails": "fail",
    "not decided": "open",
    "not run": "not run",
}  # of comparisons
# A rival, a number with its spread, what it is, and the question that it answers.
MEASURED = re.compile(
    r"(?:closest, (?P<rival>.+?): )?(?P<value>-?\d[\d.]*(?: ± [\d.]+)?): (?P<what>.+?) \((?P<asked>.+?)\)"
)
HEADER = (
    "| claim of the paper (section) | verdict | comparisons | the weakest comparison | ours ± sd | 95% | n |",
    "|---|---|---|---|---|---|--:|",
)
Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """One comparison that a claim rests on."""

    name: str
    found: Json


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A claim of the paper with what the published runs say of it."""

    study: str
    claim: str
    section: str
    verdict: Verdict
    leaves: tuple[Leaf, ...]  # none if no report has the claim

    @property
    def counts(self) -> Counter[Verdict]:
        """How many comparisons have which verdict."""
        return Counter(leaf.found["verdict"] for leaf in self.leaves)

    @property
    def weakest(self) -> Leaf | None:
        """Of those that ran, the surest to fail; if none fails, the least sure to hold; the first of equals.

        Of times, whose chance is 0, it is the one nearest to the threshold, 0.
        """
        ran = [leaf for leaf in self.leaves if leaf.found["verdict"] != "not run"]
        failing = [leaf for leaf in ran if leaf.found["verdict"] == "fails"]
        if failing:
            return min(failing, key=lambda leaf: float(leaf.found["chance"]))
        return max(ran, key=doubt, default=None)


def doubt(leaf: Leaf) -> tuple[float, float]:
    """The greater, the less sure."""
    chance, value = float(leaf.found["chance"]), MEASURED.match(leaf.found["measured"])
    if chance or value is None:
        return chance, leaf.found["n"]
    return chance, -abs(float(value["value"].partition(" ")[0]))


def judged_claims() -> list[Judged]:
    """Every claim that has a rule, in the paper's order, without the checks of our own formulas."""
    found = {(row["study"], row["claim"]): row for row in published_rows()}
    judged = []
    for study, claim in registered_claims(STUDIES).values():
        if claim.is_papers:
            row = found.get((study, claim.claim), {"verdict": "not run", "parts": [], "n": 0})
            leaves = tuple(leaves_of(row)) if row["n"] else ()
            section = claim.section.partition(" ")[0]
            told = Judged(study=study, claim=claim.claim, section=section, verdict=row["verdict"], leaves=leaves)
            judged.append(told)
    return judged


def published_rows() -> Iterator[Json]:
    """The claims of all published reports."""
    for path in sorted((DOCS / "results").glob("*/*.json")):
        if path.stem == path.parent.name:
            yield from json.loads(path.read_bytes()).get("claims", ())


def leaves_of(row: Json, above: str = "") -> Iterator[Leaf]:
    """What a claim rests on in the end, each named with the parts that it belongs to."""
    own = row.get("name", "")
    name = own if above in own else f"{above}: {own}"
    if not row["parts"]:
        yield Leaf(name=name, found=row)
    for part in row["parts"]:
        yield from leaves_of(part, name)


def counts() -> str:
    """How many claims have which verdict."""
    claims = judged_claims()
    found = Counter(claim.verdict for claim in claims)
    return f"{len(claims)} claims: {', '.join(f'{found[verdict]} {badge(verdict)}' for verdict in COUNTED)}."


def table() -> str:
    """How many claims have which verdict, and the row of each."""
    claims = judged_claims()
    rows = [line(claim) for claim in claims if claim.verdict != "not run"]
    rest = [claim for claim in claims if claim.verdict == "not run"]
    waiting = [not_run(study, list(some)) for study, some in groupby(rest, key=lambda claim: claim.study)]
    return "\n".join([counts(), "", *HEADER, *rows, *waiting])


def line(claim: Judged) -> str:
    """The row of a claim for which something was run."""
    page, counts = f"results/{claim.study}.md", claim.counts
    parts = ", ".join(f"{counts[verdict]} {word}" for verdict, word in COUNTED.items() if counts[verdict])
    cells = [f"[{claim.claim}]({page}) ({claim.section})", badge(claim.verdict), parts, *numbers(claim.weakest)]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"  # |median| is no cell


def badge(verdict: Verdict) -> str:
    """The verdict with its sign, to which site.css gives its colour."""
    return f'<span class="verdict {verdict.replace(" ", "-")}">{VERDICT_SIGNS[verdict]} {verdict}</span>'


def numbers(leaf: Leaf | None) -> list[str]:
    """What a comparison is, its number, its interval and how many seeds it has."""
    if leaf is None:
        return ["", "", "", ""]
    found = leaf.found
    interval = "" if found["interval"] is None else "[{:.3f}, {:.3f}]".format(*found["interval"])
    match = MEASURED.match(found["measured"])
    if match is None:
        return [found["measured"].partition(";")[0], "", interval, str(found["n"])]
    where = ", against ".join(filter(None, (leaf.name, match["rival"])))
    what = f"{match['what']}: {match['asked']}"
    return [f"{where}: {what}" if where else what, match["value"], interval, str(found["n"])]


def not_run(study: str, claims: list[Judged]) -> str:
    """One row for all claims of a study that wait."""
    words, sections = " ".join(claim.claim for claim in claims), dict.fromkeys(claim.section for claim in claims)
    return f"| {words} ({', '.join(sections)}) | {badge('not run')} | | study `{study}` | | | |"


def page_with(section: str, page: Path) -> str:
    """The page with this section in place of the one that it has."""
    before, _, rest = page.read_text().partition(BEGIN)
    return f"{before}{BEGIN}\n\n{section}\n\n{END}{rest.partition(END)[2]}"


SECTIONS = {DOCS / "verdicts.md": table, DOCS / "index.md": counts}

if __name__ == "__main__":
    for page, section in SECTIONS.items():
        page.write_text(page_with(section(), page))
