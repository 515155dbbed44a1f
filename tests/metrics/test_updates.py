"""Churn, sample plasticity and training accuracy by hand, and the experiments that their metrics make on copies."""

import copy
import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from supple import AID, attach
from supple.methods import L2Init
from supple.metrics import churn, sample_plasticity
from supple.metrics.accuracy import TrainingAccuracy
from supple.metrics.observe import Task, observe
from supple.metrics.updates import Churn, SamplePlasticity
from supple.random import mask_stream


def test_churn_by_hand():
    before = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0]])
    after = torch.tensor([[0.0, 1.0], [0.0, 3.0], [2.0, 1.0]])
    assert churn(before, after) == {"churn": pytest.approx((1 + 1 + 4) / 6), "churn_decisions": pytest.approx(1 / 3)}
    assert churn(before, before) == {"churn": 0.0, "churn_decisions": 0.0}
    sequences = before.expand(5, 3, 2), after.expand(5, 3, 2)  # a decision for each position of each
    assert churn(*sequences) == pytest.approx(churn(before, after))


def test_sample_plasticity_by_hand():
    # Three quarters gone; twice as much, which counts as 0; a loss of 0 that stays; half gone; more than all.
    before, after = torch.tensor([4.0, 1.0, 0.0, 2.0, 1.0]), torch.tensor([1.0, 2.0, 0.0, 1.0, -1.0])
    assert sample_plasticity(before, after) == pytest.approx((0.75 + 0.0 + 1.0 + 0.5 + 1.0) / 5)
    assert sample_plasticity(torch.tensor([1.5e-8]), torch.tensor([0.5e-8])) == pytest.approx(2 / 3)


@pytest.mark.parametrize("scale", [1e-3, 10.0])
def test_churn_grows_with_the_square_of_the_outputs_and_plasticity_not_with_the_loss(scale):
    before, after = torch.rand(2, 5, 3, dtype=torch.float64)
    plain, other = churn(before, after), churn(scale * before, scale * after)
    assert other["churn"] == pytest.approx(scale**2 * plain["churn"])
    assert other["churn_decisions"] == plain["churn_decisions"]
    losses = before[:, 0], after[:, 0]
    assert sample_plasticity(*(scale * loss for loss in losses)) == pytest.approx(sample_plasticity(*losses))


def test_half_precision_is_averaged_in_double_and_what_is_not_finite_is_no_number():
    assert churn(torch.zeros(2, 2).half(), torch.full((2, 2), 300.0).half())["churn"] == 90_000.0  # over half's largest
    assert all(map(math.isnan, churn(torch.zeros(1, 2), torch.tensor([[torch.nan, 0.0]])).values()))
    assert math.isnan(sample_plasticity(torch.tensor([torch.nan]), torch.tensor([1.0])))


def squared(outputs, targets):
    return ((outputs[:, 0] - targets) ** 2).mean()


def test_metrics_take_one_step_of_the_optimizer_on_copies():
    # f(x) = w x with w = 1, target 3: loss 4, gradient -4; at rate 1/8 w becomes 1.5 and the loss 2.25.
    network = nn.Sequential(nn.ReLU(), nn.Linear(1, 1, bias=False))
    nn.init.ones_(network[1].weight)
    optimizer = torch.optim.SGD(network.parameters(), 0.125)
    inputs, targets = torch.tensor([[1.0], [2.0]]), torch.tensor([3.0, 6.0])
    observation = observe(network, inputs, task=Task(inputs, targets, squared, optimizer))
    assert Churn(batch_size=1).measure(observation) == {
        "churn": pytest.approx((1.5 * 2 - 2) ** 2),
        "churn_decisions": 0,
    }
    # On x = 2: loss 16, gradient 2 * -4 * 2 = -16, w = 3, loss 0.
    expected = ((1 - 2.25 / 4) + 1) / 2
    assert SamplePlasticity().measure(observation) == {"sample_plasticity": pytest.approx(expected)}
    network[1].weight.grad = torch.full((1, 1), 100.0)  # what a step of the training has left
    assert SamplePlasticity(num_updates=1).measure(observation) == {"sample_plasticity": pytest.approx(1 - 2.25 / 4)}


