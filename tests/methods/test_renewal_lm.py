"""Renewal in layers of language models: transposed weights (Conv1D) and gated layers, against plain loops."""

import copy

import pytest
import torch
from test_renewal import NUM_STEPS, ROUNDING, AdamPerEntry
from torch import nn

import networks_lm as lm
from supple.learner import Learner
from supple.methods import CBP, ReDo

WIDTH = 7
# For each network: the layers whose rows a unit owns, and the layer whose columns it owns.
NETWORKS = {
    "Conv1D": (lambda: lm.FeedForward(lm.Conv1D, lm.Conv1D), ["fc"], "proj"),
    "Conv1D, then Linear": (lambda: lm.FeedForward(lm.Conv1D, nn.Linear), ["fc"], "proj"),
    "SwiGLU": (lm.Gated, ["gate", "up"], "down"),
    "SwiGLU of Conv1D": (lambda: lm.Gated(lm.Conv1D), ["gate", "up"], "down"),
}


@pytest.fixture(params=NETWORKS)
def network(request):
    """The network in float64, the layers that feed its units, the layer that reads them."""
    torch.manual_seed(0)
    build, producers, consumer = NETWORKS[request.param]
    model = build().double()
    return model, [model.get_submodule(name) for name in producers], model.get_submodule(consumer)


def inputs(num_examples=5):
    return torch.randn(num_examples, 3, 6, dtype=torch.float64)


def unit_rows(layer):
    """The weight as outputs by inputs, a view."""
    return layer.weight.data.t() if isinstance(layer, lm.Conv1D) else layer.weight.data


def renewed_entries(model, producers, consumer, units):
    """A mask for each parameter: what belongs to the units, entry by entry."""
    masks = {p: torch.zeros_like(p, dtype=torch.bool) for p in model.parameters()}
    for unit in units:
        for producer in producers:
            for i in range(6):
                masks[producer.weight][(i, unit) if isinstance(producer, lm.Conv1D) else (unit, i)] = True
            masks[producer.bias][unit] = True
        for o in range(6):
            masks[consumer.weight][(unit, o) if isinstance(consumer, lm.Conv1D) else (o, unit)] = True
    return masks


def assert_drawn(fresh, initial):
    assert set(fresh.flatten().tolist()) <= set(initial.flatten().tolist())


@pytest.mark.parametrize("moments", ["per_entry", "clear"])
def test_cbp_renews_all_that_a_unit_owns_and_its_entries_take_the_steps_of_their_age(network, moments):
    model, producers, consumer = network
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    learner = Learner(model, optimizer, example_input=inputs(), seed=1)
    method = CBP(replacement_rate=0.1, maturity=3, moments=moments)
    state, initial = method.init(learner), {p: p.detach().clone() for p in model.parameters()}
    reference = AdamPerEntry(optimizer)
    largest_error, num_renewed = 0.0, 0
    for _ in range(NUM_STEPS):
        optimizer.zero_grad()
        model(inputs()).square().mean().backward()
        expected = {p: reference.update(p) for p in model.parameters()}
        optimizer.step()
        method.after_step(learner, state)
        units = (state["age.act"] == 0).nonzero().flatten().tolist()
        for p, mask in renewed_entries(model, producers, consumer, units).items():
            largest_error = max(largest_error, (p.detach() - expected[p])[~mask].abs().max().item())
            reference.forget(p, mask)
        for unit in units:
            assert not unit_rows(consumer)[:, unit].any()
            for producer in producers:
                assert_drawn(unit_rows(producer)[unit], initial[producer.weight])
                assert producer.bias[unit] == 0.0
        num_renewed += len(units)
    assert num_renewed > 5
    assert (largest_error < ROUNDING) == (moments == "per_entry")


@pytest.mark.parametrize("utility", ["contribution", "adaptable_contribution"])
def test_utility_is_of_the_product_that_the_next_layer_reads(network, utility):
    model, producers, consumer = network
    x, decay = inputs(), 0.9
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.0), example_input=x)
    method = CBP(replacement_rate=0.0, utility=utility, utility_decay=decay)
    state = method.init(learner)
    read = []
    consumer.register_forward_pre_hook(lambda module, args: read.append(args[0].detach()))
    for part in model.modules():
        part.training = not isinstance(part, nn.Dropout)  # the product is read before it
    model(x)
    method.after_step(learner, state)
    for unit in range(WIDTH):
        h = read[0][..., unit]
        if utility == "contribution":
            value = h.abs().mean()
        else:  # after one step the corrected mean is that of the step
            rows = torch.cat([unit_rows(producer)[unit] for producer in producers])
            value = (h - h.mean()).abs().mean() / rows.abs().mean()
        expected = (1 - decay) * value * unit_rows(consumer)[:, unit].abs().mean()
        assert state["utility.act"][unit].item() == pytest.approx(expected.item(), rel=1e-5)  # kept in float32


def test_gated_unit_is_dormant_if_either_factor_is_zero_and_draws_from_each_layers_own_entries():
    model = lm.Gated(act=nn.ReLU)
    with torch.no_grad():
        for layer, low in ((model.gate, 1.0), (model.up, 3.0)):
            layer.weight.uniform_(low, low + 1)
            layer.bias.uniform_(-low - 1, -low)
    learner = Learner(model, torch.optim.Adam(model.parameters()), example_input=inputs().float())
    with torch.no_grad():
        model.gate.weight[2], model.gate.bias[2] = 0.0, -1.0
        model.up.weight[4], model.up.bias[4] = 0.0, 0.0
    before, method = copy.deepcopy(model.state_dict()), ReDo()
    state = method.init(learner)
    method.end_stage(learner, state, [(inputs().float().abs() + 1.0, None)])
    for layer in (model.gate, model.up):
        name = "gate" if layer is model.gate else "up"
        changed = [unit for unit in range(WIDTH) if not torch.equal(layer.weight[unit], before[f"{name}.weight"][unit])]
        assert changed == [2, 4]
        for unit in changed:
            assert_drawn(layer.weight[unit], learner.initial[f"{name}.weight"])
            assert_drawn(layer.bias[unit], learner.initial[f"{name}.bias"])
    zeros = [unit for unit in range(WIDTH) if not model.down.weight[:, unit].any()]
    assert zeros == [2, 4]


@pytest.mark.parametrize("how", ["frozen", "foreign"])
def test_gated_layer_whose_up_is_not_trained_is_left_with_the_reason(how):
    model = lm.Gated()
    model.up.requires_grad_(how == "foreign")
    held = [p for name, p in model.named_parameters() if not name.startswith("up")]
    learner = Learner(model, torch.optim.SGD(held), example_input=inputs().float())
    reason = {"frozen": "its weights are frozen", "foreign": "the optimizer does not train its weights"}[how]
    with pytest.raises(ValueError, match=f"'act': {reason}"):
        CBP().init(learner)
