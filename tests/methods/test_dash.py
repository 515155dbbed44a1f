"""DASH: a network that stays as it is until the end, and what is left or refused."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from by_hand import copied_state, learner_of, linear, three_units
from supple.learner import Learner
from supple.methods import DASH


def product_loss(outputs, targets):
    """With a unit matrix as the inputs of a linear layer, its weight's gradient is the targets transposed."""
    return (outputs * targets).sum()


def one_layer(weight, bias=None):
    model = linear(weight, bias)
    return model, Learner(model, torch.optim.SGD(model.parameters()), loss=product_loss)


def test_weights_without_gradient_go_to_the_floor():
    model, learner = one_layer([[1.0, 2.0]])
    DASH(floor=0.5).begin_stage(learner, {}, [(torch.eye(2), torch.zeros(2, 1))], 1)
    assert model.weight.tolist() == [[0.5, 1.0]]


def test_network_stays_as_it_is_until_all_batches_are_seen():
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)).eval()
    before, seen = copied_state(model), []

    def loss(outputs, targets):
        seen.append(all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items()))
        return F.cross_entropy(outputs, targets)

    learner = Learner(model, torch.optim.SGD(model.parameters()), loss=loss)
    data = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(3)]
    DASH(floor=0.5).begin_stage(learner, {}, data, 1)
    assert seen == [True] * 3
    assert not model.training
    assert all(p.grad is None for p in model.parameters())
    changed = {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed == {"0.weight", "0.bias", "3.weight", "3.bias"}


def test_used_up_data_is_refused():
    _, learner = one_layer([[1.0, 2.0]])
    with pytest.raises(ValueError, match=r"DASH\.begin_stage needs the batches .* not a generator that is used up"):
        DASH().begin_stage(learner, {}, iter(()), 1)


def test_norms_stay_without_a_word(recwarn):
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.LayerNorm((2, 2, 2)), nn.Flatten(), nn.Linear(8, 2))
    DASH().init(Learner(model, torch.optim.SGD(model.parameters()), loss=F.cross_entropy))
    assert not recwarn.list


def test_directions_are_remembered_only_between_steps():
    learner = learner_of(three_units())
    assert DASH().init(learner) == {}
    assert list(DASH(every=7).init(learner)) == [f"direction.{name}" for name, _ in learner.model.named_parameters()]
