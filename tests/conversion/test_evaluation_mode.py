"""Evaluation mode for a while: what modules do in train() and eval() is asked for, and undone to the last bit."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from by_hand import copied_state
from supple.learner import Learner
from supple.methods import ReDo
from supple.metrics.observe import observe
from supple.unchanged import evaluation_mode, kept_tensors
from supple.units import UntraceableModel, trace_units
from written import holding


class Adapted(nn.Linear):
    """A linear layer with an adapter of rank 2, merged into its weight by eval() and taken out by train()."""

    def __init__(self, num_inputs, num_outputs):
        super().__init__(num_inputs, num_outputs)
        self.down, self.up = nn.Parameter(torch.randn(2, num_inputs)), nn.Parameter(torch.randn(num_outputs, 2))
        self.merged = False

    def train(self, mode=True):
        super().train(mode)
        if mode == self.merged:
            self.weight.data += (1 - 2 * mode) * (self.up @ self.down).detach()
            self.merged = not mode
        return self

    def forward(self, x):
        y = F.linear(x, self.weight, self.bias)
        return y if self.merged else y + x @ self.down.T @ self.up.T


def adapted_net():
    """Two adapters: the first is training, the second, with a norm before it, is frozen in evaluation."""
    torch.manual_seed(0)
    frozen = nn.Sequential(nn.BatchNorm1d(8), Adapted(8, 8)).eval()
    model = nn.Sequential(Adapted(6, 8), nn.LeakyReLU(), frozen, nn.LeakyReLU(), nn.Linear(8, 3))
    assert model.training
    return model


def modes(model):
    return [(name, module.training, getattr(module, "merged", None)) for name, module in model.named_modules()]


def trace(model, x):
    trace_units(model, x)


def recycle(model, x):
    """No unit of a leaky network is dormant, so nothing is recycled."""
    learner = Learner(model, torch.optim.SGD(model.parameters()), example_input=x)
    ReDo().end_stage(learner, {}, [(x, None)])


@pytest.mark.parametrize("look_at", [trace, observe, recycle])
def test_adapters_modes_and_all_bits_are_as_before(look_at):
    model, x = adapted_net(), torch.randn(16, 6)
    before, told = copied_state(model), modes(model)
    assert told[1][1:] == (True, False)
    assert told[5][1:] == (False, True)
    look_at(model, x)
    assert modes(model) == told
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_taking_an_adapter_out_alone_would_lose_bits():
    model = adapted_net()
    before = model[0].weight.clone()
    assert not torch.equal(model.eval().train()[0].weight, before)


def test_flags_set_by_hand_and_modules_in_two_places_are_as_before():
    model, shared = adapted_net(), Adapted(4, 4)
    model[0].training = False  # without eval(): not merged
    twice = nn.Sequential(nn.Sequential(shared), nn.Sequential(shared))
    twice[1].training = False
    for network in (model, twice):
        before, told = copied_state(network), modes(network)
        with evaluation_mode(network):
            assert all(module.merged for module in network.modules() if isinstance(module, Adapted))
        assert modes(network) == told
        assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())


def test_backward_after_the_evaluation_finds_the_weights_of_its_forward():
    model, x = adapted_net(), torch.randn(16, 6)
    loss = model(x).sum()
    with evaluation_mode(model):
        assert not any(module.training for module in model.modules())
    loss.backward()


class Refused(Adapted):
    def forward(self, x):
        return super().forward(x) if x.sum() > 0 else x


def test_adapter_is_taken_out_of_a_model_that_cannot_be_traced():
    model = nn.Sequential(Refused(6, 6), nn.ReLU(), nn.Linear(6, 3))
    before = copied_state(model)
    with pytest.raises(UntraceableModel):
        trace_units(model, torch.randn(4, 6))
    assert modes(model)[1][1:] == (True, False)
    assert torch.equal(model[0].weight, before["0.weight"])


@holding(lambda: {"part": nn.Linear(3, 3)})
class Root(nn.Module):
    """Overrides train(), as many networks do to keep a norm in evaluation mode."""

    def train(self, mode=True):
        return super().train(mode)


def test_what_lies_below_a_module_that_does_work_is_not_copied():
    assert kept_tensors([Root()]) == []
