"""The page: one file, complete, safe, small; and the folder it lies in."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
from samples import (
    CLAIM,
    INFO,
    PROVENANCE,
    RESULTS,
    TABLE,
    bars,
    curve,
    distribution,
    figure,
    heat_map,
    histogram,
    panel,
    run,
    study_report,
)

from supple.methods import UseAID
from supple_lab.report.figure import Line, Part
from supple_lab.report.page import MAX_PARTS, MAX_POINTS, MAX_ROWS, facts, page, thinned
from supple_lab.report.remarks import missing_groups, missing_words
from supple_lab.report.write import write_report
from supple_lab.results.intervals import format_mean
from supple_lab.results.results import Results

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> \"' & -->"
DEMO = figure(panel(curve("vanilla", "ReLU", seed=1), curve("aid", "AID", seed=2)))
CELL = {"interval": (0.1, 0.2), "n": 8, "verdict": "holds"}
VOID = {"meta", "link", "br", "img", "input", "use", "line", "path", "circle"}


class Elements(HTMLParser):
    """Every element with its attributes, and what does not close."""

    def __init__(self, text):
        super().__init__()
        self.found, self.open, self.text = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def of(self, tag, css_class=None):
        named = [attributes for name, attributes in self.found if name == tag]
        return [attrs for attrs in named if css_class is None or css_class in (attrs.get("class") or "").split()]


def render(*figures, results=RESULTS, info=INFO, **parts):
    return page(info, results, report=study_report(*figures, **parts), provenance=PROVENANCE)


def data_of(text):
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


def test_page_is_well_formed_and_titled():
    elements = Elements(render(DEMO))
    assert elements.open == []
    text = "".join(elements.text)
    for words in (INFO.title, INFO.question, INFO.command, "2 of 4", "0123abcd", "torch 2.13", "a cpu"):
        assert words in text


def test_page_asks_nothing_of_the_network():
    text = render(DEMO)
    for _, attributes in Elements(text).found:
        for name in ("src", "href", "srcset", "action", "xlink:href", "poster", "data"):
            target = attributes.get(name) or ""
            assert not re.match(r"\s*(\w+:)?//", target), target
    style = "".join(re.findall(r"<style>(.*?)</style>", text, re.DOTALL))
    assert "url(" not in style
    assert "@import" not in style
    addresses = set(re.findall(r"https?://[^\s\"'<]+", text))
    assert addresses == set()
    assert "default-src 'none'" in text


def test_values_under_the_pointer_are_called_what_they_are():
    x = np.arange(3.0)
    means = Line(method="aid", label="bars", x=x, middle=x, low=x - 1, high=x + 1, n=5)
    scores = replace(means, label="IQM", statistic="IQM", band_words="stratified", edges=("strata from", "strata to"))
    text = render(figure(panel(curve("vanilla", "ReLU"), curve("dropout", "one", num_seeds=1), scores, means)))
    told = {(line["line"], line["band"]) for line in data_of(text)[0][0]["curves"]}
    assert told == {
        ("mean", "lowest to highest"),
        ("value", "lowest to highest"),
        ("IQM", "stratified"),
        ("mean", "± one std"),
    }
    rows = re.findall(r'<th scope="row">(.*?)</th>', text)  # of the numbers behind the figure
    assert all(name in rows for name in ("mean", "value", "IQM", "strata from", "strata to", "mean − std"))
    assert {line["line"] for line in data_of(render(figure(distribution())))[0][0]["curves"]} == {"median"}


def test_a_point_that_stands_for_several_stages_does_not_pass_for_the_last_of_them():
    averaged = replace(panel(curve()), x_label="stage (points: means of 8)")
    text = render(figure(averaged, panel(curve())))
    assert [found["place"] for found in data_of(text)[0]] == ["stage, means of 8:", "stage"]
    headers = re.findall(r"<tr><th scope=\"row\">(stage.*?)</th>", text)
    assert headers == ["stage, means of 8", "stage"]


def test_every_curve_is_drawn_and_its_numbers_are_in_the_page():
    text = render(DEMO)
    elements = Elements(text)
    assert len(elements.of("g", "curve")) == len(elements.of("g", "band")) == 4  # for a desktop and for a phone
    curves = data_of(text)[0][0]["curves"]
    for shown, made in zip(curves, DEMO.panels[0].curves, strict=True):
        assert shown["x"] == made.x.tolist()
        np.testing.assert_allclose(shown["middle"], made.middle, atol=1e-4)
        np.testing.assert_allclose(shown["low"], made.low, atol=1e-4)
        np.testing.assert_allclose(shown["high"], made.high, atol=1e-4)
        np.testing.assert_allclose([shown["lower"], shown["upper"]], made.bootstrap, atol=1e-4)
        assert (made.bootstrap[0] <= made.middle).all()
    assert "95% bootstrap from" in text
    assert "lower" not in data_of(render(figure(panel(curve(num_seeds=1)))))[0][0]["curves"][0]
    assert f"{DEMO.panels[0].curves[0].middle[3]:.3f}" in "".join(elements.text)  # readable without the script


def lines_in(text):
    """Each curve's points as shares of the plot, from the left and from the bottom, None between two pieces."""
    (left, top, width, height), *_ = data_of(text)[0][0]["boxes"]
    *_, whole_width, whole_height = map(float, re.search(r'class="axes wide" viewBox="(.*?)"', text)[1].split())

    def share(point):
        x, y = map(float, point.split())
        return (100 * x / whole_width - left) / width, 1 - (100 * y / whole_height - top) / height

    paths = re.findall(r'<g class="curve inked"[^>]*><path d="M([^"]*)"', text)
    return [[[share(point) for point in piece.split("L")] for piece in path.split("M")] for path in paths]


