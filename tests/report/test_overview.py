"""Several studies in one folder: nothing is overwritten, and the index is an overview."""

import json
from dataclasses import replace

import pytest
from samples import CLAIM, INFO, RESULTS, curve, figure, panel, run, study_report
from test_page import Elements

from supple.methods import UseAID
from supple_lab.report.overview import cards_in
from supple_lab.report.write import write_report
from supple_lab.results.results import Results
from supple_lab.results.select import select

pytestmark = pytest.mark.usefixtures("no_picture_files")

FIGURE = figure(panel(curve()))
OTHER = replace(INFO, study="other", title="Another <title>")


def write(folder, info, **parts):
    return write_report(folder, info, results=RESULTS, report=study_report(FIGURE, **parts))


def test_two_studies_share_a_folder_without_touching_each_others_files(tmp_path):
    write(tmp_path, INFO)
    before = {path: path.read_bytes() for path in tmp_path.rglob("sample*")}
    page = write(tmp_path, OTHER)
    assert page == tmp_path / "other.html"
    assert {path: path.read_bytes() for path in tmp_path.rglob("sample*")} == before
    assert (tmp_path / "other_accuracy.png").is_file()


def test_index_of_two_studies_lists_every_claim_with_verdict_and_link(tmp_path):
    claims = (CLAIM, replace(CLAIM, claim="A second <claim>.", verdict="not run"))
    write(tmp_path, INFO, claims=claims)
    write(tmp_path, OTHER, claims=(replace(CLAIM, verdict="fails"), CLAIM))
    text = (tmp_path / "index.html").read_text()
    elements = Elements(text)
    assert elements.open == []
    words = "".join(elements.text)
    for expected in (INFO.title, OTHER.title, "2 of 4 runs finished", "4 claims in 2 studies", "A second <claim>."):
        assert expected in words
    counted, listed = ("holds", "fails", "not-run"), ("fails", "holds", "holds", "not-run")
    assert [attrs["class"].split()[-1] for attrs in elements.of("span", "verdict")] == [*counted, *listed]
    assert [attrs["aria-label"] for attrs in elements.of("div", "shares")] == ["2 holds, 1 fails, 1 not run"]
    links = {link["href"] for link in elements.of("a")}
    targets = {f"{study}.html{end}" for study in ("sample", "other") for end in ("", "#claim-1", "#claim-2")}
    assert links == targets
    rows = {attrs.get("id") for attrs in Elements((tmp_path / "sample.html").read_text()).of("tr")}
    assert {"claim-1", "claim-2"} <= rows
    assert len(text.encode()) < 2_000_000


def test_index_says_of_each_claim_that_settings_were_selected_on_the_seeds_reported(tmp_path):
    chosen = select(Results(tuple(run(UseAID(relu_prob=p)) for p in (0.7, 0.9))), "train_accuracy").words()
    claims = (CLAIM, replace(CLAIM, measured="", n=0, verdict="not run"))
    write_report(tmp_path, INFO, results=RESULTS, report=replace(study_report(FIGURE, claims=claims), notes=(chosen,)))
    write(tmp_path, OTHER)
    words = "".join(Elements((tmp_path / "index.html").read_text()).text)
    assert words.count("some settings were selected on the very seeds reported") == 1


def test_a_card_of_an_earlier_version_that_said_more_is_kept(tmp_path):
    write(tmp_path, INFO)
    card = json.loads((tmp_path / "cards" / "sample.json").read_text())
    (tmp_path / "cards" / "sample.json").write_text(json.dumps({**card, "picture": "iVBORw0KGgo="}))
    write(tmp_path, OTHER)
    assert [vars(one) for one in cards_in(tmp_path) if one.study == "sample"] == [card]


def test_a_damaged_card_is_left_out(tmp_path):
    write(tmp_path, INFO)
    (tmp_path / "cards" / "broken.json").write_text("{")
    (tmp_path / "cards" / "strange.json").write_text('{"study": "x"}')
    card = json.loads((tmp_path / "cards" / "sample.json").read_text())
    (tmp_path / "cards" / "later.json").write_text(json.dumps({**card, "claims": [{"verdict": "of a later version"}]}))
    assert [card.study for card in cards_in(tmp_path)] == ["sample"]


def test_index_says_how_the_runs_of_each_study_stand(tmp_path):
    damaged = Results((*RESULTS.runs, run(seed=9, state="damaged", records=())))
    studies = {"sample": damaged, "idle": Results(()), "single": Results((run(),))}
    for study, results in studies.items():
        made = study_report(FIGURE, claims=(CLAIM,) if study == "single" else ())
        write_report(tmp_path, replace(INFO, study=study), results=results, report=made)
    words = "".join(Elements((tmp_path / "index.html").read_text()).text)
    assert "1 claim in 3 studies" in words
    assert "sample · quick scale · 2 of 5 runs finished · 1 damaged" in words
    assert "idle · quick scale · nothing is trained" in words
    assert "single · quick scale · 1 of 1 run finished" in words
