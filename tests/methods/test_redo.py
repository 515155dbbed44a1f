"""ReDo: dormant units are found by hand-computed scores, and renewed without hurting the rest."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from by_hand import conv_net, copied_state, learner_of, three_units, train_step
from supple import AID
from supple.learner import Learner
from supple.methods import DASH, ReDo

ONES = [(torch.ones(4, 2), torch.zeros(4))]  # the units of three_units give 2, 1, 0 on it: scores 2, 1, 0


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=1e-2)


@pytest.mark.parametrize(
    ("threshold", "num_dormant"), [(0.0, 1), (0.9, 1), (1.0, 2), (1.9, 2), (2.0, 3), (math.inf, 3)]
)
def test_units_whose_score_is_at_most_the_threshold_are_recycled(threshold, num_dormant):
    model = three_units()
    ReDo(threshold=threshold).end_stage(learner_of(model), {}, ONES)
    expected = torch.tensor([[1.0, 2.0, 3.0], [4.0, -5.0, 6.0]])
    expected[:, 3 - num_dormant :] = 0.0  # the units are ordered from loud to silent
    assert torch.equal(model[2].weight, expected)


def test_layer_that_gives_nothing_is_dormant_as_a_whole():
    model = three_units()
    with torch.no_grad():
        model[0].weight.fill_(-1.0)
        model[0].bias.zero_()
    ReDo().end_stage(learner_of(model), {}, ONES)
    assert not model[2].weight.any()


def dead_conv_net():
    """Channel 1 is dead by its norm; trained for some steps, so that everything has moments."""
    model = conv_net()
    learner = learner_of(model, adam(model))
    for _ in range(3):
        train_step(learner, torch.randn(8, 1, 4, 4))
    model[1].bias.data[1] = -100.0
    return model, learner


def test_logits_stay_when_only_dead_units_are_recycled():
    model, learner = dead_conv_net()
    data, weight = [(torch.randn(16, 1, 4, 4), None)], model[0].weight[1].clone()
    with torch.no_grad():
        before = model.eval()(data[0][0])
        ReDo().end_stage(learner, {}, data)
        assert torch.equal(model(data[0][0]), before)
    assert not torch.equal(model[0].weight[1], weight)


def test_scoring_leaves_mode_statistics_features_and_random_streams_alone():
    model, learner = dead_conv_net()
    learner.features  # noqa: B018
    model.train()
    model[3].eval()
    before, stream = copied_state(model), torch.get_rng_state()
    with torch.no_grad():
        model[1].bias[1] = 0.0
        before["1.bias"][1] = 0.0
    ReDo().end_stage(learner, {}, [(torch.randn(16, 1, 4, 4, generator=torch.Generator()), None)])
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert model.training
    assert not model[3].training
    assert learner.features == {}
    assert torch.equal(stream, torch.get_rng_state())


@pytest.mark.parametrize("method", [ReDo(), DASH()], ids=lambda method: method.name)
@pytest.mark.parametrize("own_generator", [False, True])
def test_order_of_a_shuffled_loader_is_the_one_without_the_method(own_generator, method):
    model, orders = nn.Sequential(nn.Linear(2, 3), AID(0.5), nn.Linear(3, 2)), []
    optimizer, data = torch.optim.SGD(model.parameters()), TensorDataset(torch.randn(32, 2), torch.arange(32) % 2)
    learner = Learner(model, optimizer, example_input=torch.ones(2, 2), loss=F.cross_entropy)
    for is_read in (False, True):
        torch.manual_seed(0)
        generator = torch.Generator().manual_seed(1) if own_generator else None
        loader = DataLoader(data, 8, shuffle=True, generator=generator)
        if is_read:
            method.begin_stage(learner, {}, loader, 1)
            method.end_stage(learner, {}, loader)
        orders.append([x.tolist() for x, _ in loader])
    assert orders[0] == orders[1]


@pytest.mark.gpu
def test_scoring_leaves_the_random_stream_of_the_gpu_alone():
    model, state = three_units().cuda(), torch.cuda.get_rng_state()
    model[1].register_forward_hook(lambda module, args, h: h + torch.rand_like(h))
    ReDo().end_stage(learner_of(model), {}, ONES)
    assert torch.equal(torch.cuda.get_rng_state(), state)


@pytest.mark.parametrize("place", [0, 1])
def test_empty_batch_changes_no_score(place):
    model, data = three_units(), [*ONES]
    data.insert(place, (torch.empty(0, 2), torch.empty(0)))
    ReDo(threshold=1.0).end_stage(learner_of(model), {}, data)
    assert model[2].weight.tolist() == [[1.0, 0.0, 0.0], [4.0, 0.0, 0.0]]


@pytest.mark.parametrize("data", [[], [(torch.empty(0, 2), torch.empty(0))]])
def test_used_up_or_empty_data_is_refused(data):
    with pytest.raises(ValueError, match="got none.*not a generator that is used up"):
        ReDo().end_stage(learner_of(three_units()), {}, iter(data))


X = torch.ones(4, 2)


@pytest.mark.parametrize(
    ("batch", "came"),
    [
        ((X, X, X), "a tuple of 3"),
        ([X], "a list of 1"),
        (X, "a Tensor"),
        ({"x": X, "y": X}, "a dict of x, y"),
        (None, "None"),
        (({"x": X}, X), "a pair whose inputs are a dict of x"),
        ((None, X), "a pair whose inputs are None"),
    ],
)
def test_batch_that_is_no_pair_of_inputs_and_targets_is_refused(batch, came):
    with pytest.raises(TypeError, match=f"pairs of inputs and targets.*a batch here is {came}. Pass a list"):
        ReDo().end_stage(learner_of(three_units()), {}, [batch])
