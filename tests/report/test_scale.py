"""Scales: places and ticks on linear, logarithmic and symmetric-logarithmic axes."""

from dataclasses import replace

import numpy as np
import pytest
from samples import bars, curve, distribution, panel

from supple_lab.report.axes import axes_of
from supple_lab.report.figure import Curve, Panel
from supple_lab.report.scale import backward, forward, share, ticks

SCALES = ["linear", "log", "symlog"]


def panel_of(values, **options):
    made = Curve(method="aid", label="AID", x=np.arange(1.0, len(values) + 1), values=np.array([values], dtype=float))
    return Panel(title="t", x_label="x", y_label="y", curves=(made,), **options)


@pytest.mark.parametrize("scale", SCALES)
def test_backward_undoes_forward_and_order_is_kept(scale):
    values = np.array([1e-3, 0.5, 1.0, 30.0, 2500.0])
    np.testing.assert_allclose(backward(forward(values, scale), scale), values)
    assert (np.diff(forward(values, scale)) > 0).all()


@pytest.mark.parametrize("scale", SCALES)
def test_ends_of_the_range_are_the_ends_of_the_axis(scale):
    np.testing.assert_allclose(share(np.array([0.1, 40.0]), (0.1, 40.0), scale), [0.0, 1.0])


def test_symlog_shows_both_a_small_and_a_large_drift():
    small, large = share(np.array([-3.0, -2500.0]), (-2500.0, 0.0), "symlog")
    assert large == 0
    assert 0.5 < small < 0.9  # on a linear axis it would be 0.999, one with zero


def test_a_logarithm_has_no_place_for_zero():
    assert np.isnan(forward(np.array([0.0, -1.0]), "log")).all()


@pytest.mark.parametrize(
    ("ends", "scale", "expected"),
    [
        ((0.005, 2.0), "log", [0.01, 0.1, 1.0]),
        ((2.0, 30.0), "log", [2.0, 5.0, 10.0, 20.0]),  # less than two decades
        ((-2500.0, 3.0), "symlog", [-1000.0, -100.0, -10.0, -1.0, 0.0, 1.0]),
        ((0.0, 1.0), "linear", [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
    ],
)
def test_ticks_are_round_and_inside(ends, scale, expected):
    assert ticks(ends, scale, 6) == pytest.approx(expected)


@pytest.mark.parametrize("scale", SCALES)
def test_axes_hold_every_curve_with_room_to_spare(scale):
    values = np.array([0.02, 5.0, 800.0])
    low, high = axes_of(panel_of(values, y_scale=scale)).y_range
    assert low < 0.02
    assert high > 800.0


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("values", [[], [2.0], [np.nan, np.nan], [0.0, 0.0]])
def test_axes_of_little_or_nothing_are_still_axes(scale, values):
    axes = axes_of(panel_of(values, y_scale=scale, x_scale=scale))
    assert axes.y_range[1] > axes.y_range[0]
    assert np.isfinite(axes.up(np.array(axes.y_range))).all()
    assert np.isfinite(axes.across(np.array(axes.x_range))).all()


def test_bars_stand_on_zero():
    assert axes_of(bars()).y_range[0] == 0
    assert [name for _, name in axes_of(bars()).x_ticks(8)] == ["first", "last"]


def test_axes_of_a_distribution_hold_every_bin():
    low, high = axes_of(distribution()).y_range
    assert low < min(one.edges[0] for one in distribution().histograms)
    assert high > max(one.edges[-1] for one in distribution().histograms)


def test_numbers_are_shown_to_a_thousandth_of_a_linear_axis_and_to_four_digits_of_another():
    assert axes_of(panel(curve())).show(-0.12345) == "−0.123"
    assert axes_of(panel_of([1.0, 2500.0], y_scale="symlog")).show(-2512.345) == "−2512"


def test_stages_are_marked_at_whole_numbers_only():
    two, one = (axes_of(replace(panel(curve(num_positions=number)), y_range=None)) for number in (2, 1))
    assert [label for _, label in two.x_ticks(8)] == ["1", "2"]
    assert [label for _, label in one.x_ticks(8)] == ["1"]
    shares = replace(curve(num_positions=2), x=np.array([0.5, 0.75]))
    assert len(axes_of(panel(shares)).x_ticks(8)) > 2


@pytest.mark.parametrize("value", [0.1, -3.0, 0.0])
def test_a_single_value_does_not_pull_the_axis_across_zero(value):
    flat = replace(curve(), values=np.full((3, 6), value))
    labels = [at for at, _ in axes_of(replace(panel(flat), y_range=None, levels=())).y_ticks(6)]
    assert min(labels) <= value <= max(labels)
    assert value == 0 or all(at * value >= 0 for at in labels)
