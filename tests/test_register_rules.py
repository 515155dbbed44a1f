"""tools/register_rules.py: what is new or changed gets an entry, once, with the runs that are published."""

import json
from pathlib import Path

import pytest

import register_rules as tool
from supple_lab.paper.theory import Theory
from supple_lab.paper.trainability import Trainability

ROOT = Path(__file__).parent.parent
KEY = "aid_leads_continual_full"


@pytest.fixture
def register():
    return json.loads((ROOT / "src/supple_lab/paper/register.json").read_text())


def test_a_new_claim_and_a_changed_rule_are_added_with_the_published_runs(register):
    del register["rules"][KEY]
    register["rules"]["theorem_1"][-1]["digest"] = tool.digest_of("an older rule")
    assert sorted(tool.changed(register)) == [KEY, "theorem_1"]
    published = {"continual_full": {"runs": [{"id": "a", "status": "done"}, {"id": "b", "status": "waiting"}]}}
    for key in (KEY, "theorem_1"):
        tool.new_entry(register, key, commit="abcdef0", date="2026-11-17", published=published)
    assert tool.changed(register) == []
    assert register["runs"]["continual_full published by abcdef0"] == ["a"]
    (entry,) = register["rules"][KEY]
    assert (entry["commit"], entry["date"], entry["test"]) == ("abcdef0", "2026-11-17", tool.texts()[KEY])
    assert register["rules"]["theorem_1"][-1]["runs"] == []


def test_a_reworded_rule_keeps_its_entry(register):
    before = json.dumps(register["rules"])
    register["reworded"].clear()
    assert len(tool.changed(register)) > 1
    tool.reword(register)
    assert tool.changed(register) == []
    assert json.dumps(register["rules"]) == before


def test_holms_bounds_stop_at_the_first_that_is_not_met():
    def row(claim, verdict, chance, runs=("a",)):
        return {"claim": claim, "verdict": verdict, "chance": chance, "parts": [], "runs": runs}

    judged = [("holds", 0.02), ("fails", 0.001), ("holds", 0.03), ("not decided", 1.0), ("not run", 0.0)]
    claims = [row(one.claim, *told) for one, told in zip(Trainability.claims, judged, strict=False)]
    times_and_checks = [row(one.claim, "holds", 0.0, runs=()) for one in Theory.claims]
    text = tool.error_rate({"trainability": {"claims": claims}, "theory": {"claims": times_and_checks}})
    assert "4 of them were tested" in text
    assert "0.2 wrong decisions would be expected" in text
    assert [line.rsplit("| ", 1)[1] for line in text.splitlines()[-3:]] == ["yes |", "no |", "no |"]


def test_pages_are_what_the_tool_writes(register):
    published = tool.reports()
    assert (ROOT / "docs/register.md").read_text() == tool.page(register, published)
    assert (ROOT / "docs/verdicts_in_detail.md").read_text().endswith(f"{tool.HEADING}\n\n{tool.error_rate(published)}")
