"""Unit axis: the dimension it names has as many entries as there are units, of a batch and of a single sample."""

import pytest
import torch
from torch import nn

from supple.metrics.unit_axis import columns_last, has_unit_entries, norm_axis, unit_axis

UNITS = 6  # unlike every other size here
MAP = torch.arange(2.0 * UNITS * 4 * 5).view(2, UNITS, 4, 5)


@pytest.mark.parametrize(
    ("layer", "x"),
    [
        (nn.Linear(3, UNITS), torch.zeros(2, 3)),
        (nn.Linear(3, UNITS), torch.zeros(2, 5, 3)),
        (nn.Conv1d(3, UNITS, 1), torch.zeros(2, 3, 4)),
        (nn.Conv2d(3, UNITS, 1), torch.zeros(2, 3, 4, 5)),
        (nn.ConvTranspose2d(3, UNITS, 1), torch.zeros(2, 3, 4, 5)),
    ],
)
def test_a_layer_has_its_units_there_with_and_without_a_batch(layer, x):
    axis = unit_axis(layer)
    assert x.shape[axis] == 3
    assert layer(x).shape[axis] == layer(x[0]).shape[axis] == UNITS


@pytest.mark.parametrize(
    ("norm", "x"),
    [
        (nn.BatchNorm2d(UNITS), MAP),
        (nn.GroupNorm(2, UNITS), MAP),
        (nn.LayerNorm(UNITS), MAP.movedim(1, -1)),
        (nn.RMSNorm(UNITS), MAP.movedim(1, -1)),
    ],
)
def test_a_norm_has_its_entries_there(norm, x):
    assert has_unit_entries(norm)
    assert x.shape[norm_axis(norm, norm(x))] == len(norm.weight)


@pytest.mark.parametrize("module", [nn.LayerNorm((4, 5)), nn.LocalResponseNorm(2), nn.Linear(3, UNITS)])
def test_what_has_no_entry_for_each_unit_is_no_such_norm(module):
    assert not has_unit_entries(module)


def test_columns_are_units_and_rows_are_samples_and_positions():
    rows = columns_last(MAP, -3)
    assert rows.shape == (2 * 4 * 5, UNITS)
    assert torch.equal(rows[4 * 5 + 5 + 2], MAP[1, :, 1, 2])
    assert torch.equal(columns_last(MAP[0, :, 0, 0], -1), MAP[:1, :, 0, 0])