def test_line_goes_through_the_means():
    made = Line.over_seeds(method="aid", label="AID", x=np.array([1, 2, 3]), values=np.array([[0.0, 1.0, 0.25]]))
    text = render(figure(panel(made)))
    (line,), _ = lines_in(text)
    low, high = data_of(text)[0][0]["range"]
    expected = [((x - low) / (high - low), y / 1.015) for x, y in ((1, 0.0), (2, 1.0), (3, 0.25))]
    np.testing.assert_allclose(line, expected, atol=1e-3)


def test_line_has_a_gap_where_a_seed_has_no_value():
    values = np.full((2, 5), 0.5)
    values[0, 2] = np.nan
    made = Line.over_seeds(method="aid", label="AID", x=np.arange(5), values=values)
    text = render(figure(panel(made)))
    assert [len(piece) for piece in lines_in(text)[0]] == [2, 2]
    assert data_of(text)[0][0]["curves"][0]["middle"][2] is None


def test_legend_is_a_button_per_curve_and_curves_point_to_it():
    elements = Elements(render(DEMO))
    buttons = [attrs for attrs in elements.of("button") if "data-entry" in attrs]
    assert [button["aria-pressed"] for button in buttons] == ["true", "true"]
    first, last = DEMO.panels[0].curves[1].middle[[0, -1]]
    assert f"AID: from {first:.3f} to {last:.3f}" in elements.of("svg", "axes")[0]["aria-label"]  # in words
    assert {attrs["data-entry"] for attrs in elements.of("g", "curve")} == {attrs["data-entry"] for attrs in buttons}


def test_every_reference_inside_the_page_has_a_target():
    elements = Elements(render(DEMO))
    ids = [attrs["id"] for _, attrs in elements.found if "id" in attrs]
    assert len(ids) == len(set(ids))
    local = {attrs["href"][1:] for _, attrs in elements.found if (attrs.get("href") or "").startswith("#")}
    assert local <= set(ids)


def test_claims_tables_and_missing_runs_are_named():
    text = "".join(Elements(render(DEMO)).text)
    for words in (CLAIM.claim, CLAIM.paper, "0.800 to 0.950", "n = 3", "holds", *TABLE.rows[0]):
        assert words in text
    assert "the loss became nan in epoch 3 of stage 1." in text
    assert "not started" in text
    for asked in RESULTS.runs:
        assert asked.spec.run_id in text


