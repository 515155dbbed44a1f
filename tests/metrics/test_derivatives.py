"""Gradient kernel and curvature: by hand, and against differences of a loss in numpy."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from oracles import metrics as oracle
from supple.metrics import curvature, gradient_kernel
from supple.metrics.derivatives import Curvature, GradientKernel
from supple.metrics.observe import Task, observe


def linear(weight):
    """A network of one weight matrix and no bias."""
    network = nn.Linear(len(weight[0]), len(weight), bias=False).double()
    network.weight.data = torch.tensor(weight, dtype=torch.float64)
    return network


def output(outputs, targets):
    return (outputs * targets[:, None]).sum(1).mean()


def test_cosines_between_the_gradients_of_samples_by_hand():
    # The gradient of y * w'x is y * x: (1, 0), (0, 2), (3, 4) and none. Cosines 0, 3/5, 4/5 and 0 with the last.
    inputs = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=torch.float64)
    targets = torch.tensor([1.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    got = gradient_kernel(linear([[1.0, 1.0]]), inputs, targets, loss=output)
    assert got["gradient_cosine"] == pytest.approx((0.6 + 0.8) * 2 / 12)
    assert got["gradient_collinear"] == 0.0
    # C of rank 2 with eigenvalues 2, 1, 0, 0: entropy ln 3 - 2/3 ln 2.
    assert got["gradient_kernel_rank"] == pytest.approx(3 / 2 ** (2 / 3))


def test_samples_that_pull_along_one_line_are_collinear_and_of_rank_one():
    inputs, targets = torch.tensor([[1.0, 2.0]] * 3).double(), torch.tensor([1.0, -1.0, 2.0]).double()
    got = gradient_kernel(linear([[1.0, 1.0]]), inputs, targets, loss=output)
    assert got == {
        "gradient_cosine": pytest.approx(-1 / 3),
        "gradient_kernel_rank": pytest.approx(1.0),
        "gradient_collinear": 1.0,
    }


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_size_of_gradients_does_not_matter_even_if_their_squares_are_no_numbers_in_float32(scale):
    # (1, 0), (0, 2) and (3, 4): cosines 0, 3/5 and 4/5.
    inputs, targets = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0]]), torch.full((3,), scale)
    got = gradient_kernel(linear([[1.0, 1.0]]).float(), inputs, targets, loss=output)
    assert got["gradient_cosine"] == pytest.approx((0.6 + 0.8) / 3)


def test_curvature_is_the_eigenvalue_of_largest_size_with_its_sign():
    # L = sum of a_i w_i^2 / 2 as a mean over samples e_i: the Hessian is diag(a) / 3.
    inputs, scale = torch.eye(3, dtype=torch.float64), torch.tensor([1.0, -3.0, 2.0], dtype=torch.float64)
    loss = lambda outputs, targets: (targets * outputs[:, 0] ** 2 / 2).mean()  # noqa: E731
    value = curvature(linear([[0.3, 0.2, 0.1]]), inputs, scale, loss=loss, iterations=60)
    assert value == pytest.approx(-1.0, rel=1e-9)


def test_loss_that_is_linear_has_no_curvature():
    inputs = torch.eye(2, dtype=torch.float64)
    assert curvature(linear([[1.0, 2.0]]), inputs, torch.ones(2).double(), loss=output) == 0.0


@pytest.fixture
def small():
    """A network with 23 weights and six samples, and the loss of each as a function of the weights, in numpy."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2, bias=False)).double()
    inputs, targets = torch.randn(6, 3, dtype=torch.float64), torch.tensor([0, 1, 1, 0, 1, 0])
    theta = torch.nn.utils.parameters_to_vector(network.parameters()).detach().numpy()

    def loss(sample, theta):
        first, bias, second = theta[:12].reshape(4, 3), theta[12:16], theta[16:].reshape(2, 4)
        return oracle.cross_entropy(second @ np.tanh(first @ inputs[sample].numpy() + bias), int(targets[sample]))

    return network, inputs, targets, theta, loss


def test_kernel_is_that_of_differences_of_the_loss(small):
    network, inputs, targets, theta, loss = small
    gradients = np.array([oracle.slopes(lambda at, i=i: loss(i, at), theta, 1e-5) for i in range(6)])
    unit = gradients / np.sqrt((gradients**2).sum(1, keepdims=True))
    cosines = unit @ unit.T
    other = cosines[~np.eye(6, dtype=bool)]
    got = gradient_kernel(network, inputs, targets, loss=F.cross_entropy)
    assert got["gradient_cosine"] == pytest.approx(other.mean(), abs=1e-8)
    assert got["gradient_collinear"] == np.mean(np.abs(other) > 0.9)
    shares = oracle.singular_values(cosines) / 6
    entropy = -sum(share * math.log(share) for share in shares if share > 0)
    assert got["gradient_kernel_rank"] == pytest.approx(math.exp(entropy), rel=1e-6)


