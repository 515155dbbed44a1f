"""Full Reset: the initial network again, bit for bit, with an optimizer that remembers nothing."""

import copy

import pytest
import torch
from torch import nn

from supple.learner import Learner
from supple.methods import FullReset, UseAID


class Net(nn.Module):
    """A norm, and a buffer that is in no state_dict."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.norm, self.fc2 = nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)
        self.register_buffer("calls", torch.zeros(()), persistent=False)

    def forward(self, x):
        self.calls += 1
        return self.fc2(torch.relu(self.norm(self.fc1(x))))


def train(model, optimizer, batches):
    losses = []
    for x in batches:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    "make_optimizer",
    [
        lambda p: torch.optim.Adam(p, lr=0.1),
        lambda p: torch.optim.Adam(p, lr=0.1, fused=True),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
    ],
)
def test_second_stage_repeats_the_first_bit_for_bit(make_optimizer):
    model = Net()
    optimizer = make_optimizer(model.parameters())
    learner, batches = Learner(model, optimizer), list(torch.randn(5, 16, 4))
    start = copy.deepcopy(model)
    first = train(model, optimizer, batches)
    assert not torch.equal(model.norm.running_var, start.norm.running_var)
    FullReset().begin_stage(learner, {}, [], 1)
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    originals = {**dict(start.named_parameters()), **dict(start.named_buffers())}
    assert all(torch.equal(tensor, originals[name]) for name, tensor in tensors.items())
    assert train(model, optimizer, batches) == first


def test_network_that_is_reset_can_have_another_methods_activation():
    assert isinstance(FullReset().activation(), nn.ReLU)
    assert FullReset(built_with=UseAID(relu_prob=0.7)).activation().p == 0.7
