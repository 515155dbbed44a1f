"""The unit graph of language models: transposed weights, gated layers, outputs and inputs of any kind."""

import copy
from collections import UserDict
from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn
from torch.distributions import Categorical, Distribution, Normal

import cut_off
import networks_lm as lm
from supple.learner import Learner
from supple.methods import ReDo
from supple.metrics.observe import observe
from supple.metrics.weights import DeadGradientShare
from supple.units import UntraceableModel, trace_units
from written import holding

TOKENS, MAP = (2, 4, 6), (2, 6, 5, 5)
# For each network its input; the layers that feed its one site, then the layer that reads it.
NETWORKS = {
    "Conv1D": (lambda: lm.FeedForward(lm.Conv1D, lm.Conv1D), TOKENS, ["fc", "proj"]),
    "Conv1D with matmul": (lambda: lm.FeedForward(*[lm.written_with_matmul] * 2), TOKENS, ["fc", "proj"]),
    "Conv1D, then Linear": (lambda: lm.FeedForward(lm.Conv1D, nn.Linear), TOKENS, ["fc", "proj"]),
    "Linear, then Conv1D": (lambda: lm.FeedForward(nn.Linear, lm.Conv1D), TOKENS, ["fc", "proj"]),
    "SwiGLU": (lm.Gated, TOKENS, ["gate", "up", "down"]),
    "SwiGLU of Conv1D": (lambda: lm.Gated(lm.Conv1D), TOKENS, ["gate", "up", "down"]),
    "SwiGLU, up first": (lm.UpFirst, TOKENS, ["gate", "up", "down"]),
    "GEGLU": (lambda: lm.Gated(act=nn.GELU), TOKENS, ["gate", "up", "down"]),
    "gated convolution": (lm.GatedChannels, MAP, ["gate", "up", "fc"]),
}


@pytest.fixture(scope="module", params=NETWORKS)
def traced(request):
    torch.manual_seed(0)
    build, shape, names = NETWORKS[request.param]
    model, x = build().double().eval(), torch.randn(shape, dtype=torch.float64)
    return model, x, trace_units(model, x)["act"], names


def test_unit_is_its_rows_in_every_layer_that_feeds_it_and_its_columns_in_the_next(traced):
    model, _, layer, names = traced
    around = [layer.producer, *layer.partners, *(consumer.layer for consumer in layer.consumers)]
    assert [model.get_submodule(name) for name in names] == around
    assert layer.resettable
    num_columns = 4 if isinstance(model, lm.GatedChannels) else 1
    assert torch.equal(layer.consumers[0].columns_US, torch.arange(layer.num_units * num_columns).view(-1, num_columns))


def test_units_act_through_their_columns_alone_and_their_rows_on_them_alone(traced):
    model, x, layer, _ = traced
    for unit in range(layer.num_units):
        cut_off.check_layer(model, layer, x, unit)


def test_cutting_off_would_notice_a_row_of_up_that_another_unit_reads():
    model, x = lm.Gated().double().eval(), torch.randn(TOKENS, dtype=torch.float64)
    layer, other = trace_units(model, x)["act"], lm.Gated().double()
    with pytest.raises(AssertionError):
        cut_off.check_layer(model, replace(layer, partners=(model.down,)), x, unit=1)
    cut_off.check_layer(model, replace(layer, partners=(other.up,)), x, unit=1)  # a layer without effect is no harm


@pytest.mark.parametrize(
    ("network", "site", "why"),
    [
        (lm.ReadTwice, "act", "mul in the forward of ReadTwice: it joins them with another tensor"),
        (lm.TwoGates, "act", "mul in the forward of TwoGates: it joins them with another tensor"),
        (lm.TwoGates, "other", "mul in the forward of TwoGates: it joins them with another tensor"),
        (lm.Fused, "act", "what produces them is also read by mul in the forward of Fused"),
        (lm.Rolled, "act", "mul in the forward of Rolled: it joins them with another tensor"),
    ],
)
def test_products_whose_other_factor_is_not_the_units_own_are_left_with_the_reason(network, site, why):
    layer = trace_units(network(), torch.randn(TOKENS))[site]
    assert why in layer.unclear
    assert layer.partners == ()
    assert not layer.resettable


# -- inputs and outputs


@holding(lambda: {"fc1": nn.Linear(6, 5), "act": nn.ReLU(), "fc2": nn.Linear(5, 3)})
class Named(nn.Module):
    """Takes its inputs by name and gives a dict."""

    def forward(self, *, x, shift=None, scaled=False):
        h = self.act(self.fc1(x if shift is None else x + shift))
        return {"logits": self.fc2(h) * (2.0 if scaled else 1.0)}


