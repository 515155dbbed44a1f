"""The paper's claims: named once, each with a study, and quoted from the section they name."""

import os
import re
from pathlib import Path

import pytest

from supple_lab.paper.claims import BEYOND
from supple_lab.paper.register import OTHERS, STUDIES, registered_claims
from supple_lab.paper.study import Study
from supple_lab.paper.supervised import SUPERVISED_TABLE
from supple_lab.registry import find

LEVELS = {"section": 0, "subsection": 1, "subsubsection": 2}
NETWORKS, METHODS = ("cnn", "resnet18", "vgg16"), ("vanilla", "l2", "dropout", "aid")


CLAIMS = [claim for _, claim in registered_claims().values()]
OF_THE_PAPER = [claim for _, claim in registered_claims(STUDIES).values() if claim.section != BEYOND]


def test_every_registered_study_has_claims_and_no_key_stands_twice():
    own = [claim.key for study in (*STUDIES, *OTHERS) for claim in find(Study, study).claims]
    assert len(own) == len(set(own)) == len(CLAIMS)
    assert {study for study, _ in registered_claims().values()} == {*STUDIES, *OTHERS}


def test_every_claim_is_three_different_sentences():
    for claim in CLAIMS:
        texts = (claim.paper, claim.claim, claim.text)
        assert all(text.strip() == text and text.endswith(".") for text in texts), claim
        assert len(set(texts)) == 3


def test_no_two_claims_are_decided_alike():
    pairs = list(registered_claims().values())
    assert len({(study, claim.claim) for study, claim in pairs}) == len(pairs)
    assert len({(study, claim.text) for study, claim in pairs}) == len(pairs)


@pytest.fixture(scope="module")
def paper():
    path = os.environ.get("SUPPLE_PAPER_TEX")
    if not path:
        pytest.skip("SUPPLE_PAPER_TEX does not name the paper's LaTeX source")
    return in_order(Path(path).read_text())


def in_order(text: str) -> str:
    """The files of the source as one text, each at the place that inputs it."""
    pieces = re.split(r"^%% file: (\S+)\n", text, flags=re.M)[1:]
    files = dict(zip(pieces[::2], pieces[1::2], strict=True))

    def whole(name: str) -> str:
        return re.sub(r"\\input\{(.*?)\}", lambda found: whole(f"{found[1].removesuffix('.tex')}.tex"), files[name])

    return whole("main.tex")


def sections_of(paper: str) -> dict[str, str]:
    """Number and title of every section, as LaTeX would count them, with the text up to the next heading."""
    heading = re.compile(r"\\(appendix\b|(?:sub)*section)(?:\{(.*?)\}\n)?")
    counters, lettered, sections = [0, 0, 0], False, {}
    found = list(heading.finditer(paper))
    for here, after in zip(found, [*found[1:], None], strict=True):
        if here[1] == "appendix":
            counters, lettered = [0, 0, 0], True
        elif here[2] is not None:  # a starred one has no number
            level = LEVELS[here[1]]
            counters = [*counters[:level], counters[level] + 1, *[0] * (2 - level)]
            first = chr(ord("A") + counters[0] - 1) if lettered else str(counters[0])
            number = ".".join([first, *map(str, counters[1 : level + 1])])
            title = re.sub(r"\\ref\{Thm:(\d)\}", r"\1", here[2])
            sections[f"{number} {title}"] = paper[here.end() : after.start() if after else None]
    return sections


def numbers_in(text: str) -> set[str]:
    """Every number of a text, LaTeX's powers of ten written as 1e-3."""
    plain = re.sub(r"\\mathrm\{e\}\{?(-\d+)\}?", r"e\1", text)
    return set(re.findall(r"\d+(?:\.\d+)?(?:e-\d+)?", plain))


def test_every_section_is_one_of_the_paper(paper):
    assert not {claim.section for claim in OF_THE_PAPER} - set(sections_of(paper))


def test_every_number_a_claim_quotes_stands_in_its_section(paper):
    sections = sections_of(paper)
    quoted = {claim.key: numbers_in(claim.paper) - numbers_in(sections[claim.section]) for claim in OF_THE_PAPER}
    assert not {key: numbers for key, numbers in quoted.items() if numbers}


def test_supervised_accuracies_are_those_of_the_table(paper):
    end = paper.index(r"\label{tab:generalization}")
    rows = paper[paper.rindex(r"\hline", 0, end) : end].split(r"\\")
    cells = [re.findall(r"(0\.\d+)\s*\\pm\s*(0\.\d+)", row) for row in rows]
    printed = {
        method: {network: (float(mean), float(spread)) for network, (mean, spread) in zip(NETWORKS, row, strict=True)}
        for method, row in zip(METHODS, [row for row in cells if row], strict=True)
    }
    assert printed == SUPERVISED_TABLE
