"""CBP: utilities by hand, and what is no part of a step."""

import math
import warnings

import pytest
import torch
from torch import nn

from by_hand import chain, learner_of, three_units, train_step
from supple.learner import Learner
from supple.methods import CBP
from written import holding


def still(model):
    """A learner whose optimizer changes nothing, so that only the method does."""
    return learner_of(model, torch.optim.SGD(model.parameters(), lr=0.0))


def run(method, learner, state, *, num_steps, inputs=None):
    """Steps on one batch; which units were replaced in each of them, by site."""
    replaced = []
    for _ in range(num_steps):
        train_step(learner, torch.ones(4, 2) if inputs is None else inputs)
        method.after_step(learner, state)
        replaced.append({key[4:]: age == 0 for key, age in state.items() if key.startswith("age.")})
    return replaced


def test_utility_is_the_running_mean_of_outgoing_times_activity():
    model = three_units()
    learner, method = still(model), CBP(replacement_rate=0.0, utility_decay=0.9)
    state = method.init(learner)
    run(method, learner, state, num_steps=1)
    # mean |w_out|: (1 + 4) / 2, (2 + 5) / 2, (3 + 6) / 2; mean |h| on (1, 1): 2, 1, 0. A tenth of the products.
    assert state["utility.1"].tolist() == pytest.approx([0.5, 0.35, 0.0])
    run(method, learner, state, num_steps=1, inputs=torch.tensor([[0.0, -2.0], [1.0, 1.0]]))
    # mean |h| now: (0 + 2) / 2, (2 + 1) / 2, (2.5 + 0) / 2
    expected = [0.45 + 0.1 * 2.5 * 1.0, 0.315 + 0.1 * 3.5 * 1.5, 0.1 * 4.5 * 1.25]
    assert state["utility.1"].tolist() == pytest.approx(expected)
    assert state["age.1"].tolist() == [2, 2, 2]


def test_units_are_ranked_by_utility_corrected_for_age():
    # Unit 0 is old with utility 5 * (1 - 0.99^1000), unit 1 is young with the same contribution: raw 5 * (1 - 0.99^3).
    model = three_units()
    with torch.no_grad():
        model[2].weight[:, 1] = 6.0  # contribution 6 against unit 0's 5
        model[0].bias[2] = 9.0  # unit 2 gives 7, times 4.5
    learner, method = still(model), CBP(replacement_rate=0.4, maturity=2)
    state = method.init(learner)
    state["age.1"].copy_(torch.tensor([1000, 2, 1000]))
    contributions = torch.tensor([5.0, 6.0, 31.5])
    state["utility.1"].copy_(contributions * (1 - 0.99 ** state["age.1"]))
    replaced = run(method, learner, state, num_steps=1)
    assert replaced[0]["1"].tolist() == [True, False, False]


def test_a_forward_counts_for_one_step_alone():
    learner, method = still(three_units()), CBP()
    state = method.init(learner)
    learner.model(torch.ones(4, 2))
    method.after_step(learner, state)
    learner.model.eval()(torch.ones(4, 2))
    with pytest.raises(RuntimeError, match=r"no training forward .* '1' since .* Call model\(x\) in training mode"):
        method.after_step(learner, state)


@holding(lambda: {"parts": nn.ModuleList(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)) for _ in range(2))})
class Heads(nn.Module):
    """Two hidden layers side by side, of which a forward takes one."""

    def forward(self, x, taken=(0, 1)):
        return sum(self.parts[number](x) for number in taken)


def test_layers_that_were_no_part_of_the_forward_have_no_step():
    model = Heads()
    learner, method = Learner(model, torch.optim.SGD(model.parameters()), example_input=torch.ones(4, 2)), CBP()
    state = method.init(learner)
    for taken in ((0,), (0, 1), (0,)):
        model(torch.ones(4, 2), taken)
        method.after_step(learner, state)
    assert state["age.parts.0.1"].tolist() == [3] * 3
    assert state["age.parts.1.1"].tolist() == [1] * 3