def test_hostile_words_stay_words_everywhere():
    bad_figure = figure(replace(panel(curve(HOSTILE, HOSTILE), title=HOSTILE), x_label=HOSTILE, y_label=HOSTILE))
    bad_table = replace(TABLE, caption=HOSTILE, header=(HOSTILE, "b", "c"), rows=((HOSTILE, HOSTILE, HOSTILE),))
    bad_claim = replace(CLAIM, claim=HOSTILE, paper=HOSTILE, measured=HOSTILE, section=HOSTILE, runs=(HOSTILE,))
    bad_info = replace(INFO, title=HOSTILE, question=HOSTILE, command=HOSTILE, study=HOSTILE, scale=HOSTILE)
    bad_info = replace(bad_info, notes=(HOSTILE,))
    bad_names = (HOSTILE, HOSTILE)
    bad_map = replace(heat_map(), title=HOSTILE, rows=bad_names, columns=(*bad_names, HOSTILE), value_label=HOSTILE)
    bad_spread = replace(distribution(), histograms=(histogram(HOSTILE, HOSTILE, position=HOSTILE),))
    bad_run = run(UseAID(), state="failed", reason=HOSTILE)
    text = render(
        replace(bad_figure, caption=HOSTILE, name=HOSTILE),
        figure(bad_map, bad_spread, replace(bars(), positions=bad_names), name="kinds"),
        results=Results((bad_run,)),
        info=bad_info,
        tables=(bad_table,),
        claims=(bad_claim,),
    )
    elements = Elements(text)
    assert elements.open == []
    assert len(elements.of("script")) == len(Elements(render(DEMO)).of("script"))
    assert elements.of("img") == []
    assert "onerror" not in {name for _, attributes in elements.found for name in attributes}
    assert HOSTILE in "".join(elements.text)


def test_scale_and_notes_stand_under_the_title_and_many_notes_are_folded_away():
    noted = replace(study_report(DEMO), notes=tuple(f"Note {i}." for i in range(5)))
    few, many = (
        page(replace(INFO, notes=("Slim networks.",)), RESULTS, report=made, provenance=PROVENANCE)
        for made in (replace(noted, notes=noted.notes[:2]), noted)
    )
    head = "".join(Elements(few[: few.index("</header>")]).text)
    assert all(words in head for words in ("quick: not the paper's protocol: ", "Slim networks.", "Note 1."))
    assert "not the paper's protocol" not in render(DEMO, info=replace(INFO, scale="paper"))
    assert [len(Elements(text).of("details", "folded")) for text in (few, many)] == [0, 1]
    assert all(note in many for note in noted.notes)


def test_a_claim_can_be_traced_to_its_runs():
    ids = tuple(f"{i:016x}" for i in range(150))
    row = replace(CLAIM, section="section 5.1", runs=ids)
    text = render(DEMO, claims=(row,))
    assert "section 5.1" in text
    assert all(one in text for one in ids[:100])
    assert ids[149] not in text
    assert "150 runs" in "".join(Elements(text).text)


def test_tables_show_the_bootstrap_interval_under_the_mean():
    values = np.array([-0.2, 0.6, 0.8])
    low, high = format_mean(values).interval
    table = replace(TABLE, rows=(("AID", format_mean(values), "0.9"),), bold=frozenset({(0, 2)}))
    elements = Elements(render(DEMO, tables=(table,)))
    assert len(elements.of("span", "bootstrap")) == len(elements.of("td", "bold")) == 1
    text = "".join(elements.text)
    assert f"[\N{MINUS SIGN}{-low:.3f} to {high:.3f}]" in text
    assert "In brackets: 95% percentile bootstrap interval" in text


