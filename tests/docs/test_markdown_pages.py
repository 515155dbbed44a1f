"""The documentation, without building it: code runs as written, links lead somewhere, and nothing is left out."""

import gc
import importlib.util
import re
import sys
from inspect import getmembers, isfunction, signature

import pytest
from markdown_pages import DOCS, ROOT, anchors, code_blocks, described, imported, links, pages, python_programs, used

import supple
from supple.methods import Method
from supple.metrics.base import every_metric
from supple_lab.paper.compare import LABELS
from supple_lab.paper.study import Study
from supple_lab.registry import known

PAGES = pages()
WHOLE = {"add_a_method.md"}  # its code goes on from part to part
OWN = {"supple", "torch"}


def foreign(code):
    """The other people's libraries that a program needs."""
    return imported(code) - OWN - sys.stdlib_module_names


PROGRAMS = [
    pytest.param(
        code, quoted.get(part, []), id=f"{page} {part}".strip(), marks=[pytest.mark.slow] * bool(foreign(code))
    )
    for page, text in PAGES.items()
    for quoted in [code_blocks(text, "output", whole=page in WHOLE)]
    for part, code in python_programs(text, whole=page in WHOLE).items()
]


@pytest.mark.parametrize(("code", "quoted"), PROGRAMS)
def test_code_of_a_page_runs_as_written(code, quoted, tmp_path, monkeypatch, capsys, recwarn):
    missing = sorted(name for name in foreign(code) if importlib.util.find_spec(name) is None)
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    monkeypatch.chdir(tmp_path)  # trainers write logs where they are
    namespace = {"__name__": "page"}
    exec(compile(code, "page", "exec"), namespace)
    namespace.clear()
    gc.collect()
    # A method that a page defines is no method of later tests.
    assert not [cls for cls in Method.__subclasses__() if cls.__module__ == "page"]
    # What the page quotes as a message, the program printed or warned of.
    said = [capsys.readouterr().out, *(str(warning.message) for warning in recwarn)]
    assert not [text for text in quoted if " ".join(text.split()) not in " ".join(" ".join(said).split())]


def test_no_page_holds_both_sides_of_a_merge():
    assert not [page for page, text in PAGES.items() if re.search("^(<{7}|>{7}) ", text, re.MULTILINE)]


def test_page_of_traps_quotes_messages():
    assert sum(len(blocks) for blocks in code_blocks(PAGES["what_can_go_wrong.md"], "output", whole=True).values()) > 10


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("reference/")])
def test_every_name_of_the_reference_has_an_example_on_its_page(page):
    examples = used("".join(python_programs(PAGES[page], whole=True).values()))
    assert described(PAGES[page])
    assert not described(PAGES[page]) - examples


def test_every_public_name_is_in_the_reference():
    functions = getmembers(supple.functional, isfunction)
    public = {
        "library": {*supple.__all__} - {"__version__", "functional", "kernels"},
        "functions": {name for name, function in functions if "training" in signature(function).parameters},
        "methods": {cls.__name__ for cls in known(Method).values()},
        "metrics": {*supple.metrics.__all__, *(type(metric).__name__ for metric in every_metric())},
    }
    missing = {page: names - described(PAGES[f"reference/{page}.md"]) for page, names in public.items()}
    assert all(public.values())
    assert not any(missing.values()), missing


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page_lead_to_files_and_headings(page):
    lost = []
    for link in links(PAGES[page]):
        target, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        path = (DOCS / page).parent / target if target else DOCS / page
        is_there = path.is_file() and DOCS in path.resolve().parents
        if not is_there or (anchor and path.suffix == ".md" and anchor not in anchors(path.read_text())):
            lost.append(link)
    assert not lost


def test_links_out_of_the_readme_lead_to_files():
    relative = [link for link in links((ROOT / "README.md").read_text()) if not re.match(r"[a-z]+:", link)]
    assert not [link for link in relative if not (ROOT / link.partition("#")[0]).is_file()]


@pytest.mark.parametrize("page", PAGES)
def test_page_shows_nothing_from_elsewhere(page):
    text = PAGES[page]
    assert not re.findall(r"!\[[^\]]*\]\((?:https?:)?//", text)
    assert not re.findall(r"<(?:script|link|iframe|img)\b", text)


def test_every_method_of_the_paper_has_its_section_and_its_reference():
    classes = known(Method)
    assert not [name for name in LABELS if f"`{name}`" not in PAGES["methods.md"]]
    reference = PAGES["reference/methods.md"]
    assert not [name for name in LABELS if f"supple.methods.{classes[name].__name__}\n" not in reference]


def test_every_example_is_listed():
    files = [path.name for path in (ROOT / "examples").iterdir() if path.suffix in (".py", ".ipynb")]
    assert not [name for name in files if f"`{name}`" not in PAGES["recipes.md"]]


def test_every_page_of_results_has_its_verdict():
    named = {*links(PAGES["verdicts.md"]), *links(PAGES["verdicts_in_detail.md"])}
    assert not [page for page in PAGES if page.startswith("results/") and page not in named]


def test_studies_named_in_commands_exist():
    commands = re.findall(r"supple run ([a-z_]+)", "\n".join(PAGES.values()))
    assert not set(commands) - set(known(Study))
    assert commands


@pytest.mark.parametrize("page", PAGES)
def test_page_is_in_the_navigation(page):
    navigation = (ROOT / "mkdocs.yml").read_text()
    assert page.startswith("results/") or page in navigation
