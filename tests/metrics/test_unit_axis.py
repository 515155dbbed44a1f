"""Unit axis: the dimension it names has as many entries as there are units, of a batch and of a single sample."""

from contextlib import closing

import pytest
import torch
from torch import nn

from supple.metrics.sites import SiteRecorder, is_unit_norm, unit_axis

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
    axis = unit_axis(layer, x)
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
    assert is_unit_norm(norm)
    assert x.shape[unit_axis(norm, norm(x))] == len(norm.weight)


@pytest.mark.parametrize("module", [nn.LayerNorm((4, 5)), nn.LocalResponseNorm(2), nn.Linear(3, UNITS)])
def test_what_has_no_entry_for_each_unit_is_no_such_norm(module):
    assert not is_unit_norm(module)


def test_columns_of_the_features_are_units_and_rows_are_samples_and_positions():
    for x in (MAP, MAP[0]):
        with closing(SiteRecorder(nn.Sequential(nn.Conv2d(UNITS, 3, 1)))) as recorder:
            recorder.model(x)
        assert torch.equal(recorder.features, x.movedim(-3, -1).reshape(-1, UNITS))