def test_a_claim_over_groups_shows_a_line_for_each_with_its_verdict_and_its_parts():
    leaf = Part(name="a place", measured="0.1: fall", interval=None, n=3, verdict="fails")
    group = Part(
        name="CBP",
        measured="holds in 0 of 1",
        remark="may be chance",
        parts=(leaf,),
        interval=None,
        n=3,
        verdict="not decided",
    )
    row = replace(CLAIM, measured="holds in 1 of 2", parts=(group, replace(leaf, name="ReDo", verdict="holds")))
    elements = Elements(render(DEMO, claims=(row,), results=Results(RESULTS.finished)))
    marks = [attrs["title"] for attrs in elements.of("i")]
    assert marks == ["CBP: not decided", "a place: fails", "ReDo: holds"]
    assert len(elements.of("span", "parts")) == 2
    text = "".join(elements.text)
    assert "not decided, CBP: holds in 0 of 1; may be chance" in text
    assert "fails, a place: 0.1: fall" in text
    alone = Elements(render(DEMO, claims=(replace(row, parts=(leaf,)),), results=Results(RESULTS.finished)))
    assert [attrs["title"] for attrs in alone.of("i")] == ["a place: fails"]
    assert [attrs["class"] for attrs in alone.of("i")] == ["fails"]


def test_why_a_claim_is_not_decided_stands_on_the_page_and_in_each_table(tmp_path):
    part = Part(name="a", measured="0.1", interval=None, n=3, verdict="fails")
    row = replace(CLAIM, measured="holds in 0 of 4", parts=(part,), remark="after 4 looks that may be chance")
    write_report(tmp_path, INFO, results=RESULTS, report=study_report(DEMO, claims=(row,)))
    tables = [f"{INFO.stem('claims')}.{kind}" for kind in ("md", "tex", "csv")]
    for name in (f"{INFO.study}.html", *tables):
        assert row.remark in (tmp_path / name).read_text(), name


def test_page_says_in_which_precision_and_where_the_runs_were_made():
    one, several = (
        "".join(Elements(render(DEMO, results=Results(runs))).text)
        for runs in ((run(),), (run(), run(seed=1), replace(run(seed=2), device="cuda")))
    )
    assert "float32 (fp32)" in one
    assert "float32 (fp32), 2 runs; TensorFloat-32 (tf32), 1 run" in several
    assert "cpu, 2 runs; cuda, 1 run" in several
    facts = [{"hardware": "an H200", "commit": commit, "versions": {"torch": "2.13"}} for commit in ("abc", "def")]
    runs = tuple(run(seed=seed, facts=one) for seed, one in enumerate(facts))
    text = "".join(Elements(render(DEMO, results=Results(runs))).text)
    assert all(words in text for words in ("cpu: an H200", "2 different ones: abc, def", "torch 2.13"))


def test_missing_runs_are_told_apart_by_condition_and_settings():
    cells = [(p, condition) for condition in ("CNN", "VGG") for p in (0.7, 0.9)]
    runs = tuple(
        run(UseAID(relu_prob=p), seed=seed, state="waiting" if (p, condition) == (0.9, "VGG") else "done", **more)
        for p, condition in cells
        for seed, more in ((0, {"condition": condition}), (1, {"condition": condition}))
    )
    (group,) = missing_groups(Results(runs))
    told = [group[key] for key in ("method", "settings", "place", "seeds", "num_runs")]
    assert told == ["aid", "relu prob 0.9", ", VGG", "0, 1", 2]
    text = " ".join("".join(Elements(render(DEMO, results=Results(runs))).text).split())
    assert "aid (relu prob 0.9), VGG, seeds 0, 1: not started" in text


def test_missing_runs_are_counted_by_how_they_stand():
    states = ("failed", "diverged", "failed", "waiting", "damaged", "interrupted")
    results = Results((run(), *(run(seed=seed, state=state) for seed, state in enumerate(states, start=1))))
    words = "6 of 7 runs did not finish: 1 diverged, 1 damaged, 2 failed, 1 interrupted, 1 not started."
    assert missing_words(results) == words
    assert words in " ".join("".join(Elements(render(DEMO, results=results)).text).split())
    whole = Results(RESULTS.finished)
    assert missing_words(whole) == ""
    assert 'id="missing"' not in render(DEMO, results=whole)


def test_seeds_are_those_that_ended():
    few = Results((run(seed=0), run(seed=1), run(seed=2, state="waiting"), run(seed=3, state="interrupted")))
    assert ("seeds", "2 of 4") in facts(INFO, few)
    assert ("seeds", "2") in facts(INFO, RESULTS)


