"""Every kind of panel, as a picture and on the page."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from samples import bars, curve, distribution, figure, heat_map, histogram, panel
from test_page import Elements, data_of, render

from supple_lab.report.axes import axes_of
from supple_lab.report.draw import (
    DARK_INK,
    LIGHT_INK,
    bar_slots,
    cells,
    lightness,
    picture,
    picture_files,
    shade,
    shade_range,
    thumbnail,
    violins,
)
from supple_lab.report.figure import NO_EPOCHS, Curve, Estimate, Level, legend_of
from supple_lab.report.svg.panel_shape import panel_shape
from supple_lab.results.intervals import SEED, bootstrap_interval, mean_interval

KINDS = {
    "curves": panel(curve()),
    "dots": panel(curve(dots=True)),
    "log": replace(panel(curve()), x_scale="log", y_scale="log", y_range=None),
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


def shape_of(panel):
    return panel_shape(panel, legend_of(figure(panel)))


def drawn(canvas, gid):
    return [artist for artist in canvas.get_children() if artist.get_gid() == gid]


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


def test_finished_runs_without_logs_of_epochs_are_not_called_unfinished():
    made = figure(replace(EMPTY["curves"], nothing=NO_EPOCHS))
    assert NO_EPOCHS in [text.get_text() for text in picture(made).axes[0].texts]
    assert NO_EPOCHS in "".join(Elements(render(made)).text)
    assert "finished runs yet" not in render(made).lower()


def test_panels_fill_a_grid_of_the_asked_number_of_columns():
    made = replace(figure(*KINDS.values()), columns=2)
    places = [canvas.get_subplotspec() for canvas in picture(made).axes if canvas.get_subplotspec()]
    assert {place.get_gridspec().ncols for place in places if place.get_gridspec().nrows == 4} == {2}
    assert Elements(render(made)).of("div", "panels")[0]["style"] == "--columns:2"


def test_dots_have_error_bars_and_no_line():
    elements = Elements(render(figure(KINDS["dots"])))
    assert len(elements.of("line", "reach")) == 6
    assert elements.of("path", "line") == []
    assert drawn(picture(figure(KINDS["dots"])).axes[0], "curve")[0].get_linestyle() == "None"


@pytest.mark.parametrize("band", ["range", "deviation", "interval"])
def test_band_is_what_the_curve_says(band):
    made = curve(num_seeds=4, band=band)
    column = made.values[:, 2]
    expected = {
        "range": (column.min(), column.max()),
        "deviation": (column.mean() - column.std(ddof=1), column.mean() + column.std(ddof=1)),
        "interval": mean_interval(column),
    }
    assert (made.low[2], made.high[2]) == pytest.approx(expected[band])


def test_an_estimate_is_drawn_as_given():
    made = Estimate(
        method="aid",
        label="IQM",
        x=np.arange(3),
        middle=np.array([0.25, 0.5, 0.75]),
        low=np.array([0.2, 0.4, 0.7]),
        high=np.array([0.3, 0.6, 0.8]),
        n=85,
    )
    text = render(figure(replace(panel(made), y_range=(0.0, 1.0))))
    assert Elements(text).of("path", "line")[0]["d"] == "M0 75L50 50L100 25"
    assert data_of(text)[0][0]["curves"][0]["n"] == 85


def test_bars_stand_side_by_side_and_reach_the_mean():
    shape = shape_of(bars())
    boxes = sorted((part.left, part.left + part.width) for part in shape.parts)
    assert len(boxes) == 4
    assert all(left >= right for (_, right), (left, _) in pairwise(boxes))
    for part, (line, place, _) in zip(shape.parts, bar_slots(bars()), strict=True):
        assert part.top == pytest.approx(100 - 100 * axes_of(bars()).up(line.middle[place]), abs=0.01)
        assert part.top + part.height == pytest.approx(100, abs=0.02)


def test_a_negative_bar_hangs_from_zero():
    made = replace(bars(), bars=(Curve(method="aid", label="AID", x=np.arange(2), values=np.array([[-1.0, 1.0]])),))
    down, up = shape_of(made).parts
    assert down.top == pytest.approx(up.top + up.height, abs=0.02)


def test_a_bar_without_a_value_is_left_out():
    made = bars()
    made.bars[0].values[1, 0] = np.nan
    assert len(shape_of(made).parts) == 3
    assert len(drawn(picture(figure(made)).axes[0], "bar")) == 3


def test_further_bars_of_a_method_are_paler():
    twice = replace(bars(), bars=tuple(curve(label=label, num_positions=2, first=0) for label in ("cold", "warm")))
    assert [part.look.fill for part in shape_of(twice).parts] == [1.0, 1.0, 0.3, 0.3]


def test_a_violin_is_as_wide_as_its_bins_are_dense():
    made = histogram()
    violin = violins(replace(distribution(), histograms=(made,), y_scale="linear"))[0]
    widths = violin.half_widths[::2]
    np.testing.assert_allclose(widths / widths.max(), made.shares / made.shares.max())
    assert violin.heights.min() == made.edges[0]


def test_quartiles_lie_where_they_are_said_to():
    shape = shape_of(distribution())
    assert len(shape.parts) == 4
    for part in shape.parts:
        tops = [top for _, _, top in part.quartiles]
        assert tops == sorted(tops, reverse=True)
    canvas = picture(figure(distribution())).axes[0]
    heights = {round(line.get_segments()[0][0][1], 6) for line in drawn(canvas, "quartile")}
    assert heights == {round(q, 6) for one in distribution().histograms for q in one.quartiles}


def test_values_under_the_pointer_are_the_quartiles():
    data = data_of(render(figure(distribution())))[0][0]
    assert data["names"] == ["stage 1", "stage 30"]
    dropout = next(one for one in data["curves"] if one["entry"] == 0)
    assert dropout["middle"][1] == pytest.approx(distribution().histograms[2].quartiles[1], rel=1e-4)


def test_cells_above_the_reference_are_bold_and_empty_ones_have_no_colour():
    bold = [cell.bold for cell in cells(heat_map())]
    assert bold == [False, True, True, False, False, False]
    assert [cell.shade is None for cell in cells(heat_map())] == [False, False, False, False, True, False]
    weights = [t.get_fontweight() for t in picture(figure(heat_map())).axes[0].texts if t.get_text().startswith("0.")]
    assert weights == ["normal", "bold", "bold", "normal", "normal"]


def test_reference_is_marked_on_both_colour_bars():
    elements = Elements(render(figure(heat_map())))
    assert elements.of("i")[0]["style"].startswith("left:70.59%")  # (0.5 - 0.38) / (0.55 - 0.38)
    bar = picture(figure(heat_map())).axes[1]
    assert {line.get_ydata()[0] for line in drawn(bar, "reference")} == {0.5}


def test_colours_of_equal_values_go_from_zero_to_twice_the_value():
    made = replace(heat_map(), samples=((np.array([0.1]),) * 3,) * 2, reference=Level(label="full reset", value=0.1))
    assert shade_range(made) == (0.0, 0.2)  # and not below zero, where no accuracy is


def test_reference_outside_the_values_is_still_on_the_bar():
    made = replace(heat_map(), reference=Level(label="full reset", value=0.9))
    assert Elements(render(figure(made))).of("i")[0]["style"].startswith("left:100.0%")
    assert not any(cell.bold for cell in cells(made))


def test_a_cell_under_the_pointer_tells_mean_deviation_interval_and_number_of_seeds():
    values = heat_map().samples[0][1]
    low, high = bootstrap_interval(values, np.random.default_rng(SEED))
    one_seed, diverged, equal = np.array([0.4]), np.array([0.4, np.nan, np.nan]), np.array([0.5])
    made = replace(heat_map(), samples=((one_seed, values, diverged), (equal, *heat_map().samples[1][1:])))
    said = [attrs["data-tip"].split("\n")[1:] for attrs in Elements(render(figure(made))).of("g", "cell")]
    assert said[0] == ["value 0.400", "n = 1", "0.100 below full reset"]
    assert said[1] == [
        "mean 0.520 ± 0.012",
        f"95% bootstrap {low:.3f} to {high:.3f}, n = 3",
        "0.020 above full reset",
    ]
    assert said[2] == ["2 of 3 runs without a value"]
    assert said[3] == ["value 0.500", "n = 1", "equal to full reset"]
    assert said[4] == ["no finished runs yet"]
    assert f"0.520 ± 0.012 [{low:.3f} to {high:.3f}]" in "".join(Elements(render(figure(made))).text)


def test_lightness_rises_along_the_colours_so_that_grey_prints_read_the_same():
    steps = np.array([lightness(share) for share in np.linspace(0, 1, 64)])
    assert (np.diff(steps) > 0).all()
    assert shade(0.0) != shade(1.0)


def test_ink_has_contrast_on_every_colour():
    names = tuple(map(str, range(10)))
    one_seed = tuple(tuple(np.linspace(0, 1, 60).reshape(6, 10, 1)[row]) for row in range(6))
    made = replace(heat_map(), samples=one_seed, rows=names[:6], columns=names, reference=None)
    for cell, value in zip(cells(made), made.values.ravel(), strict=True):
        light = {DARK_INK: 0.0, LIGHT_INK: 1.0}[cell.ink]
        bright, dark = sorted((light, lightness(float(value))), reverse=True)
        assert (bright + 0.05) / (dark + 0.05) >= 4.5  # WCAG 2.1, AA


def test_thumbnail_shows_the_first_panel_small():
    picture_bytes = thumbnail(figure(*(panel(curve()) for _ in range(6))))
    assert int.from_bytes(picture_bytes[16:20]) == 480
    assert picture_bytes == thumbnail(figure(panel(curve())))
    assert len(picture_bytes) < 60_000


@pytest.mark.parametrize("kind", EMPTY)
def test_what_was_not_run_is_named_in_the_caption_and_not_drawn(kind):
    full, empty = KINDS[kind], replace(EMPTY[kind], title="not run at all")
    made = figure(full, empty).filled()
    assert made.panels == (full,)
    assert made.caption.endswith("nothing of it has been run: not run at all.")


def test_what_was_not_run_is_told_from_a_drawn_panel_of_the_same_title():
    full, other = panel(curve(), title="CNN"), replace(panel(title="CNN"), y_label="loss")
    assert figure(full, other).filled().caption.endswith("nothing of it has been run: CNN (loss).")


def test_panels_are_left_out_each_for_its_own_reason():
    lost = replace(panel(title="lost"), nothing=NO_EPOCHS)
    caption = figure(panel(curve()), panel(title="never run"), lost).filled().caption
    assert "for nothing of it has been run: never run. Left out, for there are finished runs, but no logs" in caption


@pytest.mark.parametrize("kind", EMPTY)
def test_a_figure_that_is_full_or_empty_stays_as_it_is(kind):
    for made in (figure(KINDS[kind], KINDS[kind]), figure(EMPTY[kind], EMPTY[kind])):
        assert made.filled() is made
