"""Several studies in one folder: nothing is overwritten, and the index is an overview."""

from dataclasses import replace

from samples import ABOUT, CLAIM, RESULTS, curve, drawing, figure, panel
from test_page import MAX_BYTES, Elements

from supple_lab.report.overview import cards_in
from supple_lab.report.write import write_report

FIGURE = figure(panel(curve()))
OTHER = replace(ABOUT, study="other", title="Another <title>")


def write(folder, about, **parts):
    return write_report(folder, about, results=RESULTS, drawing=drawing(FIGURE, **parts))


def test_index_of_one_study_is_its_page(tmp_path):
    index = write(tmp_path, ABOUT)
    assert index == tmp_path / "index.html"
    assert index.read_bytes() == (tmp_path / "sample.html").read_bytes()


def test_two_studies_share_a_folder_without_touching_each_others_files(tmp_path):
    write(tmp_path, ABOUT)
    before = {path: path.read_bytes() for path in tmp_path.rglob("sample*")}
    page = write(tmp_path, OTHER)
    assert page == tmp_path / "other.html"
    assert {path: path.read_bytes() for path in tmp_path.rglob("sample*")} == before
    assert (tmp_path / "other_accuracy.png").is_file()


def test_index_of_two_studies_shows_both_with_verdicts_and_pictures_inside(tmp_path):
    write(tmp_path, ABOUT, claims=(CLAIM, CLAIM, replace(CLAIM, verdict="not run")))
    write(tmp_path, OTHER)
    text = (tmp_path / "index.html").read_text()
    elements = Elements(text)
    assert elements.open == []
    words = "".join(elements.text)
    for expected in (ABOUT.title, OTHER.title, "2 holds", "1 not run", "2 of 4 runs finished"):
        assert expected in words
    assert [image["src"].startswith("data:image/png;base64,") for image in elements.of("img")] == [True, True]
    links = {link["href"] for link in elements.of("a")}
    assert links == {"sample.html", "other.html"}
    assert len(text.encode()) < MAX_BYTES


def test_a_damaged_card_is_left_out(tmp_path):
    write(tmp_path, ABOUT)
    (tmp_path / "cards" / "broken.json").write_text("{")
    (tmp_path / "cards" / "strange.json").write_text('{"study": "x"}')
    assert [card.study for card in cards_in(tmp_path)] == ["sample"]


def test_file_names_begin_with_the_study_once():
    assert [ABOUT.stem(name) for name in ("sample", "sample_grid", "grid")] == ["sample", "sample_grid", "sample_grid"]
