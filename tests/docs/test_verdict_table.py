"""docs/making/verdict_table.py: the rows are what the published reports say."""

import json
import re

import pytest
from markdown_pages import DOCS

from supple_lab import cli
from supple_lab.paper.continual import ContinualFull


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "making")
    import verdict_table

    return verdict_table


def part(name="", verdict="not run", parts=(), **found):
    none = {"measured": "", "interval": None, "n": 0, "chance": 0.0}
    return {**none, "name": name, "verdict": verdict, "parts": list(parts), **found}


def row_of(tool, tmp_path, monkeypatch, *parts, verdict="not decided"):
    """The row of a claim whose report has these parts."""
    claim = ContinualFull.claims[0].claim
    row = {**part(verdict=verdict, parts=parts, n=3), "study": "continual_full", "claim": claim}
    (tmp_path / "results/continual_full").mkdir(parents=True)
    (tmp_path / "results/continual_full/continual_full.json").write_text(json.dumps({"claims": [row]}))
    monkeypatch.setattr(tool, "DOCS", tmp_path)
    (line,) = [line for line in tool.table().splitlines() if claim in line]
    return [cell.strip() for cell in line.strip("|").split(" |")]


@pytest.mark.parametrize("page", ["verdicts.md", "index.md"])
def test_page_has_the_verdicts_of_the_published_reports(tool, page):
    section = tool.SECTIONS[DOCS / page]()
    assert "claims: " in section
    assert (DOCS / page).read_text() == tool.page_with(section, DOCS / page)


def test_row_has_the_verdict_and_counts_and_numbers_of_the_least_sure_comparison(tool, tmp_path, monkeypatch):
    sure = part("quarter 1", "holds", measured="0.5 ± 0.1: gain (above 0?)", interval=[0.4, 0.6], n=5, chance=0.001)
    less = part(
        "quarter 2",
        "holds",
        measured="closest, L2: 0.02 ± 0.01: gain (above 0?)",
        interval=[0.01, 0.03],
        n=3,
        chance=0.04,
    )
    _, *cells = row_of(tool, tmp_path, monkeypatch, part("CNN", parts=[sure, less, part("quarter 3")]))
    told = "CNN: quarter 2, against L2: gain: above 0?"
    assert cells == [tool.badge("not decided"), "2 hold, 1 not run", told, "0.02 ± 0.01", "[0.010, 0.030]", "3"]


def test_of_times_that_all_hold_the_weakest_is_the_one_nearest_to_the_threshold(tool, tmp_path, monkeypatch):
    times = [(-0.93, 11), (-0.73, 6), (-1.49, 23)]
    parts = [part(f"{n} turns", "holds", measured=f"{value}: excess (at most 0?)", n=n) for value, n in times]
    _, *cells = row_of(tool, tmp_path, monkeypatch, *parts, verdict="holds")
    assert cells[1:] == ["3 hold", "6 turns: excess: at most 0?", "-0.73", "", "6"]


def test_comparison_that_fails_comes_before_one_that_is_open(tool, tmp_path, monkeypatch):
    fails = part("a", "fails", measured="-0.5 ± 0.1: gain (above 0?)", interval=[-0.6, -0.4], n=5, chance=0.001)
    opened = part("b", "not decided", measured="0.1: gain (above 0?)", n=1, chance=1.0)
    _, *cells = row_of(tool, tmp_path, monkeypatch, opened, fails, verdict="fails")
    assert cells == [tool.badge("fails"), "1 fail, 1 open", "a: gain: above 0?", "-0.5 ± 0.1", "[-0.600, -0.400]", "5"]


def test_claims_that_no_report_has_are_not_run(tool, tmp_path, monkeypatch):
    monkeypatch.setattr(tool, "DOCS", tmp_path)
    assert {claim.verdict for claim in tool.judged_claims()} == {"not run"}
    assert re.findall(r"(\d+) <span", tool.table())[:3] == ["0", "0", "0"]


def test_command_that_repeats_a_run_spells_the_published_one(tmp_path, monkeypatch, capsys):
    text = (DOCS / "verdicts.md").read_text()
    (line,) = re.findall(r"^supple (train .*) --data DIR --device cuda$", text, re.MULTILINE)
    (run,) = re.findall(r"first run on permuted MNIST, (\w+) ", text)
    monkeypatch.delenv("SUPPLE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert cli.supple([*line.split(), "--device", "cpu", "--out", str(tmp_path)]) == 2  # MNIST is not here
    assert f"run {run}: new" in capsys.readouterr().out
    published = json.loads((DOCS / "results/trainability/trainability.json").read_text())["runs"]
    assert [(one["method"], one["seed"]) for one in published if one["id"] == run] == [("aid", 0)]
