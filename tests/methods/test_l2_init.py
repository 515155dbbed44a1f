"""L2 Init: a pull towards the initial weights, of all parameters."""

import pytest
import torch
from torch import nn

from by_hand import linear
from supple.learner import Learner
from supple.methods import L2Init


def test_gradient_grows_by_strength_times_the_way_from_the_start():
    model = linear([[1.0, -2.0]], [4.0])
    learner = Learner(model, torch.optim.SGD(model.parameters()))
    with torch.no_grad():
        model.weight += torch.tensor([[2.0, -4.0]])
        model.bias -= 8.0
    model.weight.grad, model.bias.grad = torch.tensor([[0.5, 0.25]]), torch.tensor([0.0])
    L2Init(strength=0.125).after_backward(learner, {})
    assert model.weight.grad.tolist() == [[0.75, -0.25]]  # 0.5 + 0.125 * 2, 0.25 - 0.125 * 4
    assert model.bias.grad.tolist() == [-1.0]


def test_at_the_start_nothing_is_added():
    model = nn.Linear(4, 3)
    learner = Learner(model, torch.optim.SGD(model.parameters()))
    model(torch.randn(8, 4)).square().sum().backward()
    before = [p.grad.clone() for p in model.parameters()]
    L2Init(strength=100.0).after_backward(learner, {})
    assert all(torch.equal(p.grad, old) for p, old in zip(model.parameters(), before, strict=True))


def test_gradient_is_that_of_half_the_squared_distance_summed_over_all_tensors():
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)).double()
    learner = Learner(model, torch.optim.SGD(model.parameters()))
    start = [p.detach().clone() for p in model.parameters()]
    with torch.no_grad():
        for p in model.parameters():
            p += torch.randn_like(p)
    penalty = 0.5 * 0.3 * sum((p - p0).square().sum() for p, p0 in zip(model.parameters(), start, strict=True))
    expected = torch.autograd.grad(penalty, list(model.parameters()))
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    L2Init(strength=0.3).after_backward(learner, {})
    for p, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(p.grad, gradient)


def test_without_a_task_the_weights_come_home():
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    learner = Learner(model, optimizer)
    start = model.weight.detach().clone()
    with torch.no_grad():
        model.weight.add_(1.0)
    for _ in range(3):
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        L2Init(strength=1.0).after_backward(learner, {})
        optimizer.step()
    torch.testing.assert_close(model.weight - start, torch.full((3, 4), 0.125))  # half of the way is left each time


def test_negative_strength_is_named():
    with pytest.raises(ValueError, match=r"^L2Init\.strength is .*; got -1\.0\.$"):
        L2Init(strength=-1.0)
