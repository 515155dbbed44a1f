"""Every kind of panel, as a picture and on the page."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from samples import bars, curve, distribution, figure, heat_map, histogram, panel
from test_page import Elements, data_of, render
from test_plots import drawn

from supple_lab.report.draw import DARK_INK, LIGHT_INK, cells, lightness, violins
from supple_lab.report.figure import NO_EPOCHS, Level, Line, Panel
from supple_lab.report.picture import picture, picture_files
from supple_lab.results.intervals import SEED, bootstrap_interval

KINDS = {
    "curves": panel(curve()),
    "symlog": replace(panel(curve()), y_scale="symlog", y_range=None),
    "bars": bars(),
    "distribution": distribution(),
    "heat map": heat_map(),
}
EMPTY = {
    "curves": replace(panel(curve()), curves=()),
    "bars": replace(bars(), bars=()),
    "distribution": replace(distribution(), histograms=()),
    "heat map": replace(heat_map(), samples=(), rows=(), columns=()),
}


def canvas_of(panel):
    return picture(figure(panel)).axes[0]


def bars_of(panel):
    """The boxes of the bars: left, bottom, width, height."""
    return [bar.get_bbox().bounds for bar in drawn(canvas_of(panel), "bar")]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_a_picture_and_a_well_formed_part_of_the_page(kind):
    made = figure(KINDS[kind])
    assert picture_files(made)["png"].startswith(b"\x89PNG")
    elements = Elements(render(made))
    assert elements.open == []
    assert KINDS[kind].title in elements.of("svg", "axes")[0]["aria-label"]


@pytest.mark.parametrize("kind", EMPTY)
def test_every_kind_without_runs_says_so(kind):
    made = figure(EMPTY[kind])
    assert "no finished runs yet" in [text.get_text() for text in picture(made).axes[0].texts]
    assert "no finished runs yet" in "".join(Elements(render(made)).text)
    if kind == "curves":
        text = render(figure(replace(EMPTY[kind], nothing=NO_EPOCHS)))
        assert NO_EPOCHS in "".join(Elements(text).text)
        assert "finished runs yet" not in text.lower()


def test_panels_fill_a_grid_of_the_asked_number_of_columns():
    made = replace(figure(*KINDS.values()), columns=2)
    places = [canvas.get_subplotspec() for canvas in picture(made).axes if canvas.get_subplotspec()]
    assert {place.get_gridspec().ncols for place in places if place.get_gridspec().nrows == 3} == {2}
    assert Elements(render(made)).of("div", "panels")[0]["style"] == "--columns:2"


@pytest.mark.parametrize("band", ["range", "deviation"])
def test_band_is_what_the_curve_says(band):
    made = curve(num_seeds=4, band=band)
    column = made.values[:, 2]
    expected = {
        "range": (column.min(), column.max()),
        "deviation": (column.mean() - column.std(ddof=1), column.mean() + column.std(ddof=1)),
    }
    assert (made.low[2], made.high[2]) == pytest.approx(expected[band])


def test_bars_stand_side_by_side_on_zero_and_reach_the_mean():
    boxes = sorted(bars_of(bars()))
    assert len(boxes) == 4
    assert all(left >= before + width for (before, _, width, _), (left, *_) in pairwise(boxes))
    assert {bottom for _, bottom, _, _ in boxes} == {0.0}
    heights = [height for _, _, _, height in boxes]
    assert heights == pytest.approx([line.middle[place] for place in (0, 1) for line in bars().bars])
    assert canvas_of(bars()).get_ylim()[0] == 0
    assert [label.get_text() for label in canvas_of(bars()).get_xticklabels()] == ["first", "last"]


def test_a_negative_bar_hangs_from_zero_and_one_without_a_value_is_left_out():
    values = np.array([[-1.0, 1.0, np.nan]])
    hanging = Line.over_seeds(method="aid", label="AID", x=np.arange(3), values=values)
    made = replace(bars(), positions=("first", "second", "last"), bars=(hanging,))
    assert [(bottom, height) for _, bottom, _, height in bars_of(made)] == [(0.0, -1.0), (0.0, 1.0)]
    assert len(Elements(render(figure(made))).of("g", "bar")) == 2 * 2  # for a desktop and for a phone


def test_further_bars_of_a_method_are_paler():
    twice = replace(bars(), bars=tuple(curve(label=label, num_positions=2, first=0) for label in ("cold", "warm")))
    assert [bar.get_facecolor()[3] for bar in drawn(canvas_of(twice), "bar")] == [1.0, 1.0, 0.3, 0.3]


def test_a_violin_is_as_wide_as_its_bins_are_dense():
    made = histogram()
    violin = violins(replace(distribution(), histograms=(made,), y_scale="linear"))[0]
    widths = violin.half_widths[::2]
    np.testing.assert_allclose(widths / widths.max(), made.shares / made.shares.max())
    assert violin.heights.min() == made.edges[0]


def test_quartiles_lie_where_they_are_said_to():
    lines = drawn(canvas_of(distribution()), "quartile")
    assert len(lines) == 3 * 4
    heights = {round(line.get_segments()[0][0][1], 6) for line in lines}
    assert heights == {round(q, 6) for one in distribution().histograms for q in one.quartiles}
    data = data_of(render(figure(distribution())))[0][0]  # under the pointer
    assert data["names"] == ["stage 1", "stage 30"]
    dropout = next(one for one in data["curves"] if one["entry"] == 0)
    assert dropout["middle"][1] == pytest.approx(distribution().histograms[2].quartiles[1], rel=1e-4)


def test_cells_above_the_reference_are_bold_and_empty_ones_have_no_colour():
    bold = [cell.bold for cell in cells(heat_map())]
    assert bold == [False, True, True, False, False, False]
    assert [cell.shade is None for cell in cells(heat_map())] == [False, False, False, False, True, False]
    weights = [text.get_fontweight() for text in canvas_of(heat_map()).texts if text.get_text().startswith("0.")]
    assert weights == ["normal", "bold", "bold", "normal", "normal"]


@pytest.mark.parametrize("value", [0.5, 0.9])
def test_reference_is_marked_on_the_colour_bar_also_outside_the_values(value):
    made = replace(heat_map(), reference=Level(label="full reset", value=value))
    bar = picture(figure(made)).axes[1]
    assert {line.get_xdata()[0] for line in drawn(bar, "reference")} == {value}
    assert bar.get_xlim() == pytest.approx((0.38, max(0.55, value)))
    assert any(cell.bold for cell in cells(made)) is (value == 0.5)


def test_a_cell_under_the_pointer_tells_mean_deviation_interval_and_number_of_seeds():
    values = heat_map().samples[0][1]
    low, high = bootstrap_interval(values, np.random.default_rng(SEED))
    one_seed, diverged, equal = np.array([0.4]), np.array([0.4, np.nan, np.nan]), np.array([0.5])
    made = replace(heat_map(), samples=((one_seed, values, diverged), (equal, *heat_map().samples[1][1:])))
    said = [attrs["data-tip"].split("\n")[1:] for attrs in Elements(render(figure(made))).of("g", "cell")]
    assert said[0] == ["value 0.400", "n = 1", "0.100 below full reset"]
    assert said[1] == ["mean 0.520 ± 0.012", f"95% bootstrap {low:.3f} to {high:.3f}, n = 3", "0.020 above full reset"]
    assert said[2] == ["2 of 3 runs without a value"]
    assert said[3] == ["value 0.500", "n = 1", "equal to full reset"]
    assert said[4] == ["no finished runs yet"]
    assert f"0.520 ± 0.012 [{low:.3f} to {high:.3f}]" in "".join(Elements(render(figure(made))).text)


def test_lightness_rises_along_the_colours_so_that_grey_prints_read_the_same():
    steps = np.array([lightness(share) for share in np.linspace(0, 1, 64)])
    assert (np.diff(steps) > 0).all()


def test_ink_has_contrast_on_every_colour():
    names = tuple(map(str, range(10)))
    one_seed = tuple(tuple(np.linspace(0, 1, 60).reshape(6, 10, 1)[row]) for row in range(6))
    made = replace(heat_map(), samples=one_seed, rows=names[:6], columns=names, reference=None)
    for cell, value in zip(cells(made), made.values.ravel(), strict=True):
        light = {DARK_INK: 0.0, LIGHT_INK: 1.0}[cell.ink]
        bright, dark = sorted((light, lightness(float(value))), reverse=True)
        assert (bright + 0.05) / (dark + 0.05) >= 4.5  # WCAG 2.1, AA


@pytest.mark.parametrize("kind", EMPTY)
def test_what_was_not_run_is_named_in_the_caption_and_not_drawn(kind):
    full, empty = KINDS[kind], replace(EMPTY[kind], title="not run at all")
    made = figure(full, empty).filled()
    assert made.panels == (full,)
    assert made.caption.endswith("nothing of it has been run: not run at all.")
    for one in (full, EMPTY[kind]):  # all or nothing
        assert figure(one, one).filled() == figure(one, one)


def test_panels_are_left_out_each_for_its_own_reason_and_told_from_drawn_ones_of_the_same_title():
    drawn, lost = panel(curve(), title="CNN"), replace(panel(title="lost"), nothing=NO_EPOCHS)
    caption = figure(drawn, replace(panel(title="CNN"), y_label="loss"), lost).filled().caption
    assert "for nothing of it has been run: CNN (loss). Left out, for there are finished runs, but no logs" in caption


def panel_of(values, **options):
    made = Line.over_seeds(
        method="aid", label="AID", x=np.arange(1.0, len(values) + 1), values=np.array([values], dtype=float)
    )
    return Panel(title="t", x_label="x", y_label="y", curves=(made,), **options)


def labels(axis):
    low, high = sorted(axis.get_view_interval())
    return [
        label.get_text()
        for label in axis.get_ticklabels()
        if low <= label.get_position()[axis.axis_name == "y"] <= high
    ]


SCALES = ["linear", "symlog"]


@pytest.mark.parametrize("scale", SCALES)
def test_axes_hold_every_curve_with_room_to_spare(scale):
    low, high = canvas_of(panel_of([0.02, 5.0, 800.0], y_scale=scale)).get_ylim()
    assert low < 0.02
    assert high > 800.0


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("values", [[], [2.0], [np.nan, np.nan], [0.0, 0.0]], ids=str)
def test_axes_of_little_or_nothing_are_still_axes(scale, values):
    canvas = canvas_of(panel_of(values, y_scale=scale))
    for low, high in (canvas.get_xlim(), canvas.get_ylim()):
        assert np.isfinite(high - low)
        assert low < high


def test_symlog_shows_both_a_small_and_a_large_drift():
    canvas = canvas_of(panel_of([-3.0, -2500.0, 0.0], y_scale="symlog"))
    height = canvas.get_yaxis_transform().transform([(0, -3.0)])[0][1]
    assert 0.5 < canvas.transAxes.inverted().transform((0, height))[1] < 0.9  # on a linear axis it would be one with 0
    assert labels(canvas.yaxis) == ["−1000", "−100", "−10", "−1", "0"]


def test_stages_are_marked_at_whole_numbers_only():
    two, one = (canvas_of(replace(panel(curve(num_positions=number)), y_range=None)) for number in (2, 1))
    assert (labels(two.xaxis), labels(one.xaxis)) == (["1", "2"], ["1"])
    shares = replace(curve(num_positions=2), x=np.array([0.5, 0.75]))
    assert len(labels(canvas_of(panel(shares)).xaxis)) > 2


@pytest.mark.parametrize("value", [0.1, -3.0, 0.0])
def test_a_single_value_does_not_pull_the_axis_across_zero(value):
    low, high = canvas_of(panel_of([value] * 6)).get_ylim()
    assert low < value < high
    assert value == 0 or min(low * value, high * value) == 0