@pytest.mark.parametrize("kind", [dict, UserDict])
@pytest.mark.parametrize("others", [{}, {"shift": torch.randn(4, 6)}, {"scaled": True}], ids=["x", "shift", "scaled"])
def test_inputs_may_have_names(kind, others):
    (layer,) = trace_units(Named(), kind({"x": torch.randn(4, 6), **others}))
    assert layer.resettable


def test_named_inputs_that_do_not_fit_are_shown_with_their_names():
    with pytest.raises(UntraceableModel, match=r"example_input x \(4, 5\) float32: fc1 .*model.eval\(\)\(\*\*example"):
        trace_units(Named(), {"x": torch.randn(4, 5)})


def test_redo_reads_a_stage_by_names():
    model = Named()
    with torch.no_grad():
        model.fc1.weight[2], model.fc1.bias[2] = 0.0, -1.0  # never fires
    x = torch.randn(4, 6)
    learner = Learner(model, torch.optim.Adam(model.parameters()), example_input={"x": x})
    method = ReDo(num_examples=3)
    state = method.init(learner)
    method.end_stage(learner, state, [({"x": x[:2], "scaled": True}, None), (UserDict({"x": x[2:]}), None)])
    assert model.fc1.weight[2].any()
    assert not model.fc2.weight[:, 2].any()
    for wrong in ("y", {"y": x}), ("scaled", {"scaled": True}):
        came = f"a batch here is a pair whose inputs are a dict of {wrong[0]}"
        with pytest.raises(TypeError, match=rf"by the names.*{came}\. Pass"):
            method.end_stage(learner, state, [(wrong[1], None)])


class Memory:
    """A class that torch.export knows nothing of, as transformers' DynamicCache."""

    def __init__(self) -> None:
        self.kept, self.itself = [], self


@dataclass
class Output:
    logits: torch.Tensor
    memory: Memory


class Remembering(Named):
    """Gives an object that holds tensors, and keeps one itself."""

    def forward(self, x):
        memory = Memory()
        h = self.act(self.fc1(x))
        memory.kept.append(self.keeps(h))
        return Output(self.fc2(h), memory)

    def keeps(self, h):
        return self.fc2(h)


class RememberingUnits(Remembering):
    def keeps(self, h):
        return h


def test_outputs_may_be_of_any_class_and_what_is_in_them_is_seen():
    x = torch.randn(4, 6)
    assert "used 2 times" in trace_units(Remembering(), x)["act"].unclear
    assert "reach the output of the model" in trace_units(RememberingUnits(), x)["act"].unclear


@holding(
    lambda: {"fc1": nn.Linear(6, 5), "act": nn.Tanh(), "fc2": nn.Linear(5, 3), "log_std": nn.Parameter(torch.zeros(3))}
)
class Policy(nn.Module):
    """Makes distributions, as agents do, and gives one of them."""

    def forward(self, x):
        mean = self.fc2(self.act(self.fc1(x)))
        action = Normal(mean, self.log_std.exp()).sample()
        return action, Categorical(logits=mean)


@pytest.mark.parametrize("validates", [True, False])
@pytest.mark.parametrize("width", [6, 7])
def test_forward_that_makes_distributions_is_traced_and_their_checks_are_as_before(validates, width):
    before = Distribution._validate_args
    Distribution.set_default_validate_args(validates)
    try:
        if width == 6:
            assert trace_units(Policy(), torch.randn(4, width))["act"].resettable
        else:
            with pytest.raises(UntraceableModel):
                trace_units(Policy(), torch.randn(4, width))
        assert Distribution._validate_args is validates
    finally:
        Distribution.set_default_validate_args(before)


def test_model_has_the_hooks_and_the_forward_that_it_had():
    model = Remembering()
    model.register_forward_hook(lambda module, args, output: None)
    model.forward = torch.autocast("cpu", dtype=torch.bfloat16)(model.forward)  # as accelerate wraps it
    before = copy.copy(vars(model)), dict(model._forward_hooks)
    trace_units(model, torch.randn(4, 6))
    assert (vars(model), dict(model._forward_hooks)) == before


# -- the Monitor


def test_dead_units_of_a_transposed_weight_are_its_columns():
    model = nn.Sequential(lm.Conv1D(3, 4), nn.ReLU(), lm.Conv1D(4, 5))
    x = torch.randn(8, 3)
    model[0].bias.data[1] = -100.0  # column 1 gets no gradient, and row 1 of the next weight is no unit's own
    model(x).square().sum().backward()
    share = DeadGradientShare().measure(observe(model, x))["dead_gradient_share"]
    assert share == pytest.approx(1 / 9)  # of 4 and 5 units
