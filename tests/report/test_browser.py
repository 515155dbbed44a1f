"""The pages in a real browser: Chromium, headless."""

from dataclasses import replace

import numpy as np
import pytest
from samples import CLAIM, INFO, RESULTS, TABLE, bars, curve, distribution, figure, heat_map, panel, study_report

from browser import CHROMIUM, browser
from supple_lab.report.figure import Line
from supple_lab.report.write import write_report

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
LONG = "a_very_long_name_" * 8
PHONE = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two studies; one shows every kind of panel, twice the same methods in its first figure."""
    folder = tmp_path_factory.mktemp("report")
    pair = panel(curve("vanilla", "ReLU"), curve("aid", "AID")), panel(curve("aid", "AID"), curve("vanilla", "ReLU"))
    claim = replace(CLAIM, measured=LONG, runs=tuple(run.spec.run_id for run in RESULTS.runs))
    figures = (
        figure(*pair, name="pair"),
        figure(panel(curve("aid", "AID")), bars(), distribution(), heat_map(), name="kinds"),
    )
    info = replace(INFO, command=f"supple run sample --out /{LONG}", notes=("A note.",))
    write_report(folder, info, results=RESULTS, report=study_report(*figures, claims=(claim,)))
    other = replace(INFO, study="other")
    wide = replace(TABLE, header=tuple(f"a long heading {i}" for i in range(20)), rows=(("0.123 ± 0.456",) * 20,))
    claims = (replace(CLAIM, claim="Its own claim."), replace(CLAIM, verdict="fails"))
    write_report(folder, other, results=RESULTS, report=study_report(figure(bars()), tables=(wide,), claims=claims))
    return folder


@pytest.fixture(scope="module")
def tab():
    with browser() as tab:
        yield tab


def shown(tab, selector):
    return tab.ask(f"[...document.querySelectorAll({selector!r})].map(e => getComputedStyle(e).display !== 'none')")


@pytest.mark.parametrize("page", ["sample", "other", "index"])
@pytest.mark.parametrize("dark", [False, True])
def test_page_loads_without_complaints_and_asks_for_nothing_but_itself(tab, folder, page, dark):
    url = (folder / f"{page}.html").as_uri()
    tab.open(url, dark=dark)
    assert tab.complaints == []
    assert [request for request in tab.requests if not request.startswith("data:")] == [url]
    background = tab.ask("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(20, 23, 26)" if dark else "rgb(255, 255, 255)")


def test_paper_has_neither_the_numbers_behind_figures_nor_the_list_of_runs(tab, folder):
    tab.open((folder / "sample.html").as_uri())
    tab.ask("window.dispatchEvent(new Event('beforeprint'))")
    tab.call("Emulation.setEmulatedMedia", media="print")
    try:
        assert set(shown(tab, "figure > details")) == set(shown(tab, "#provenance details")) == {False}
        assert set(tab.ask("[...document.querySelectorAll('#claims details')].map(e => e.open)")) == {True}
        assert tab.ask("getComputedStyle(document.querySelector('#claims tbody tr')).breakInside") == "auto"
        assert tab.ask("getComputedStyle(document.querySelector('#claims h2')).breakAfter") == "avoid"
    finally:
        tab.call("Emulation.setEmulatedMedia", media="")


def test_the_test_sees_a_request_that_leaves_the_machine(tab, tmp_path):
    (tmp_path / "page.html").write_text("<img src='http://192.0.2.1/x.png'><script>undefined.x</script>")
    tab.open((tmp_path / "page.html").as_uri())
    assert "http://192.0.2.1/x.png" in tab.requests
    assert any("TypeError" in complaint for complaint in tab.complaints)


def test_a_legend_click_hides_a_method_in_all_panels_and_another_shows_it(tab, folder):
    tab.open((folder / "sample.html").as_uri())
    aid, relu = "#pair .curve[data-entry='1']", "#pair .curve[data-entry='0']"
    assert shown(tab, aid) == [True] * 4
    tab.click("#pair .legend button[data-entry='1']")
    assert (shown(tab, aid), shown(tab, relu)) == (
        [False] * 4,
        [True] * 4,
    )  # two panels, each for a desktop and for a phone
    assert tab.ask("document.querySelector('#pair .legend button[data-entry=\"1\"]').ariaPressed") == "false"
    tab.click("#pair .legend button[data-entry='1']")
    assert shown(tab, aid) == [True] * 4


def test_the_pointer_brings_up_the_values_of_every_kind_of_panel(tab, folder):
    tab.open((folder / "sample.html").as_uri())
    said = {}
    for number, kind in enumerate(("curves", "bars", "violins", "cells"), start=1):
        plot = f"#kinds .panel:nth-of-type({number}) .plot"
        tab.move(plot, right=0.98, down=0.25)
        said[kind] = tab.ask(f"document.querySelector({f'{plot} .tip'!r}).innerText")
    last = curve("aid", "AID").middle[-1]
    assert "stage 6" in said["curves"]
    assert f"{last:.3f}" in said["curves"]
    assert said["bars"].startswith("last")
    assert said["violins"].startswith("stage 30")
    assert "0.050 above full reset" in said["cells"]
    assert all(words in said["cells"] for words in ("mean 0.550", "n = 3", "95% bootstrap"))


def test_options_of_the_command_are_not_torn_at_their_hyphens(tab, tmp_path):
    words = [f"--option-{number}" for number in range(40)]
    info = replace(INFO, command=" ".join(words))
    write_report(tmp_path, info, results=RESULTS, report=study_report(figure(bars())))
    tab.open((tmp_path / "index.html").as_uri(), **PHONE)
    assert tab.ask("document.querySelector('.command code').textContent") == info.command
    heights = tab.ask("[...document.querySelectorAll('.command span')].map(e => e.getClientRects().length)")
    assert heights == [1] * len(words)


def test_arrow_keys_move_through_the_values(tab, folder):
    tab.open((folder / "sample.html").as_uri())
    tab.ask("document.querySelector('#pair .plot').focus()")
    for _ in range(2):
        tab.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight")
    assert tab.ask("document.querySelector('#pair .tip caption').textContent") == "stage 2"


def test_the_pointer_shows_the_bootstrap_interval_under_its_name(tab, folder):
    tab.open((folder / "sample.html").as_uri())
    tab.move("#pair .plot", right=0.99, down=0.25)
    made = curve("aid", "AID")
    said = tab.ask("document.querySelector('#pair .tip').innerText")
    assert "95% bootstrap" in said
    assert f"{made.bootstrap[0][-1]:.3f} to {made.bootstrap[1][-1]:.3f}" in said


@pytest.mark.parametrize("size", [{}, PHONE])
def test_the_pointer_names_a_statistic_that_is_no_mean_and_shows_its_own_interval(tab, tmp_path, size):
    x = np.arange(2.0)
    scores = Line(
        method="aid",
        label="AID",
        x=x,
        middle=x / 2,
        low=x / 4,
        high=x,
        n=85,
        statistic="IQM of scores",
        band_words="95% stratified bootstrap",
    )
    write_report(tmp_path, INFO, results=RESULTS, report=study_report(figure(panel(scores))))
    tab.open((tmp_path / "index.html").as_uri(), **size)
    tab.move(".plot", right=0.99, down=0.25)
    said = " ".join(tab.ask("document.querySelector('.tip').innerText").split())
    assert said == "stage 1 IQM of scores 95% stratified bootstrap AID 0.500 0.250 to 1.000"


@pytest.mark.parametrize("size", [{}, PHONE])
def test_long_values_under_the_pointer_stay_inside_their_box(tab, tmp_path, size):
    label, values = "a long name of a method", -curve().values / 37
    small = Line.over_seeds(method="dropout", label=label, x=np.arange(1, 7), values=values, band="range")
    one = replace(panel(small), y_scale="symlog", y_range=None)
    write_report(tmp_path, INFO, results=RESULTS, report=study_report(figure(one)))
    tab.open((tmp_path / "index.html").as_uri(), **size)
    tab.move(".plot", right=0.5, down=0.5)
    assert tab.ask("(tip => tip.hidden || tip.scrollWidth - tip.clientWidth)(document.querySelector('.tip'))") == 0
    assert tab.ask("document.documentElement.scrollWidth") == size.get("width", 1280)


def test_a_wide_table_scrolls_inside_its_box(tab, folder):
    tab.open((folder / "other.html").as_uri())
    box = "document.querySelector('#table-ends .scroll')"
    assert tab.ask(f"{box}.scrollWidth > {box}.clientWidth + 100")
    assert tab.ask("document.documentElement.scrollWidth") == 1280
    left = "document.querySelector('#table-ends th[scope=row]').getBoundingClientRect().left"
    before = tab.ask(left)
    tab.ask(f"{box}.scrollTo(300, 0)")
    assert tab.ask(f"{box}.scrollLeft") == 300
    assert tab.ask(left) == before  # the name of the row stays in sight


@pytest.mark.parametrize("page", ["sample", "index", "other"])
def test_a_phone_need_not_scroll_sideways(tab, folder, page):
    tab.open((folder / f"{page}.html").as_uri(), **PHONE)
    tab.ask("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert tab.ask("document.documentElement.scrollWidth") <= PHONE["width"]
