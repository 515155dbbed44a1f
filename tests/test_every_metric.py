"""What every metric must do, whatever the file it comes from."""

import copy
import dataclasses
import math
import re

import pytest
import torch
from torch import nn

from networks import MLP, VGG, ResNet
from supple import AID, CReLU, Fourier, convert
from supple.metrics.base import Metric, every_metric
from supple.metrics.observe import Task, observe
from supple_lab import registry

METRICS = every_metric()


def wide(activation):
    """A convolutional net with a norm for an activation that doubles its width."""
    return nn.Sequential(
        *(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), activation(), nn.AvgPool2d(3)),
        *(nn.Flatten(), nn.Linear(72, 5), activation(), nn.Linear(10, 3)),
    )


NETWORKS = {
    "mlp": (MLP, (6,)),
    "cnn with norm": (VGG, (3, 13, 13)),
    "residual": (ResNet, (3, 13, 13)),
    "aid residual": (lambda: convert(ResNet(), AID(0.9)), (3, 13, 13)),
    "crelu": (lambda: wide(CReLU), (3, 13, 13)),
    "fourier": (lambda: wide(Fourier), (3, 13, 13)),
}


def trained(name, num_samples=67):
    """A network after a step, with its initial weights, the batch and the task."""
    build, shape = NETWORKS[name]
    network = build()
    initial = copy.deepcopy(network.state_dict())
    inputs, targets = torch.randn(num_samples, *shape), torch.randint(3, (num_samples,))
    nn.functional.cross_entropy(network(inputs), targets).backward()
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    optimizer.step()
    return network, initial, inputs, Task(inputs, targets, nn.functional.cross_entropy, optimizer)


every_network = pytest.mark.parametrize("network_name", NETWORKS)
each_metric = pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)


def test_lab_finds_the_same_metrics_by_name():
    assert sorted(registry.known(Metric)) == sorted(metric.name for metric in METRICS)


WATCHED = (
    "dead_gradient distance_from_init dormant effective_rank gradient_norm preactivation_quartiles saturation "
    "sign_entropy weight_norm"
)


def test_monitor_measures_the_cheap_ones_alone_unless_asked():
    assert " ".join(metric.name for metric in METRICS if metric.watched) == WATCHED


def test_defaults_are_those_of_every_published_number():
    assert [repr(metric) for metric in METRICS if dataclasses.fields(metric)] == [
        "Churn(batch_size=64, num_held_out=256)",
        "Curvature(num_samples=256, iterations=20)",
        "DormantRatio(taus=(0.0, 0.025, 0.1))",
        "EffectiveRank(delta=0.01)",
        "FeatureRank(threshold=0.01)",
        "GradientKernel(num_samples=64)",
        "GramaRatio(threshold=0.01)",
        "PCARank(delta=0.01)",
        "PreactivationHistogram(num_bins=50)",
        "SamplePlasticity(batch_size=1, num_updates=32)",
        "TrainingAccuracy(batch_size=256)",
    ]


@each_metric
def test_metric_says_whether_it_needs_gradients_or_a_task(metric):
    network, initial, inputs, task = trained("mlp")
    whole = metric.measure(observe(network, inputs, initial=initial, task=task))
    assert metric.needs_task == (metric.measure(observe(network, inputs, initial=initial)) != whole)
    network.zero_grad()
    assert metric.reads_gradients == (metric.measure(observe(network, inputs, initial=initial, task=task)) != whole)


@each_metric
def test_metric_is_a_frozen_dataclass_with_a_name(metric):
    assert dataclasses.is_dataclass(metric)
    assert type(metric).__dataclass_params__.frozen
    assert metric == type(metric)()


@every_network
def test_metrics_give_finite_numbers_and_change_nothing(network_name):
    network, initial, inputs, task = trained(network_name)
    state, stream = copy.deepcopy(network.state_dict()), torch.get_rng_state()
    gradients = [p.grad.clone() for p in network.parameters()]
    num_hooks = count_hooks(network)
    observation = observe(network, inputs, initial=initial, task=task)
    for metric in METRICS:
        got = metric.measure(observation)
        assert got, metric.name
        assert all(isinstance(value, float) and math.isfinite(value) for value in got.values()), metric.name
    assert all(torch.equal(state[name], tensor) for name, tensor in network.state_dict().items())
    assert all(torch.equal(p.grad, g) for p, g in zip(network.parameters(), gradients, strict=True))
    assert torch.equal(torch.get_rng_state(), stream)
    assert count_hooks(network) == num_hooks
    assert all(module.training for module in network.modules())


def count_hooks(network):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in network.modules())


@each_metric
def test_metric_survives_a_network_that_has_diverged(metric):
    network, initial, inputs, task = trained("cnn with norm")
    network.features[0].weight.data[0] = torch.nan
    metric.measure(observe(network, inputs, initial=initial, task=task))


BOUNDS = [  # of a field: values that are allowed, and values that are refused with these words
    ("Churn.batch_size", (1,), (0,), "must be at least 1"),
    ("Curvature.iterations", (1,), (0,), "must be at least 1"),
    ("DormantRatio.taus", ((0.0,),), ((0.1, -0.1),), "are thresholds of a score, at least 0"),
    ("EffectiveRank.delta", (1e-9, 1.0 - 1e-9), (0.0, 1.0), "is the share of the sum left out, in (0, 1)"),
    ("FeatureRank.threshold", (0.0,), (-1.0,), "is a singular value, at least 0"),
    ("FeatureRank.threshold", (), (math.inf, math.nan), "must be a finite number"),
    ("GradientKernel.num_samples", (2,), (1,), "must be at least 2"),
    ("GramaRatio.threshold", (0.0,), (-1.0,), "is a score, at least 0"),
    ("GramaRatio.threshold", (), (math.inf, math.nan), "must be a finite number"),
    ("PCARank.delta", (1e-9, 1.0 - 1e-9), (0.0, 1.0), "is the share of the sum left out, in (0, 1)"),
    ("PreactivationHistogram.num_bins", (1,), (0,), "must be at least 1"),
    ("SamplePlasticity.batch_size", (1,), (0,), "must be at least 1"),
    ("SamplePlasticity.num_updates", (1,), (0,), "must be at least 1"),
]


@pytest.mark.parametrize(("place", "allowed", "refused", "said"), BOUNDS)
def test_bounds_of_a_field_are_allowed_as_it_says_and_nothing_beyond(place, allowed, refused, said):
    name, field = place.split(".")
    cls = {type(metric).__name__: type(metric) for metric in METRICS}[name]
    for value in allowed:
        assert getattr(cls(**{field: value}), field) == value
    for value in refused:
        with pytest.raises(ValueError, match=re.escape(f"{place} {said}; got {value}")):
            cls(**{field: value})