def test_curvature_is_that_of_differences_of_the_loss(small):
    network, inputs, targets, theta, loss = small
    mean = lambda at: np.mean([loss(i, at) for i in range(6)])  # noqa: E731
    hessian = oracle.slopes(lambda at: oracle.slopes(mean, at, 1e-4), theta, 1e-4)
    largest = max(np.linalg.eigvalsh((hessian + hessian.T) / 2), key=abs)
    assert curvature(network, inputs, targets, loss=F.cross_entropy, iterations=200) == pytest.approx(largest, rel=1e-4)


@pytest.mark.parametrize("function", [gradient_kernel, curvature])
def test_network_and_random_stream_are_left_alone(small, function):
    network, inputs, targets, *_ = small
    network.train()
    before, stream = [p.detach().clone() for p in network.parameters()], torch.get_rng_state()
    found = function(network, inputs, targets, loss=F.cross_entropy)
    assert all(map(torch.equal, network.parameters(), before))
    assert all(p.grad is None for p in network.parameters())
    assert torch.equal(torch.get_rng_state(), stream)
    assert all(module.training for module in network.modules())
    torch.manual_seed(1)
    assert function(network, inputs, targets, loss=F.cross_entropy) == found


def test_parameters_that_the_loss_does_not_reach_change_nothing(small):
    network, inputs, targets, *_ = small
    found = [function(network, inputs, targets, loss=F.cross_entropy) for function in (gradient_kernel, curvature)]
    network.unused = nn.Parameter(torch.ones(2))
    assert gradient_kernel(network, inputs, targets, loss=F.cross_entropy) == pytest.approx(found[0])
    assert curvature(network, inputs, targets, loss=F.cross_entropy, iterations=99) == pytest.approx(found[1], rel=0.05)


def test_curvature_of_few_iterations_is_no_larger_and_the_metric_takes_its_own_number():
    inputs, scale = torch.eye(3, dtype=torch.float64), torch.tensor([1.0, -3.0, 2.0], dtype=torch.float64)
    loss = lambda outputs, targets: (targets * outputs[:, 0] ** 2 / 2).mean()  # noqa: E731
    network = linear([[0.3, 0.2, 0.1]])
    first = curvature(network, inputs, scale, loss=loss, iterations=1)
    assert 0.0 < abs(first) <= 1.0
    observation = observe(nn.Sequential(network, nn.ReLU()), inputs, task=Task(inputs, scale, loss, None))
    observation = replace(observation, model=network)
    assert Curvature(iterations=1).measure(observation) == {"curvature": first}
    twenty = curvature(network, inputs, scale, loss=loss, iterations=20)
    assert Curvature().measure(observation) == {"curvature": curvature(network, inputs, scale, loss=loss)}
    assert curvature(network, inputs, scale, loss=loss) == twenty


def test_half_precision_and_values_that_are_not_finite(small):
    network, inputs, targets, *_ = small
    exact = gradient_kernel(network, inputs, targets, loss=F.cross_entropy)
    sharp = curvature(network, inputs, targets, loss=F.cross_entropy)
    one_nan = inputs.clone()
    one_nan[2] = torch.nan
    assert all(map(math.isnan, gradient_kernel(network, one_nan, targets, loss=F.cross_entropy).values()))
    network.bfloat16()
    half = gradient_kernel(network, inputs.bfloat16(), targets, loss=F.cross_entropy)
    assert half["gradient_cosine"] == pytest.approx(exact["gradient_cosine"], abs=0.05)
    assert curvature(network, inputs.bfloat16(), targets, loss=F.cross_entropy) == pytest.approx(sharp, rel=0.05)
    network[0].weight.data[0, 0] = torch.nan
    got = gradient_kernel(network, inputs.bfloat16(), targets, loss=F.cross_entropy)
    assert all(map(math.isnan, got.values()))
    assert math.isnan(curvature(network, inputs.bfloat16(), targets, loss=F.cross_entropy))


def test_one_sample_has_no_kernel_and_no_task_no_number():
    with pytest.raises(ValueError, match="gradient_kernel compares samples, at least 2; got 1"):
        gradient_kernel(linear([[1.0]]), torch.ones(1, 1).double(), torch.ones(1).double(), loss=output)
    observation = observe(nn.Sequential(nn.ReLU(), nn.Linear(2, 2)), torch.rand(3, 2))
    assert GradientKernel().measure(observation) == Curvature().measure(observation) == {}
    pair = observe(observation.model, torch.rand(2, 2), task=Task(torch.rand(2, 2), torch.ones(2), output))
    assert GradientKernel().measure(pair)["gradient_kernel_rank"] >= 1.0
