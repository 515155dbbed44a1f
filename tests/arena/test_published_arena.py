"""What the documentation shows of the arena is what the published runs say."""

import json
import sys
from pathlib import Path

import pytest

import publish_arena as tool
from supple_lab.arena.contest import Contest, choose
from supple_lab.arena.entries import Entry
from supple_lab.arena.problems import PROBLEMS
from supple_lab.arena.published import Board, published, step_costs, to_json

ROOT = Path(__file__).parent.parent.parent
BY_NAME = {problem.name: problem for problem in PROBLEMS}
BOARDS = [board for scale in ("quick", "full") if (board := published(scale)) is not None]


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.scale)
def test_published_runs_are_those_of_the_contests_and_of_the_rule(board):
    for result in board.results:
        contest = Contest(BY_NAME[result.problem], Entry(result.entry), board.scale)
        assert [run.id for run in result.draws] == [spec.run_id for spec in contest.draws]
        assert [run.id for run in result.seeds] == [spec.run_id for spec in contest.seeds(result.chosen)]
        assert result.chosen == choose(result.draws)


def test_the_documentation_is_what_the_tool_makes(tmp_path, monkeypatch):
    shown = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in ("arena", "which_method", "which_p"))]
    shown += [ROOT / "docs/results/methods/cpu.json"]
    shown += (ROOT / "docs/results/arena").glob("*.html")
    before = {path: path.read_text() for path in shown}
    for path, text in before.items():
        (tmp_path / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path.relative_to(ROOT)).write_text(text)
    (tmp_path / "published").mkdir()
    (tmp_path / "new.json").write_text(to_json(Board(scale="quick", parts=BOARDS[0].parts[:1])))
    for board in BOARDS:
        (tmp_path / "published" / f"{board.scale}.json").write_text(to_json(board))
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "PUBLISHED", tmp_path / "published")
    monkeypatch.setattr(sys, "argv", ["publish_arena", str(tmp_path / "new.json")])  # published before: nothing changes
    tool.main()
    for path, text in before.items():
        assert (tmp_path / path.relative_to(ROOT)).read_text() == text, f"run tools/publish_arena.py: {path.name}"
    assert json.loads((tmp_path / "published/costs.json").read_text()) == step_costs()
