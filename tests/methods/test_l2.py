"""L2 and L2 Init: what they add to a gradient, by hand."""

import torch

from by_hand import linear
from supple.learner import Learner
from supple.methods import L2, L2Init


def after(method):
    """A layer that moved by (2, -4) and -8 from its start, with its gradients as the method leaves them."""
    model = linear([[1.0, -2.0]], [4.0])
    learner = Learner(model, torch.optim.SGD(model.parameters()))
    with torch.no_grad():
        model.weight += torch.tensor([[2.0, -4.0]])
        model.bias -= 8.0
    model.weight.grad, model.bias.grad = torch.tensor([[0.5, 0.25]]), torch.tensor([0.0])
    method.after_backward(learner, {})
    assert (model.weight.tolist(), model.bias.tolist()) == ([[3.0, -6.0]], [-4.0])
    return model.weight.grad.tolist(), model.bias.grad.tolist()


def test_l2_adds_strength_times_weight():
    assert after(L2(strength=0.125)) == ([[0.875, -0.5]], [-0.5])  # 0.5 + 0.125 * 3, 0.25 - 0.125 * 6


def test_l2_init_adds_strength_times_the_way_from_the_start():
    assert after(L2Init(strength=0.125)) == ([[0.75, -0.25]], [-1.0])  # 0.5 + 0.125 * 2, 0.25 - 0.125 * 4
