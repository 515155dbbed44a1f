"""Pictures: what is drawn, and what the files are."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_hex
from samples import curve, figure, panel

from supple_lab.report.colours import LOOKS, look_of
from supple_lab.report.figure import legend_of
from supple_lab.report.picture import picture, picture_files, spread

DEMO = figure(panel(curve("vanilla", "ReLU", seed=1), curve("dropout", "Dropout", seed=2), curve("aid", "AID", seed=3)))


def drawn(axes, gid):
    return [artist for artist in axes.get_children() if (artist.get_gid() or "").partition("-")[0] == gid]


def test_a_method_has_the_same_colour_in_every_figure():
    for one in (DEMO, figure(panel(curve("aid", "AID")), panel(curve("cbp", "CBP"), curve("aid", "AID")))):
        lines = [line for axes in picture(one).axes for line in drawn(axes, "curve") if line.get_label() == "AID"]
        assert {to_hex(line.get_color()) for line in lines} == {look_of("aid").light}


def test_aid_has_the_thickest_line_on_top():
    lines = drawn(picture(DEMO).axes[0], "curve")
    assert max(lines, key=lambda line: line.get_linewidth()).get_label() == "AID"
    assert max(lines, key=lambda line: line.get_zorder()).get_label() == "AID"


def test_few_curves_are_named_at_their_ends_and_many_in_a_legend():
    few = picture(DEMO)
    assert not few.legends
    assert {"ReLU", "Dropout", "AID"} <= {text.get_text() for text in few.axes[0].texts}
    many = picture(figure(panel(*(curve(f"m{i}", f"m{i}") for i in range(9)))))
    assert [text.get_text() for text in many.legends[0].get_texts()] == [f"m{i}" for i in range(9)]


def test_panels_share_one_legend_without_repeats():
    shown = picture(figure(*(panel(curve("aid", "AID"), curve("cbp", "CBP")) for _ in range(4))))
    assert len(shown.axes) == 4
    assert [text.get_text() for text in shown.legends[0].get_texts()] == ["AID", "CBP"]


def test_two_methods_of_one_colour_have_bars_of_their_own():
    names = ("redo", "layer_norm", "aid")
    looks = legend_of(figure(panel(*(curve(name, name) for name in names)))).values()
    assert [look.light == LOOKS["redo"].light for look in looks] == [True, True, False]
    assert [look.fill for look in looks] == [1.0, 0.3, 1.0]


def test_files_are_png_and_pdf_and_do_not_change_between_two_writes():
    files = picture_files(DEMO)
    assert files["png"].startswith(b"\x89PNG")
    assert files["pdf"].startswith(b"%PDF")
    width, height = (int.from_bytes(files["png"][start : start + 4]) for start in (16, 20))
    assert (width, height) == (1440, 800)
    assert picture_files(DEMO) == files


def test_spread_leaves_distant_labels_alone_and_moves_close_ones_apart():
    assert spread([0.9, 0.1, 0.5], 0.1) == pytest.approx([0.9, 0.1, 0.5])
    assert spread([0.11, 0.10, 0.9], 0.1) == pytest.approx([0.155, 0.055, 0.9])
    assert spread([0.5, 0.5, 0.5], 0.1) == pytest.approx([0.4, 0.5, 0.6])
    assert spread([], 0.1) == []


@pytest.mark.parametrize("num_panels", [1, 2, 3])
def test_the_legend_lies_inside_the_picture_however_long_its_names(num_panels):
    curves = [curve("aid", f"ReLU + Dropout with a name of some length {number}") for number in range(8)]
    made = picture(figure(*[panel(*curves)] * num_panels))
    made.canvas.draw()
    box = made.legends[0].get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= made.bbox.width
    assert box.y0 >= 0


def test_every_curve_is_its_mean_with_a_band_over_seeds_and_every_level_a_line():
    axes = picture(DEMO).axes[0]
    assert [line.get_label() for line in drawn(axes, "curve")] == ["ReLU", "Dropout", "AID"]
    assert len(drawn(axes, "band")) == 3
    assert len(drawn(axes, "level")) == 2  # with its name
    values = DEMO.panels[0].curves[2].values
    np.testing.assert_allclose(drawn(axes, "curve")[2].get_ydata(), values.mean(axis=0))
    edges = drawn(axes, "band")[2].get_paths()[0].vertices[:, 1]
    assert (edges.min(), edges.max()) == pytest.approx((values.min(), values.max()))
    alone = picture(figure(panel(curve(num_seeds=1)))).axes[0]
    assert (len(drawn(alone, "curve")), drawn(alone, "band")) == (1, [])


@pytest.mark.parametrize(
    "made",
    [
        figure(),
        figure(panel(replace(curve(), values=np.full((3, 6), np.nan)))),
        figure(panel(curve(label=r"$\broken{"))),
    ],
    ids=["without panels", "without values", "with a dollar sign, which is no mathematics"],
)
def test_odd_figures_are_still_files(made):
    assert picture_files(made)["png"].startswith(b"\x89PNG")
