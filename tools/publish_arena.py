"""Adds contests of the arena to the published ones, and remakes the pages, tables and sentences that show them.

    python tools/publish_arena.py out/arena/report/arena.json

Without a file, pages and tables are made again of what is published. A contest that is published already is replaced.
Costs are those of docs/results/methods/cpu.json. In the documents, what stands between two marks is made here.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from arena_texts import agreed_table, aid_table, chosen_table, p_table, readme_sentence
from supple_lab.arena.entries import FIRST
from supple_lab.arena.page import page
from supple_lab.arena.problems import PROBLEMS, Scale
from supple_lab.arena.published import Board, from_json, merged, to_json
from supple_lab.arena.score import Cell, Standing, agreement, standings
from supple_lab.files import atomic_write

ROOT = Path(__file__).parent.parent
PUBLISHED = ROOT / "src/supple_lab/arena/published"
PAGES: dict[Scale, str] = {"quick": "arena.html", "full": "full.html"}
NUM_LEADERS = 5  # of the table: the lowest mean ranks, besides the entries that a reader asks for first


def main() -> None:
    paths = {scale: PUBLISHED / f"{scale}.json" for scale in PAGES}
    boards = {scale: from_json(path.read_text()) for scale, path in paths.items() if path.exists()}
    for name in sys.argv[1:]:
        new = from_json(Path(name).read_text())
        boards[new.scale] = merged(boards[new.scale], new) if new.scale in boards else new
    for scale, board in boards.items():
        atomic_write(PUBLISHED / f"{scale}.json", to_json(board).encode())
    rows = json.loads((ROOT / "docs/results/methods/cpu.json").read_text())["rows"]
    costs = {row["case"][:3]: {} for row in rows}
    for row in rows:
        costs[row["case"][:3]][row["method"]] = round(row["ratio"], 2)
    atomic_write(PUBLISHED / "costs.json", json.dumps(costs, indent=1).encode())
    orders = {scale: standings(board.results, scale=scale) for scale, board in boards.items()}
    remarks = remarks_on(orders)
    document = (ROOT / "docs/arena.md").read_text()
    for scale, board in boards.items():
        shown = page(orders[scale], board, run_here=(), taken=None, remarks=remarks)
        atomic_write(ROOT / "docs/results/arena" / PAGES[scale], shown.encode())
        document = with_block(
            document, scale, f"\n\n{summary(board, orders[scale], remarks if scale == 'quick' else [])}\n\n"
        )
    atomic_write(ROOT / "docs/arena.md", document.encode())
    made = {
        ("README.md", "arena"): readme_sentence(boards),
        ("docs/which_method.md", "agreed"): f"\n\n{agreed_table(boards)}\n\n",
        ("docs/which_method.md", "aid"): f"\n\n{aid_table(boards)}\n\n",
        ("docs/which_method.md", "chosen"): f"\n\n{chosen_table(boards)}\n\n",
        ("docs/which_p.md", "p"): f"\n\n{p_table(boards)}\n\n",
    }
    for (name, mark), text in made.items():
        atomic_write(ROOT / name, with_block((ROOT / name).read_text(), mark, text).encode())


def remarks_on(orders: dict[Scale, list[Standing]]) -> list[str]:
    """How far the scales agree, over all problems and on each."""
    if len(orders) < 2:
        return []
    found = agreement(orders["quick"], orders["full"])
    over = [] if found is None else [f"mean ranks {found[0]:.2f} over {found[1]} entries"]
    for problem in PROBLEMS:
        pair = [{one.entry: one for one in order if problem.name in one.cells} for order in orders.values()]
        both = [name for name in pair[0] if name in pair[1]]
        if len(both) > 2:
            quick, full = ([rank_alone(own[name], problem.name) for name in both] for own in pair)
            if (one := agreement(quick, full)) is not None:
                over.append(f"{problem.name} {one[0]:.2f} over {one[1]}")
    return [f"Rank correlation (Spearman) of quick and full scale: {', '.join(over)}."] if over else []


def rank_alone(one: Standing, problem: str) -> Standing:
    """The standing on one problem as if there were no other."""
    return Standing(entry=one.entry, cells={}, mean_rank=one.cells[problem].rank, without=None)


def summary(board: Board, order: Sequence[Standing], remarks: Sequence[str]) -> str:
    """The text of one scale: what was run, and the table."""
    names = [problem.name for problem in PROBLEMS if any(problem.name in one.cells for one in order)]
    number = sum(len(one.draws) + len(one.seeds) for one in board.results)
    failed = sum(run.state != "done" for one in board.results for run in (*one.draws, *one.seeds))
    hours = fmean([run.seconds for one in board.results for run in (*one.draws, *one.seeds)]) * number / 3600
    ranked = [one for one in order if one.mean_rank is not None]
    shown = [*ranked[:NUM_LEADERS], *(one for one in order if one.entry in FIRST and one not in ranked[:NUM_LEADERS])]
    lines = [
        f"[The page](results/arena/{PAGES[board.scale]}): {len(order)} entries, {len(names)} problems, {number:,} runs "
        f"({failed} diverged or failed), {hours:.1f} hours of runs on {board.made_on}. {' '.join(remarks)}".strip(),
        "",
        "| entry | mean rank | " + " | ".join(f"`{name}`" for name in names) + " |",
        "|---" * (2 + len(names)) + "|",
    ]
    for one in shown:
        rank = "–" if one.mean_rank is None else f"{one.mean_rank:.1f}"
        lines.append(f"| `{one.entry}` | {rank} | " + " | ".join(written(one.cells.get(name)) for name in names) + " |")
    return "\n".join(lines)


def written(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    low, high = cell.interval or (cell.relative, cell.relative)
    star = "**" if cell.leads else ""
    return f"{star}{cell.relative:.2f}{star} [{low:.2f}, {high:.2f}]"


def with_block(document: str, mark: str, text: str) -> str:
    """The document with another text between two marks."""
    before, begin, rest = document.partition(f"<!-- {mark} -->")
    _, end, after = rest.partition(f"<!-- end of {mark} -->")
    if not (begin and end):
        raise ValueError(f"no marks <!-- {mark} --> and <!-- end of {mark} --> in the document")
    return f"{before}{begin}{text}{end}{after}"


if __name__ == "__main__":
    main()
