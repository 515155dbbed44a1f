"""The arena's page in a real browser: sorted, filtered, each number leading to its runs."""

import pytest

from browser import CHROMIUM, browser
from supple_lab.arena.contest import ArenaRun, ContestResult
from supple_lab.arena.page import page
from supple_lab.arena.published import Board, Part
from supple_lab.arena.score import standings

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
SCORES = {  # by entry: on an MLP's problem and on a CNN's
    "full_reset": (0.9, 0.8),
    "vanilla": (0.3, 0.9),
    "c_chain": (0.8, 0.6),
}


def result(entry: str, problem: str, score: float) -> ContestResult:
    def run(seed: int) -> ArenaRun:
        value = score + 0.001 * seed
        return ArenaRun(id=f"{entry}-{problem}-{seed}", state="done", score=(0.1, value), train=value, seconds=1.0)

    settings = ({"learning_rate": 0.001}, {"learning_rate": 0.0123})
    seeds = tuple(map(run, range(3)))
    return ContestResult(problem=problem, entry=entry, settings=settings, draws=(run(7), run(8)), chosen=1, seeds=seeds)


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    problems = ("random_labels", "growing_data")
    made = [result(name, problem, scores[i]) for name, scores in SCORES.items() for i, problem in enumerate(problems)]
    part = Part(machine="a machine", versions={"torch": "2"}, commit="", results=tuple(made))
    board = Board(scale="quick", parts=(part,))
    path = tmp_path_factory.mktemp("arena") / "arena.html"
    path.write_text(page(standings(made), board, run_here={"c_chain"}, taken=board, remarks=["<b>A remark.</b>"]))
    with browser() as tab:
        tab.url = path.as_uri()
        yield tab


def entries(tab) -> list[str]:
    return tab.ask("[...document.querySelectorAll('.board tbody tr:not([hidden])')].map(r => r.cells[0].textContent)")


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (360, True)])
def test_page_asks_for_nothing_and_fits_the_screen(tab, width, dark):
    tab.open(tab.url, width=width, dark=dark)
    assert tab.complaints == []
    assert tab.requests == [tab.url]
    assert tab.ask("document.documentElement.scrollWidth") <= width
    assert "<b>A remark.</b>" in tab.ask("document.querySelector('header').textContent")


def test_columns_sort_both_ways(tab):
    tab.open(tab.url)
    assert entries(tab)[0] == "full_reset"
    tab.click(".board thead th:nth-child(6) button")  # growing_data, the best first
    assert entries(tab) == ["vanilla", "full_reset", "c_chain"]
    tab.click(".board thead th:nth-child(6) button")
    assert entries(tab) == ["c_chain", "full_reset", "vanilla"]


def test_filters_leave_what_was_asked_for(tab):
    tab.open(tab.url)

    def choose(name, value):
        tab.ask(
            f"(e => {{ e.value = {value!r}; e.dispatchEvent(new Event('input')); }})(document.getElementById('{name}'))"
        )

    choose("cost", "2")
    assert entries(tab) == ["full_reset", "vanilla"]
    choose("entry", "van")
    assert entries(tab) == ["vanilla"]
    choose("network", "CNN")
    heads = tab.ask("[...document.querySelectorAll('.board thead th:not([hidden])')].slice(4).map(h => h.textContent)")
    assert heads == ["growing data"]


def test_a_number_leads_to_its_runs(tab):
    tab.open(tab.url)
    tab.click("[data-runs='c_chain/random_labels']")
    text = tab.ask("document.querySelector('dialog[open]').textContent")
    assert all(f"c_chain-random_labels-{seed}" in text for seed in (0, 1, 2, 7, 8))
    assert "on the training images 0.88 of the reference's; places 2 to 2" in text
    assert tab.ask("document.querySelector('dialog tr.chosen').textContent").endswith("learning_rate 0.0123")