def test_page_without_any_runs_says_so_and_speaks_of_no_scale_of_runs():
    text = render(figure(panel()), results=Results(()), tables=(replace(TABLE, rows=()),), claims=())
    elements = Elements(text)
    assert elements.open == []
    words = "".join(elements.text)
    assert words.count("no finished runs yet") == 3  # two drawings and a table
    assert "nothing is trained" in words
    for strange in ("not the paper's protocol", "0 of 0", "time spent", "0 runs", "runs trained on", "over seeds lies"):
        assert strange not in words
    assert all(usual in "".join(Elements(render(DEMO)).text) for usual in ("not the paper's protocol", "time spent"))


def test_page_of_a_large_study_stays_under_two_megabytes():
    curves = [curve(f"m{i}", f"method {i}", num_seeds=8, num_positions=800) for i in range(18)]
    large = tuple(figure(*(panel(*curves) for _ in range(2)), name=f"figure_{i}") for i in range(2))
    labels = {"condition": "permuted input, SGD 0.003", "facts": {"versions": {"supple": "0.1.0"}}}
    runs = tuple(
        run(UseAID(relu_prob=seed / 3000), seed=seed, state="failed", reason=f"{seed} " * 20, **labels)
        for seed in range(3000)
    )
    part = Part(name="permuted input, SGD 0.003: a method", measured="0.1 ± 0.1: fall (above 0.05?)", **CELL)
    claims = (replace(CLAIM, parts=(part,) * MAX_PARTS, runs=tuple(one.spec.run_id for one in runs)),) * 8
    rows = (tuple(format_mean(np.array([0.1, 0.2, 0.4])) for _ in range(10)),) * 40
    tables = (replace(TABLE, header=("a",) * 10, rows=rows),)
    text = render(*large, results=Results(runs), claims=claims, tables=tables)
    assert 300_000 < len(text.encode()) <= 2_000_000
    assert f"And {3000 - MAX_ROWS} more; sample.json names every run." in "".join(Elements(text).text)


def test_thinning_keeps_the_last_point_and_says_so():
    long = figure(panel(curve(num_positions=3 * MAX_POINTS - 1)))
    kept = thinned([long])[0]
    assert len(kept.panels[0].curves[0].x) <= MAX_POINTS
    assert kept.panels[0].curves[0].x[-1] == long.panels[0].curves[0].x[-1]
    assert kept.caption == "A caption. (The page shows one point in 3.)"
    assert thinned([DEMO]) == [DEMO]
    x = np.arange(2.0 * MAX_POINTS)
    scores = Line(method="aid", label="IQM", x=x, middle=x, low=x - 1, high=x + 1, n=85)
    kept = thinned([figure(panel(scores), bars())])[0]
    assert (kept.panels[0].curves[0].high - kept.panels[0].curves[0].x == 1).all()
    assert len(kept.panels[0].curves[0].middle) == MAX_POINTS
    assert len(kept.panels[1].bars[0].x) == 2


def test_report_folder_has_every_promised_file(tmp_path):
    index = write_report(tmp_path / "a" / "report", INFO, results=RESULTS, report=study_report(DEMO))
    assert index == tmp_path / "a" / "report" / "index.html"
    names = {path.name for path in index.parent.iterdir()}
    assert names == {
        *("index.html", "sample.html", "sample.json", "sample_accuracy.png", "sample_accuracy.pdf"),
        *("sample_ends.md", "sample_ends.tex", "sample_ends.csv"),
        *("sample_claims.md", "sample_claims.tex", "sample_claims.csv"),
    }
    assert all(path.stat().st_size > 0 for path in index.parent.iterdir())
    links = {attrs["href"] for attrs in Elements(index.read_text()).of("a") if not attrs["href"].startswith("#")}
    assert links
    assert all((index.parent / link).is_file() for link in links)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    write_report(index.parent, INFO, results=RESULTS, report=study_report(DEMO))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before  # replaced, and no parts are left