@pytest.mark.parametrize("metric", [Churn(batch_size=4), SamplePlasticity(num_updates=3)], ids=lambda m: m.name)
def test_training_goes_on_as_if_nothing_was_measured(metric):
    network = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    plasticity = attach(network, optimizer, L2Init(strength=1e-2), example_input=torch.rand(2, 3))
    inputs, targets = torch.randn(12, 3), torch.randint(2, (12,))
    F.cross_entropy(network(inputs), targets).backward()
    optimizer.step()
    weights, memory = copy.deepcopy(network.state_dict()), copy.deepcopy(optimizer.state_dict())
    gradients, stream = [p.grad.clone() for p in network.parameters()], torch.get_rng_state()
    numbers = metric.measure(observe(network, inputs, task=Task(inputs, targets, F.cross_entropy, optimizer)))
    assert all(math.isfinite(value) and value > 0 for name, value in numbers.items() if name != "churn_decisions")
    assert all(torch.equal(weights[name], now) for name, now in network.state_dict().items())
    for before, now in zip(memory["state"].values(), optimizer.state_dict()["state"].values(), strict=True):
        assert all(torch.equal(before[name], now[name]) for name in before)
    assert all(torch.equal(p.grad, gradient) for p, gradient in zip(network.parameters(), gradients, strict=True))
    assert torch.equal(torch.get_rng_state(), stream)
    assert plasticity.num_steps == 1


def test_without_a_task_or_an_optimizer_or_samples_to_hold_out_there_is_nothing_to_say():
    network, inputs = nn.Sequential(nn.ReLU(), nn.Linear(2, 2)), torch.rand(3, 2)
    task = Task(inputs, torch.zeros(3, dtype=torch.long), F.cross_entropy)
    for observation in (observe(network, inputs), observe(network, inputs, task=task)):
        assert Churn().measure(observation) == SamplePlasticity().measure(observation) == {}
    trained = Task(inputs, task.targets, F.cross_entropy, torch.optim.SGD(network.parameters(), 0.1))
    assert Churn(batch_size=3).measure(observe(network, inputs, task=trained)) == {}
    one_class = SamplePlasticity().measure(observe(network, inputs, task=trained))
    assert 0.0 <= one_class["sample_plasticity"] <= 1.0


def test_training_accuracy_counts_what_masks_spoil_and_draws_from_no_stream_of_the_run():
    n, drop = 4000, 0.3
    model = nn.Sequential(nn.Linear(2, 2, bias=False), AID(1 - drop))
    model[0].weight.data.copy_(torch.eye(2))
    inputs = torch.eye(2).repeat(n // 2, 1)  # one unit is 1, the other 0; a dropped 1 leaves a tie, which is class 0
    task = Task(inputs, inputs.argmax(1), F.cross_entropy)
    with mask_stream(generator := torch.Generator().manual_seed(5)):
        (value,) = TrainingAccuracy().measure(observe(model, inputs, task=task)).values()
    assert abs(value - (1 - drop / 2)) < 5 * math.sqrt(0.15 * 0.85 / n)
    assert torch.equal(generator.get_state(), torch.Generator().manual_seed(5).get_state())
    assert TrainingAccuracy().measure(observe(model.eval(), inputs, task=replace(task, targets=inputs))) == {}
    assert not model.training
    inputs = torch.rand(3, 5, 2)
    task = Task(inputs, inputs.argmax(2), F.cross_entropy)
    assert TrainingAccuracy(batch_size=2).measure(observe(nn.Sequential(nn.ReLU()), inputs, task=task)) == {
        "training_accuracy": 1.0  # of sequences, too
    }
