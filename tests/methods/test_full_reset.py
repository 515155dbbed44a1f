"""Full Reset: the initial network again, bit for bit, with an optimizer that remembers nothing."""

import copy

import pytest
import torch
from torch import nn

from supple.learner import Learner, forget_, starts_from_zeros
from supple.methods import FullReset, UseAID
from supple.methods.full_reset import buffers_beside


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


# Whether an optimizer of this kind begins with zeros, so that it can forget in place.
MAKERS = {
    "adam": (torch.optim.Adam, {}, True),
    "fused adam, amsgrad": (torch.optim.Adam, {"fused": True, "amsgrad": True}, True),
    "adamw": (torch.optim.AdamW, {}, True),
    "adamax": (torch.optim.Adamax, {}, True),
    "adadelta": (torch.optim.Adadelta, {}, True),
    "rmsprop": (torch.optim.RMSprop, {"momentum": 0.9, "centered": True}, True),
    "sgd": (torch.optim.SGD, {}, True),
    "momentum": (torch.optim.SGD, {"momentum": 0.9, "dampening": 0.5}, False),
    "nadam": (torch.optim.NAdam, {}, False),
    "rprop": (torch.optim.Rprop, {}, False),
    "another kind of adam": (type("Otherwise", (torch.optim.Adam,), {}), {}, False),
}


def places(optimizer):
    return [part.data_ptr() for state in optimizer.state.values() for part in state.values()]


@pytest.mark.parametrize(("kind", "settings", "from_zeros"), MAKERS.values(), ids=MAKERS)
def test_second_stage_repeats_the_first_bit_for_bit(kind, settings, from_zeros):
    model = Net()
    optimizer = kind(model.parameters(), lr=0.1, **settings)
    learner, batches = Learner(model, optimizer), list(torch.randn(5, 16, 4))
    start = copy.deepcopy(model)
    first, before = train(model, optimizer, batches), places(optimizer)
    assert not torch.equal(model.norm.running_var, start.norm.running_var)
    FullReset().begin_stage(learner, {}, [], 1)
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    originals = {**dict(start.named_parameters()), **dict(start.named_buffers())}
    assert all(torch.equal(tensor, originals[name]) for name, tensor in tensors.items())
    assert starts_from_zeros(optimizer) == from_zeros
    assert train(model, optimizer, batches) == first
    assert not from_zeros or places(optimizer) == before


def test_what_the_optimizer_knows_of_other_parameters_stays():
    model, other = nn.Linear(4, 3), nn.Linear(3, 2)
    optimizer = torch.optim.Adam([*model.parameters(), *other.parameters()], lr=0.1)
    learner = Learner(model, optimizer)
    train(nn.Sequential(model, other), optimizer, list(torch.randn(2, 16, 4)))
    FullReset().begin_stage(learner, {}, [], 1)
    assert not optimizer.state[model.weight]["exp_avg"].any()
    assert optimizer.state[other.weight]["exp_avg"].any()


def test_what_does_not_suit_the_parameter_any_more_is_dropped():
    model = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    train(model, optimizer, [torch.randn(3, 4)])
    model.to(torch.float64)
    optimizer.state[model.bias]["step"] = 2  # a number, as torch had it once
    forget_(optimizer, model.parameters())
    assert not optimizer.state
    train(model.to(torch.float32), optimizer, [torch.randn(3, 4)])


def test_network_that_is_reset_can_have_another_methods_activation():
    assert isinstance(FullReset().activation(), nn.ReLU)
    assert FullReset(built_with=UseAID(relu_prob=0.7)).activation().p == 0.7


def test_buffers_of_a_module_without_parameters_start_anew_though_its_parts_are_frozen():
    assert [name for name, _ in buffers_beside({}, Net())] == ["calls"]
