import pytest
import torch
from known import channel_net, unit_net
from torch import nn

from supple import CReLU
from supple.metrics.observe import observe
from supple.metrics.preactivation import PreactivationHistogram, PreactivationQuartiles

NINE = torch.tensor([[-4.0, -3.0, -2.0], [-1.0, 0.0, 1.0], [2.0, 3.0, 4.0]])


def quartiles(network, inputs):
    return list(PreactivationQuartiles().measure(observe(network, inputs)).values())


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.ReLU(inplace=True), nn.Tanh()])
def test_quartiles_of_minus_four_to_four_are_minus_two_zero_two(activation):
    assert quartiles(unit_net(3, activation), NINE) == [-2.0, 0.0, 2.0]


def test_quartiles_between_two_values_are_interpolated():
    assert quartiles(unit_net(1, nn.ReLU()), torch.tensor([[0.0], [1.0], [2.0], [10.0]])) == [0.75, 1.5, 4.0]


def test_concatenating_activation_is_measured_at_its_input():
    assert quartiles(unit_net(3, CReLU(), expansion=2), NINE) == [-2.0, 0.0, 2.0]


def test_all_positions_of_a_map_count():
    assert quartiles(channel_net(1, nn.ReLU()), NINE[None, None]) == [-2.0, 0.0, 2.0]


def test_last_hidden_site_is_measured_and_an_output_activation_is_not():
    network = unit_net(3, nn.ReLU())
    network = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), *network, nn.Sigmoid())
    expected = network[:2](inputs := torch.randn(50, 2)).detach()
    got = observe(network, inputs)
    assert [site.name for site in got.sites] == ["1", "3"]
    assert torch.equal(got.preactivations, expected)


def test_histogram_shares_are_those_counted_by_hand():
    # Bins of [-4, 4] at width 2: [-4, -2) has 2, [-2, 0) 2, [0, 2) 2, [2, 4] 3 values.
    got = PreactivationHistogram(num_bins=4).measure(observe(unit_net(3, nn.ReLU()), NINE))
    assert got == {
        "preactivation_low": -4.0,
        "preactivation_high": 4.0,
        "preactivation_bin_00": pytest.approx(2 / 9),
        "preactivation_bin_01": pytest.approx(2 / 9),
        "preactivation_bin_02": pytest.approx(2 / 9),
        "preactivation_bin_03": pytest.approx(3 / 9),
    }


def test_histogram_of_one_value_lies_in_the_first_bin():
    got = PreactivationHistogram(num_bins=2).measure(observe(unit_net(2, nn.ReLU()), torch.full((3, 2), 0.5)))
    assert got["preactivation_bin_00"] == 1.0
    assert got["preactivation_bin_01"] == 0.0


def test_histogram_without_bins_is_refused():
    with pytest.raises(ValueError, match="PreactivationHistogram.num_bins must be at least 1; got 0"):
        PreactivationHistogram(num_bins=0)
