"""The page "Methods at a glance" is of the methods that there are, and says of them what they do."""

import pytest

import methods_at_a_glance as glance
from supple.methods import CPR, HareTortoise, L2Init, NaP, ReDo, UseAID, Vanilla, WeightClipping


def rows():
    lines = [line for line in glance.PAGE.read_text().splitlines() if line.startswith("| `")]
    return {cells[0]: cells[1:] for cells in ([cell.strip(" `") for cell in line.split("|")[1:-1]] for line in lines)}


def test_page_has_every_method_with_its_paper_and_its_defaults():
    methods = glance.methods_at_defaults()
    found = rows()
    assert list(found) == list(methods), "make the page again: python tools/methods_at_a_glance.py"
    for name, method in methods.items():
        paper, _, acts, defaults = found[name][:4]
        assert (paper, acts, defaults) == (
            glance.paper(method),
            ", ".join(glance.acts(method)),
            glance.defaults(method),
        )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("method", "touches"),
    [
        (Vanilla(), []),
        (UseAID(), ["activation"]),
        (L2Init(), ["gradients"]),
        (WeightClipping(), ["weights"]),
        (HareTortoise(), ["weights"]),
        (NaP(), ["activation", "weights"]),
        (ReDo(), ["units", "optimizer", "data"]),
        (CPR(), ["units"]),
    ],
    ids=lambda part: getattr(part, "name", None),
)
def test_what_a_method_touches_is_seen_and_is_on_the_page(method, touches):
    assert glance.touches(method) == touches
    assert rows()[method.name][1] == ", ".join(touches)


def test_numbers_are_those_of_the_files(tmp_path, monkeypatch):
    monkeypatch.setattr(glance, "ROOT", tmp_path)
    monkeypatch.setattr(glance, "methods_at_defaults", lambda: {"vanilla": Vanilla(), "aid": UseAID()})
    folder = tmp_path / "docs/results/methods"
    folder.mkdir(parents=True)
    case = glance.CASES[0].title
    row = '{{"case": "{}", "method": "aid", "mode": "eager", "ratio": 1.234, "state": 0.5, "boundary_steps": 2.5}}'
    (folder / "cpu.json").write_text(f'{{"rows": [{row.format(case)}]}}')
    why_not = '{{"case": "{}", "method": "aid", "mode": "captured", "ratio": null, "why_not": "it looks at values"}}'
    (folder / "cuda.json").write_text(f'{{"rows": [{why_not.format(case)}]}}')
    page = glance.page()
    assert f"| state | step: CPU, {case} | step: GPU, {case} | boundary: CPU, {case} |" in page
    assert "| 0.50 | 1.23 | no | 2.50 |" in page


def test_costs_on_the_page_of_methods_are_those_of_the_files():
    text = glance.METHODS.read_text()
    assert glance.with_costs(text) == text, "make the page again: python tools/methods_at_a_glance.py"
    lines = [line for line in text.splitlines() if line.startswith("| [`")]
    named = {name for line in lines for name in line.split("|")[2].split("`")[1::2]}
    assert named == {*glance.methods_at_defaults(), "chain"}, "docs/methods.md has a row for each method"


def test_cost_of_several_methods_is_a_range_and_of_a_step_that_is_not_captured_the_eager_one():
    case = glance.CASES[0].title
    rows = {("CPU", case, name): {"ratio": ratio} for name, ratio in (("a", 1.1), ("b", 1.3), ("c", 1.2))}
    rows |= {
        ("GPU", case, "a"): {"ratio": 2.0},
        ("GPU", case, "b"): {"ratio": None},
        ("GPU, eager", case, "b"): {"ratio": 2.5},
    }
    rows["CPU", case, "b"]["boundary_steps"] = 4.0
    assert glance.cost_of(["a", "b", "c"], rows) == "1.10 to 1.30, 2.00; 4.00"
    assert glance.cost_of(["b"], rows) == "1.30, 2.50 eager; 4.00"
    assert glance.cost_of(["chain"], rows) == ""
