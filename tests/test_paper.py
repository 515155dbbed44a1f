"""Every statement the paper proves, one test each: Properties 1 to 3, Theorem 1, Corollary 1."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import supple.functional as SF
from supple import theory

N = 400_000
PS = (0.0, 0.05, 0.3, 0.49, 0.5, 0.51, 0.7, 0.9, 0.99, 1.0)
SHAPES = ((3, 3, 3), (4, 6, 2), (1, 8, 5), (7, 2, 1), (5, 1, 4), (2, 10, 3))  # inputs, units, outputs
EXACT = {"rtol": 1e-10, "atol": 1e-12}


def sigma(rate: float, n: int) -> float:
    return math.sqrt(rate * (1.0 - rate) / n)


def nonzero_normal(n: int = N) -> Tensor:
    x = torch.randn(n, dtype=torch.float64)
    assert x.all()
    return x


def two_layers(shape: tuple[int, int, int], seed: int) -> dict[str, Tensor]:
    inputs, units, outputs = shape
    generator = torch.Generator().manual_seed(seed)
    shapes = {"W1": (units, inputs), "W2": (outputs, units), "x": (inputs,), "y": (outputs,)}
    return {key: torch.randn(*s, dtype=torch.float64, generator=generator) for key, s in shapes.items()}


def without_target(net: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key: net[key] for key in ("W1", "W2", "x")}


def enumerated_loss(net: dict[str, Tensor], prob: float, *, branch: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """The expected loss with no formula: every 0-1 mask of the n units, weighted by its probability."""
    v = net["W1"] @ net["x"]
    masks = torch.tensor(list(itertools.product((0.0, 1.0), repeat=len(v))), dtype=torch.float64)
    weights = (masks * prob + (1 - masks) * (1 - prob)).prod(dim=1)
    losses = (branch(masks, v) @ net["W2"].T - net["y"]).square().sum(dim=1)
    return weights @ losses


def aid_branch(mask: Tensor, v: Tensor) -> Tensor:
    return mask * torch.relu(v) + (1 - mask) * theory.negative_relu(v)


NETS = pytest.mark.parametrize("net", [two_layers(s, seed) for seed, s in enumerate(SHAPES)], ids=map(str, SHAPES))


# Property 1. AID_{p,q} drops positives with rate p and negatives with rate q: interval_dropout(x, (0,), (q, p)).


def shared_mask() -> torch.Generator:
    # Not the seed x is drawn with: equal streams would make the mask depend on x.
    return torch.Generator().manual_seed(2025)


def aid_pq(x: Tensor, p: float, q: float) -> Tensor:
    return SF.interval_dropout(x, (0.0,), (q, p), generator=shared_mask())


def test_property_1_relu_is_aid_01():
    x = nonzero_normal()
    assert torch.equal(aid_pq(x, 0.0, 1.0), torch.relu(x))


def test_property_1_dropout_is_aid_pp_over_keep_rate():
    x, p = nonzero_normal(), 0.3
    y = aid_pq(x, p, p)
    mask = y != 0
    assert torch.equal(y / (1 - p), x * mask / (1 - p))
    # A Dropout mask knows nothing of x: the same seed masks -x alike, and both signs are kept with one rate.
    assert torch.equal(aid_pq(-x, p, p), -y)
    for half in (x > 0, x < 0):
        assert abs(mask[half].double().mean() - (1 - p)) < 5 * sigma(p, int(half.sum()))


def test_property_1_dropout_after_relu_is_aid_p1_over_keep_rate():
    x, p = nonzero_normal(), 0.3
    y = SF.relu_dropout(x, p, generator=shared_mask())
    torch.testing.assert_close(y, aid_pq(x, p, 1.0) / (1 - p))
    mask = y != 0
    torch.testing.assert_close(y, torch.relu(x) * mask / (1 - p))
    assert abs(mask[x > 0].double().mean() - (1 - p)) < 5 * sigma(p, int((x > 0).sum()))


def test_property_1_drop_relu_is_aid_0p():
    x, p = nonzero_normal(), 0.7
    y = SF.drop_relu(x, p, generator=shared_mask())
    assert torch.equal(y, aid_pq(x, 0.0, p))
    relu_taken = y != x
    assert torch.equal(y, torch.where(relu_taken, torch.relu(x), x))
    assert abs(relu_taken[x < 0].double().mean() - p) < 5 * sigma(p, int((x < 0).sum()))


def test_property_1_aid_p_is_aid_with_rates_one_minus_p_and_p():
    x, p = nonzero_normal(), 0.8
    assert torch.equal(SF.aid(x, p, generator=shared_mask()), aid_pq(x, 1 - p, p))


# Property 2. AID_p is ReLU with probability p and negative ReLU with probability 1 - p.


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_property_2_aid_takes_relu_with_probability_p_and_negative_relu_otherwise(p: float):
    x = nonzero_normal()
    y = SF.aid(x, p)
    relu_taken = torch.where(x > 0, y != 0, y == 0)
    assert torch.equal(y, torch.where(relu_taken, torch.relu(x), theory.negative_relu(x)))
    for part in (x < -1, (x < 0) & (x > -0.1), (x > 0) & (x < 0.1), x > 1):
        assert abs(relu_taken[part].double().mean() - p) < 5 * sigma(p, int(part.sum()))


def test_property_2_evaluation_is_the_mean_of_the_two_branches():
    x, p = nonzero_normal(1000), 0.85
    mean = p * torch.relu(x) + (1 - p) * theory.negative_relu(x)
    torch.testing.assert_close(SF.aid(x, p, training=False), mean)
    torch.testing.assert_close(SF.modified_leaky_relu(x, p), x / 2 + (p - 0.5) * x.abs())


# Property 3. Under symmetric pre-activations AID has ReLU's second moment and gradient law, so He's gain serves it.

SYMMETRIC = {
    "normal": lambda: torch.randn(N, dtype=torch.float64),
    "uniform": lambda: torch.rand(N, dtype=torch.float64) * 2 - 1,
    "laplace": lambda: torch.distributions.Laplace(0.0, 1.0).sample((N,)).double(),
}
DISTRIBUTIONS = pytest.mark.parametrize("symmetric", SYMMETRIC.values(), ids=SYMMETRIC.keys())


def assert_mean_is(sample: Tensor, expected: float) -> None:
    assert abs(sample.mean().item() - expected) <= 5 * sample.std().item() / math.sqrt(len(sample)) + 1e-12


@DISTRIBUTIONS
@pytest.mark.parametrize("p", [0.3, 0.7, 0.95])
def test_property_3_second_moment_is_half_the_variance_in_training(symmetric: Callable[[], Tensor], p: float):
    z = symmetric()
    ratio = theory.train_second_moment(p, 1 - p)
    assert ratio == pytest.approx(0.5)
    assert_mean_is(SF.aid(z, p).square() - ratio * z.square(), 0.0)


@DISTRIBUTIONS
@pytest.mark.parametrize("p", [0.3, 0.7, 0.95])
def test_property_3_gradient_is_one_with_probability_one_half(symmetric: Callable[[], Tensor], p: float):
    z = symmetric().requires_grad_()
    SF.aid(z, p).sum().backward()
    half = theory.gradient_one_probability(p, 1 - p)
    assert half == pytest.approx(0.5)
    assert set(z.grad.tolist()) == {0.0, 1.0}
    assert abs(z.grad.mean() - half) < 5 * sigma(half, N)


@DISTRIBUTIONS
@pytest.mark.parametrize("p", [0.5, 0.7, 0.95, 1.0])
def test_property_3_does_not_extend_to_evaluation(symmetric: Callable[[], Tensor], p: float):
    z = symmetric()
    ratio = theory.eval_second_moment(p, 1 - p)
    assert ratio == pytest.approx((p**2 + (1 - p) ** 2) / 2)
    assert_mean_is(SF.aid(z, p, training=False).square() - ratio * z.square(), 0.0)


def test_property_3_fails_for_drop_relu():
    z, p = SYMMETRIC["normal"](), 0.7
    assert theory.train_second_moment(1.0, 1 - p) == pytest.approx(0.65)
    assert_mean_is(SF.drop_relu(z, p).square() - 0.65 * z.square(), 0.0)


@pytest.mark.parametrize(("training", "p"), [(True, 0.7), (True, 0.95), (False, 0.7), (False, 0.95)])
def test_property_3_predicts_the_variance_through_a_he_initialised_network(training: bool, p: float):
    width, depth = 2048, 4
    z = torch.randn(width)
    start = z.square().mean().item()
    moment = theory.train_second_moment if training else theory.eval_second_moment
    for layer, expected in enumerate(theory.he_variance(moment(p, 1 - p), depth=depth)):
        # The relative variance of ||z||^2 grows by at most E[f^4]/E[f^2]^2 - 1 = 5 over the width at each layer.
        assert abs(z.square().mean().item() / start / expected - 1) <= 5 * math.sqrt(5 * layer / width)
        z = torch.randn(width, width) * math.sqrt(2 / width) @ SF.aid(z, p, training)


# Theorem 1.


@NETS
@pytest.mark.parametrize("p", PS)
def test_theorem_1_exact_loss_is_the_mean_over_all_masks(net: dict[str, Tensor], p: float):
    expected = enumerated_loss(net, p, branch=aid_branch)
    torch.testing.assert_close(theory.aid_loss(**net, p=p), expected, **EXACT)


@NETS
@pytest.mark.parametrize("p", PS)
def test_theorem_1_aid_loss_is_at_least_its_bound(net: dict[str, Tensor], p: float):
    loss = enumerated_loss(net, p, branch=aid_branch)
    assert loss >= theory.aid_loss_bound(**net, p=p) - 1e-10 * loss


def test_theorem_1_holds_for_a_wide_network_trained_with_the_layer():
    net, p, n = two_layers((20, 100, 10), 0), 0.9, 20_000
    hidden = SF.aid((net["W1"] @ net["x"]).expand(n, -1), p)
    losses = (hidden @ net["W2"].T - net["y"]).square().sum(dim=1)
    assert_mean_is(losses, theory.aid_loss(**net, p=p).item())
    assert losses.mean() > theory.aid_loss_bound(**net, p=p)


@NETS
def test_theorem_1_penalty_is_finite_and_largest_at_one_half(net: dict[str, Tensor]):
    given = without_target(net)
    middle = theory.aid_penalty_bound(**given, p=0.5)
    assert middle.isfinite()
    assert middle > 0
    assert theory.aid_penalty_bound_as_printed(**given, p=0.5).isnan()
    for p in (0.0, 0.3, 0.49, 0.51, 0.9, 1.0):
        assert theory.aid_penalty_bound(**given, p=p) < middle
        assert theory.aid_penalty(**given, p=p) < theory.aid_penalty(**given, p=0.5)


@NETS
@pytest.mark.parametrize("p", [p for p in PS if p != 0.5])
def test_theorem_1_printed_penalty_equals_the_finite_one_off_one_half(net: dict[str, Tensor], p: float):
    given = without_target(net)
    printed = theory.aid_penalty_bound_as_printed(**given, p=p)
    torch.testing.assert_close(theory.aid_penalty_bound(**given, p=p), printed, rtol=1e-8, atol=1e-12)


def test_theorem_1_bound_is_tight_when_all_units_contribute_alike():
    net = {"W1": torch.eye(4).double(), "W2": torch.tensor([[1.0], [2.0]]).double().expand(2, 4)}
    x = torch.tensor([1.5, -1.5, -1.5, 1.5]).double()
    torch.testing.assert_close(theory.aid_penalty(**net, x=x, p=0.7), theory.aid_penalty_bound(**net, x=x, p=0.7))


def test_theorem_1_terms_agree_with_a_network_computed_by_hand():
    W1 = torch.tensor([[1.0], [-2.0]])
    W2 = torch.tensor([[3.0, 1.0]])
    x, y, p = torch.tensor([1.0]), torch.tensor([2.0]), 0.75
    given = {"W1": W1, "W2": W2, "x": x, "p": p}
    # v = (1, -2); r_p(v) = (0.75, -0.5); W2 r_p(v) = 1.75; |v| = (1, 2); W2 |v| = 5; W2 v / 2 = 0.5.
    assert theory.mean_network_loss(**given, y=y).item() == pytest.approx(0.25**2)
    assert theory.nonlinearity(**given).item() == pytest.approx(1.25**2)
    assert theory.aid_penalty(**given).item() == pytest.approx(0.1875 * (9 * 1 + 1 * 4))
    assert theory.aid_penalty_bound(**given).item() == pytest.approx(0.1875 / 2 * 25)
    assert theory.aid_loss(**given, y=y).item() == pytest.approx(0.0625 + 0.1875 * 13)


def test_theorem_1_takes_batches_of_inputs():
    net = two_layers((4, 6, 2), 0)
    x, y = torch.randn(3, 4, dtype=torch.float64), torch.randn(3, 2, dtype=torch.float64)
    batch = theory.aid_loss(net["W1"], net["W2"], x=x, y=y, p=0.8)
    single = [theory.aid_loss(net["W1"], net["W2"], x=a, y=b, p=0.8) for a, b in zip(x, y, strict=True)]
    torch.testing.assert_close(batch, torch.stack(single))


# Corollary 1. Dropout after ReLU has a penalty too, but not one towards a linear network.


@NETS
@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 0.9])
def test_corollary_1_exact_loss_is_the_mean_over_all_masks(net: dict[str, Tensor], p: float):
    def branch(dropped: Tensor, v: Tensor) -> Tensor:
        return (1 - dropped) * torch.relu(v) / (1 - p)

    expected = enumerated_loss(net, p, branch=branch)
    torch.testing.assert_close(theory.dropout_loss(**net, drop_positive=p), expected, **EXACT)


@NETS
@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 0.9])
def test_corollary_1_dropout_penalty_is_at_least_its_bound(net: dict[str, Tensor], p: float):
    given = without_target(net)
    penalty = theory.dropout_penalty(**given, drop_positive=p)
    assert penalty >= theory.dropout_penalty_bound(**given, drop_positive=p) - 1e-10 * penalty


def test_corollary_1_dropout_penalty_does_not_see_negative_units_and_aid_does():
    W1, W2 = torch.eye(2), torch.tensor([[1.0, 1.0]])
    near, far = torch.tensor([1.0, -1.0]), torch.tensor([1.0, -9.0])
    for penalty in (theory.dropout_penalty, theory.dropout_penalty_bound):
        assert penalty(W1, W2, x=near, drop_positive=0.3) == penalty(W1, W2, x=far, drop_positive=0.3)
    for penalty in (theory.aid_penalty, theory.aid_penalty_bound):
        assert penalty(W1, W2, x=near, p=0.7) < penalty(W1, W2, x=far, p=0.7)


def test_corollary_1_zero_dropout_penalty_leaves_the_network_nonlinear():
    W1, W2, x = torch.eye(2), torch.tensor([[1.0, 1.0]]), torch.tensor([-1.0, -2.0])
    assert theory.dropout_penalty(W1, W2, x=x, drop_positive=0.3) == 0
    assert theory.nonlinearity(W1, W2, x=x, p=1.0) > 0


def test_corollary_1_describes_torch_dropout():
    net, p, n = two_layers((4, 6, 2), 1), 0.3, N
    hidden = F.dropout(torch.relu(net["W1"] @ net["x"]).expand(n, -1), p)
    losses = (hidden @ net["W2"].T - net["y"]).square().sum(dim=1)
    assert_mean_is(losses, theory.dropout_loss(**net, drop_positive=p).item())
