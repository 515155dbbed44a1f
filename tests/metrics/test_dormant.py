import pytest
import torch
from known import channel_net, unit_net
from torch import nn

from supple import AID, CReLU, Fourier
from supple.metrics.observe import observe
from supple.metrics.units import DormantRatio, dormant_scores


def ratios(network, inputs):
    return DormantRatio().measure(observe(network, inputs))


def test_scores_are_measured_against_the_layer_mean_at_every_tau():
    # |h| on average: 0, 0.05, 0.2, 3.75; mean 1; scores the same numbers.
    inputs = torch.tensor([[-1.0, 0.1, 0.4, 7.5], [-2.0, -5.0, -3.0, -1.0]])
    metric = DormantRatio(taus=(0.0, 0.049, 0.051, 0.21, 3.8))
    got = metric.measure(observe(unit_net(4, nn.ReLU()), inputs))
    assert got == {
        "dormant_ratio": 0.25,
        "dormant_ratio_0.049": 0.25,
        "dormant_ratio_0.051": 0.5,
        "dormant_ratio_0.21": 0.75,
        "dormant_ratio_3.8": 1.0,
    }


def test_unit_whose_score_is_tau_itself_is_dormant():
    observation = observe(unit_net(3, nn.ReLU()), torch.tensor([[0.5, 1.0, 1.5]]))
    tau = dormant_scores(observation.sites[0].magnitude)[1].item()
    (ratio,) = DormantRatio(taus=(tau,)).measure(observation).values()
    assert ratio == pytest.approx(2 / 3)


def test_default_thresholds_are_those_of_the_papers():
    assert list(ratios(unit_net(2, nn.ReLU()), torch.ones(1, 2))) == [
        "dormant_ratio",
        "dormant_ratio_0.025",
        "dormant_ratio_0.1",
    ]


def test_layer_that_is_zero_everywhere_is_dormant_as_a_whole():
    assert set(ratios(unit_net(5, nn.ReLU()), -torch.rand(3, 5) - 0.1).values()) == {1.0}


def test_units_weigh_alike_whatever_their_layer():
    # 6 units, of which 3 dead, then 2 units, none dead: 3 of 8, not the mean of 1/2 and 0.
    network = nn.Sequential(unit_net(6, nn.ReLU())[:2], nn.Linear(6, 2), nn.ReLU(), nn.Linear(2, 1))
    nn.init.ones_(network[1].weight)
    nn.init.zeros_(network[1].bias)
    inputs = torch.tensor([[1.0, 2.0, 3.0, -1.0, -2.0, -3.0]])
    assert ratios(network, inputs)["dormant_ratio"] == 3 / 8


def test_planted_dead_channels_are_found():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 10, 3), nn.BatchNorm2d(10), nn.ReLU(), nn.Flatten(), nn.Linear(10 * 6 * 6, 2))
    with torch.no_grad():  # after the norm, so that only z at the activation shows it
        network[1].weight[[1, 4, 7]] = 0.0
        network[1].bias[[1, 4, 7]] = -1.0
    assert ratios(network, torch.randn(20, 3, 8, 8))["dormant_ratio"] == pytest.approx(0.3)


def test_channel_that_fires_at_one_position_of_one_image_is_not_dormant_at_zero():
    images = -torch.ones(4, 2, 3, 3)
    images[:, 0] = 1.0
    images[3, 1, 2, 2] = 0.01
    # Channel 1: mean |h| = 0.01 / 36; score 2 * (0.01 / 36) / (1 + 0.01 / 36), about 0.00056.
    assert ratios(channel_net(2, nn.ReLU()), images) == {
        "dormant_ratio": 0.0,
        "dormant_ratio_0.025": 0.5,
        "dormant_ratio_0.1": 0.5,
    }


@pytest.mark.parametrize("build", [unit_net, channel_net])
def test_crelu_unit_is_dormant_only_if_both_of_its_columns_are(build):
    # Unit 0 is always positive, unit 1 always negative, unit 2 always zero: one of three units, four of six columns.
    inputs = torch.tensor([1.0, -1.0, 0.0]).expand(5, 3)
    inputs = inputs if build is unit_net else inputs[:, :, None, None].expand(5, 3, 2, 2)
    assert ratios(build(3, CReLU(), expansion=2), inputs)["dormant_ratio"] == pytest.approx(1 / 3)


def test_crelu_score_is_the_mean_over_both_columns():
    # |z| on average 1 and 3: scores 0.5 and 1.5. By columns, 0, 1, 0, 3 would give scores 0, 1, 0, 3.
    inputs = torch.tensor([[1.0, -3.0], [1.0, -3.0]])
    metric = DormantRatio(taus=(0.49, 0.51, 1.49, 1.51))
    assert list(metric.measure(observe(unit_net(2, CReLU(), expansion=2), inputs)).values()) == [0, 0.5, 0.5, 1]


def test_fourier_unit_is_never_dormant():
    inputs = torch.zeros(4, 3)  # sin 0 = 0, but cos 0 = 1
    assert set(ratios(unit_net(3, Fourier(), expansion=2), inputs).values()) == {0.0}


def test_aid_has_no_dormant_unit_where_relu_has_all():
    inputs = -torch.rand(8, 4) - 0.1
    assert ratios(unit_net(4, AID(0.9)), inputs)["dormant_ratio"] == 0.0
    assert ratios(unit_net(4, nn.ReLU()), inputs)["dormant_ratio"] == 1.0


def test_unit_a_billionth_as_strong_as_its_layer_counts_as_silent():
    inputs = torch.tensor([[1.0, 1.0, 1e-9]])  # score 1.5e-9; the next one would be 1.5e-7
    assert ratios(unit_net(3, nn.ReLU()), inputs)["dormant_ratio"] == pytest.approx(1 / 3)
    assert ratios(unit_net(3, nn.ReLU()), torch.tensor([[1.0, 1.0, 1e-7]]))["dormant_ratio"] == 0.0


def test_negative_threshold_is_refused():
    with pytest.raises(ValueError, match=r"DormantRatio.taus are thresholds of a score, at least 0; got \(-0.1,\)"):
        DormantRatio(taus=(-0.1,))
