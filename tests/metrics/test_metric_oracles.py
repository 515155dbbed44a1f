"""Every metric against its definition, on random networks and however the probe is cut into batches."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn

from oracles import metrics as oracle
from oracles.networks import Conv, Linear, forward, is_decided, named_parts
from oracles.rounding import Rounded, difference
from property_settings import examples
from random_networks import EVERY_ACTIVATION, Network, exact, networks, rounded
from supple.metrics.base import every_metric, measure
from supple.metrics.observe import Observation, observe
from supple.metrics.preactivation import PreactivationHistogram
from supple.metrics.rank import EffectiveRank
from supple.metrics.units import DormantRatio

NUM_BINS = 7
TAUS = (0.0, 0.025, 0.1, 1.0)
FLOAT64 = torch.finfo(torch.float64).eps / 2

MEASURED = {
    *("dormant_ratio", "dormant_ratio_0.025", "dormant_ratio_0.1", "saturated_share", "sign_entropy", "sign_bias"),
    *("srank", "effective_rank", "preactivation_q1", "preactivation_q2", "preactivation_q3"),
    *("preactivation_low", "preactivation_high", *(f"preactivation_bin_{place:02d}" for place in range(50))),
    *("weight_norm", "distance_from_init", "gradient_norm", "dead_gradient_share"),
    *("active_fraction", "stable_rank", "pca_rank", "feature_rank", "grama_ratio", "dfi"),
}
BY_DIFFERENCES = {"gradient_kernel", "curvature"}  # in test_derivatives
BY_HAND = {"churn", "sample_plasticity", "training_accuracy"}  # in test_updates


def observed(network: Network, model: nn.Module, x: torch.Tensor, **options) -> tuple[Observation, dict[str, float]]:
    observation = observe(model, x, **options)
    metrics = [*every_metric(), DormantRatio(taus=TAUS), PreactivationHistogram(num_bins=NUM_BINS)]
    return observation, measure(metrics, observation)


def close(value: float, expected: Rounded) -> None:
    assert not (wrong := difference(value, expected)), wrong


@examples(25)
@given(network=networks(), num_examples=st.integers(2, 9), batch_size=st.integers(1, 10), delta=st.floats(0.01, 0.4))
def test_metrics_of_activations_follow_their_definitions(network, num_examples, batch_size, delta):
    model, x = network.module(), network.inputs(num_examples)
    seen = forward(network.parts, rounded(model.state_dict(), network.unit), exact(x, network.unit))
    assume(is_decided(seen, network.parts))
    observation, numbers = observed(network, model, x, batch_size=batch_size)

    assert [site.name for site in observation.sites] == [site.name for site in seen.sites]
    for site, own in zip(observation.sites, seen.sites, strict=True):
        assert not (wrong := difference(site.magnitude, oracle.magnitudes(own))), wrong
        for sample, row in enumerate(site.kept_rows.double().numpy()):
            kept = own.h.moved(lambda a, own=own, sample=sample: oracle.kept_row(a, own.axis, sample))
            assert not (wrong := difference(row, kept, tiny=network.tiny)), wrong
    assert np.concatenate([site.positive_share for site in observation.sites]).tolist() == oracle.positive_shares(
        seen.sites
    )
    for tau in TAUS:
        low, high = oracle.dormant_range(seen.sites, tau)
        assert low <= numbers[f"dormant_ratio_{tau:g}" if tau else "dormant_ratio"] <= high
    num_units = sum(site.num_units for site in observation.sites)
    rounding = 8 * num_units * FLOAT64  # a logarithm or two, products and the sum over units
    assert abs(numbers["saturated_share"] - oracle.saturated_share(seen.sites)) <= rounding
    assert abs(numbers["sign_entropy"] - oracle.sign_entropy(seen.sites)) <= rounding
    assert abs(numbers["sign_bias"] - oracle.sign_bias(seen.sites)) <= rounding

    is_tanh = any(getattr(part, "kind", "") == "tanh" for _, part in named_parts(network.parts))
    low, high = oracle.active_range(seen.sites, is_tanh=is_tanh)
    assert low - rounding <= numbers["active_fraction"] <= high + rounding

    z = seen.sites[-1].z
    for place, name in enumerate(["preactivation_q1", "preactivation_q2", "preactivation_q3"]):
        close(numbers[name], oracle.quartiles(z)[place])
    for name, end in (("preactivation_low", np.min), ("preactivation_high", np.max)):
        close(numbers[name], Rounded(end(z.value), unit=0.0, bound=z.bound.max()))
    for place, (low, high) in enumerate(oracle.histogram_ranges(z, NUM_BINS)):
        share = numbers[f"preactivation_bin_{place:02d}"]
        assert low - FLOAT64 <= share <= high + FLOAT64

    features = seen.features.moved(lambda a: np.moveaxis(a, seen.features_axis, -1))
    features = features.moved(lambda a: a.reshape(-1, a.shape[-1]))
    assert not (wrong := difference(observation.features_ND, features, tiny=network.tiny)), wrong
    values = oracle.singular_values(features.value)
    doubt = doubt_of_shares(features, values)
    ranks = measure([EffectiveRank(delta=delta)], observation)
    low, high = oracle.srank_range(values, delta, doubt)
    assert low <= ranks["srank"] <= high
    assert ranks["effective_rank"] == numbers["effective_rank"]
    close(ranks["effective_rank"], oracle.entropy_rank(values, doubt))
    assert numbers["stable_rank"] == pytest.approx(oracle.stable_rank(values), rel=2 * doubt * len(values), abs=1e-12)
    low, high = oracle.srank_range(values**2, 0.01, 2 * doubt)
    assert low <= numbers["pca_rank"] <= high
    low, high = oracle.feature_rank_range(values, len(features.value), 0.01, doubt * values.sum())
    assert low <= numbers["feature_rank"] <= high


def doubt_of_shares(features: Rounded, values: np.ndarray) -> float:
    """How far a value's share of the sum may be off.

    The Gram matrix of n x d features errs by (n + d) roundings of its largest eigenvalue, and so do its eigenvalues; a
    singular value near 0 errs by the root of that. To it come the errors of the features (Weyl).
    """
    if not values.sum():
        return FLOAT64
    num_roundings = 4 * sum(features.shape)
    error = np.sqrt(num_roundings * 2 * FLOAT64) * values[0] + 2 * np.sqrt((features.bound**2).sum())
    return 2 * len(values) * error / values.sum()


@examples(20)
@given(network=networks(), data=st.data())
def test_metrics_of_weights_and_gradients_follow_their_definitions(network, data):
    model, x = network.module(), network.inputs(4)
    initial = {name: p.detach() + 0.01 * torch.ones_like(p) for name, p in model.named_parameters()}
    names = st.sampled_from([name for name, _ in model.named_parameters()])
    frozen = data.draw(st.sets(names, max_size=2 * network.can_freeze))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in frozen)
    (model(x)[:, 0] ** 2).sum().backward()  # rows of the head but the first get no gradient
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    observation, numbers = observed(network, model, x, initial=initial)

    trained = {name: p for name, p in model.named_parameters() if name not in frozen}
    close(numbers["weight_norm"], oracle.norm([exact(p, network.unit) for p in trained.values()]))
    moved = [exact(p, FLOAT64) - exact(initial[name], FLOAT64) for name, p in trained.items()]
    close(numbers["distance_from_init"], oracle.norm(moved))
    close(numbers["gradient_norm"], oracle.norm([exact(g, network.unit) for g in gradients.values()]))
    layers = [name for name, part in named_parts(network.parts) if counts_rows(part)]
    weights = [model.get_submodule(name).weight for name in layers]
    rows = [weight.grad.double().numpy() for weight in weights if weight.grad is not None]
    fed = {site.layer for site in observation.sites}
    hidden = [model.get_submodule(name).weight.grad for name in layers if name in fed]
    sizes = [gradient.double().numpy() for gradient in hidden if gradient is not None]
    assert numbers["grama_ratio"] == pytest.approx(oracle.inactive_share(sizes, 0.01)) if sizes else True
    groups = [
        group.flatten(1).detach().double().numpy()
        for name, part in named_parts(network.parts)
        if counts_rows(part)
        for group in model.get_submodule(name).weight.chunk(getattr(part, "groups", 1))
    ]
    assert numbers["dfi"] == pytest.approx(sum(map(oracle.deviation_from_isometry, groups)))
    assert numbers["dead_gradient_share"] == oracle.dead_gradient_share(rows) if rows else True


def counts_rows(part: object) -> bool:
    """The rows of a transposed convolution are not its units."""
    return isinstance(part, Linear) or (isinstance(part, Conv) and not part.transposed)


def test_every_number_of_every_metric_has_an_oracle():
    network = Network((Linear(2, 3), EVERY_ACTIVATION[0], Linear(3, 2)), (2,), False, torch.float64, seed=0)
    model = network.module()
    model(network.inputs(2)).sum().backward()
    initial = dict(model.named_parameters())
    metrics = [metric for metric in every_metric() if not metric.needs_task]
    assert set(measure(metrics, observe(model, network.inputs(4), initial=initial))) == MEASURED
    assert {metric.name for metric in every_metric() if metric.needs_task} == BY_DIFFERENCES | BY_HAND