def test_values_that_are_no_numbers_leave_a_units_utility_alone():
    learner, method = still(three_units()), CBP()
    state = method.init(learner)
    learner.model(torch.ones(4, 2))
    method.after_step(learner, state)
    before = state["utility.1"].clone()
    learner.model(torch.tensor([[math.inf, 1.0], [math.nan, 0.0]]))
    method.after_step(learner, state)
    learner.model(torch.ones(0, 2))
    method.after_step(learner, state)
    torch.testing.assert_close(state["utility.1"], before, rtol=0, atol=0)
    learner.model(torch.ones(4, 2))
    method.after_step(learner, state)
    assert (state["utility.1"] > before).any()


@pytest.mark.parametrize("utility", ["contribution", "adaptable_contribution"])
def test_default_dtype_of_torch_does_not_matter(utility):
    torch.set_default_dtype(torch.float64)
    try:
        model = three_units()
        learner, method = still(model), CBP(utility=utility)
        state = method.init(learner)
        model(torch.ones(4, 2, dtype=model[0].weight.dtype))
        method.after_step(learner, state)
    finally:
        torch.set_default_dtype(torch.float32)
    assert state["utility.1"].dtype == torch.float32
    assert state["utility.1"].any()


def test_units_of_a_layer_that_thaws_begin_at_age_0():
    model = chain(2, 3, 4, 1)
    model[0].weight.requires_grad_(False)
    learner, method = learner_of(model), CBP()
    with pytest.warns(UserWarning, match="its weights are frozen"):
        state = method.init(learner)
    for step in range(3):
        model[0].weight.requires_grad_(step > 0)
        model(torch.ones(4, 2))
        method.after_step(learner, state)
    assert state["age.1"].tolist() == [2] * 3
    assert state["age.3"].tolist() == [3] * 4


class Residual(nn.Module):
    """A stem, and a block whose output is summed with its input."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.act0 = nn.Conv2d(1, 4, 3, padding=1), nn.ReLU()
        self.conv1, self.bn1, self.act1 = nn.Conv2d(4, 5, 3, padding=1), nn.BatchNorm2d(5), nn.ReLU()
        self.conv2, self.bn2, self.act2 = nn.Conv2d(5, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        x = self.act0(self.stem(x))
        x = self.act2(self.bn2(self.conv2(self.act1(self.bn1(self.conv1(x))))) + x)
        return self.fc(x.mean((2, 3)))


def residual_learner():
    model = Residual()
    return Learner(model, torch.optim.SGD(model.parameters(), lr=0.0), example_input=torch.randn(2, 1, 6, 6))


def test_residual_units_are_left_alone_by_default():
    learner = residual_learner()
    assert [layer.name for layer in CBP().layers(learner)] == ["act1"]


@pytest.mark.parametrize("make", [lambda: learner_of(chain(3, 4, 2)), residual_learner], ids=["chain", "residual"])
def test_nothing_is_said_to_be_left_alone_where_every_layer_is_served(make):
    learner = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state = CBP(residual="all").init(learner)
    assert {f"age.{layer.name}" for layer in learner.units} <= set(state)


def test_residual_units_are_replaced_along_the_main_path_on_request():
    learner, method = residual_learner(), CBP(replacement_rate=1.0, maturity=0, residual="all")
    model = learner.model
    layers = {layer.name: layer for layer in method.layers(learner)}
    assert list(layers) == ["act0", "act1", "act2"]
    assert layers["act0"].producer is model.stem
    assert [consumer.layer for consumer in layers["act0"].consumers] == [model.conv1]
    assert (layers["act2"].producer, layers["act2"].norm) == (model.conv2, model.bn2)
    state = method.init(learner)
    train_step(learner, torch.randn(4, 1, 6, 6))
    method.after_step(learner, state)
    # Every unit was replaced, from input to output: fresh weights overwrite the zeros, but for the output layer's.
    assert model.conv2.weight.all()
    assert not model.fc.weight.any()
    assert model.bn2.running_mean.tolist() == [0.0] * 4


def test_first_record_of_a_layer_lies_on_the_device_of_the_network():
    learner = learner_of(chain(3, 4, 2))
    record = CBP(utility="adaptable_contribution").first_record(learner.units["1"], torch.device("meta"))
    assert {tensor.device.type for tensor in record.values()} == {"meta"}
