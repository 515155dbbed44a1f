"""Activations that AID is compared with: values from their papers, moments, streams, and what they refuse."""

import math

import pytest
import torch
from torch import fx, nn

import networks
from supple import AID, Learner, convert, load_converted, save_converted
from supple import functional as SF
from supple.layers import (
    AIDGauss,
    AIDMean,
    AIDPerUnit,
    LeakyDropout,
    NormAID,
    NormReLU,
    PReLU,
    Rational,
    RReLU,
    SmoothLeaky,
)
from supple.random import mask_stream

REPRS = {
    "AIDMean(p=0.9)": AIDMean,
    "AIDGauss(p=0.9)": AIDGauss,
    "AIDPerUnit(p=0.9)": AIDPerUnit,
    "LeakyDropout(slope=0.1, drop=0.1)": LeakyDropout,
    "NormAID(p=0.9)": NormAID,
    "NormReLU()": NormReLU,
    "NormReLU(affine=True)": lambda: NormReLU(affine=True),
    "SmoothLeaky(slope=0.1)": SmoothLeaky,
    "SmoothLeaky(slope=0.1, upper=0.3)": lambda: SmoothLeaky(upper=0.3),
    "PReLU()": PReLU,
    "PReLU(num_units=8)": lambda: PReLU(8),
    "Rational()": Rational,
}


@pytest.mark.parametrize("name", REPRS)
def test_every_layer_shows_what_it_was_made_with_and_is_one_node_of_a_traced_model(name):
    layer, x = REPRS[name](), torch.randn(networks.VECTOR)
    assert repr(layer) == name
    model = convert(networks.MLP(), layer)
    model(x)  # slopes are made
    traced = fx.symbolic_trace(model)
    nodes = [node.target for node in traced.graph.nodes if node.op == "call_module"]
    assert {path for path, module in model.named_modules() if type(module) is type(layer)} <= set(nodes)
    for training in (True, False):
        twins = []
        for twin in (model, traced):
            torch.manual_seed(1)
            twins.append(twin.train(training)(x))
        assert torch.equal(*twins)


def at(layer, *values):
    return layer(torch.tensor(values, dtype=torch.float64)).tolist()


def test_smooth_leaky_has_the_papers_values():
    layer = SmoothLeaky()
    assert at(layer, 1.0, -1.0, 0.0) == pytest.approx([0.857018, -0.242982, 0.0], abs=1e-6)
    x = torch.linspace(-6, 6, 4001, dtype=torch.float64, requires_grad=True)
    (slopes,) = torch.autograd.grad(layer(x).sum(), x)
    assert slopes[2000] == pytest.approx(0.55)
    assert slopes.min() == pytest.approx(0.010145, abs=1e-5)


def test_rational_starts_near_a_leaky_relu_and_is_trained():
    layer = Rational().double()
    assert at(layer, 0.0, 1.0, -10.0) == pytest.approx([0.0336, 1.0008, -2.27], abs=5e-3)
    layer(torch.randn(9, dtype=torch.float64)).sum().backward()
    assert all(parameter.grad.abs().min() > 0 for parameter in layer.parameters())
    assert Rational.DENOMINATOR == (4.81e-5, 3.98024791, 1.58e-5, 0.30183383)  # the small ones show in no output
    x = torch.randn(50, dtype=torch.float64)
    above = sum(a * x**n for n, a in enumerate(Rational.NUMERATOR))
    below = 1.0 + sum(b * x**n for n, b in enumerate(Rational.DENOMINATOR, start=1)).abs()
    for coefficients, values in ((layer.numerator, Rational.NUMERATOR), (layer.denominator, Rational.DENOMINATOR)):
        coefficients.data = torch.tensor(values, dtype=torch.float64)
    torch.testing.assert_close(layer(x), above / below, rtol=1e-12, atol=1e-12)
    half = x.bfloat16()
    assert torch.equal(Rational()(half), Rational()(half.float()).bfloat16())


def test_mean_of_aid_is_its_evaluation_in_both_modes():
    x = torch.randn(100)
    expected = AID(0.8).eval()(x)
    assert torch.equal(AIDMean(0.8)(x), expected)
    assert torch.equal(AIDMean(0.8).eval()(x), expected)
    assert torch.equal(AIDGauss(0.8).eval()(x), expected)
    assert torch.equal(AIDPerUnit(0.8).eval()(x), expected)


@pytest.mark.parametrize("value", [1.5, -2.0])
def test_gaussian_twin_has_aids_mean_and_variance_and_its_gradient_is_its_factor(value):
    n, p = 200_000, 0.8
    x = torch.full((n,), value, dtype=torch.float64, requires_grad=True)
    y = AIDGauss(p)(x)
    mean, variance = value * (p if value > 0 else 1 - p), value**2 * p * (1 - p)
    assert abs(y.mean().item() - mean) < 5 * math.sqrt(variance / n)
    assert abs(y.var().item() - variance) < 5 * variance * math.sqrt(2 / n)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient, (y / x).detach())
    with mask_stream(torch.Generator().manual_seed(3)):
        y = AIDGauss(p)(x)
    normal = torch.empty_like(x, requires_grad=False).normal_(generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(y, mean + value * math.sqrt(p * (1 - p)) * normal)


@pytest.mark.parametrize(("shape", "units"), [((5, 4000), 1), ((3, 4000, 2, 2), 1), ((2, 3, 4000), 2)])
def test_one_draw_decides_all_of_a_unit_and_is_relu_as_often_as_p_says(shape, units):
    p, x = 0.8, torch.randn(shape)
    rows = x.movedim(units, 0).flatten(1), AIDPerUnit(p)(x).movedim(units, 0).flatten(1)
    branches = torch.stack([(rows[1] == expected).all(1) for expected in (rows[0].clamp(min=0), rows[0].clamp(max=0))])
    assert (branches.sum(0) >= 1).all()  # both, if a unit's inputs are all zero
    assert abs(branches[0].double().mean() - p) < 5 * math.sqrt(p * (1 - p) / shape[units])
    assert torch.equal(AIDPerUnit(1.0)(x), torch.relu(x))
    assert AIDPerUnit(0.5)(torch.full((2, 3), math.nan)).isnan().all()


def test_dropout_after_leaky_relu_keeps_its_mean_and_drops_both_signs_alike():
    slope, drop, n = 0.25, 0.2, 100_000
    x = torch.cat((torch.full((n,), 3.0), torch.full((n,), -4.0)))
    for y, kept in zip(LeakyDropout(slope, drop)(x).chunk(2), (3.0, -1.0), strict=True):
        assert y.unique().tolist() == pytest.approx(sorted([0.0, kept / (1 - drop)]))
        assert abs((y == 0).double().mean() - drop) < 5 * math.sqrt(drop * (1 - drop) / n)
    assert torch.equal(LeakyDropout(slope, drop).eval()(x), nn.functional.leaky_relu(x, slope))
    assert not LeakyDropout(slope, 1.0)(x).any()


@pytest.mark.parametrize("training", [True, False])
def test_at_zero_dropout_after_leaky_relu_has_the_slope_of_leaky_relu(training):
    zero = torch.zeros(9, requires_grad=True)
    expected = torch.autograd.grad(nn.functional.leaky_relu(zero, 0.25).sum(), zero)[0]
    layer = LeakyDropout(0.25, 0.2).train(training)
    torch.testing.assert_close(torch.autograd.grad(layer(zero).sum(), zero)[0], expected)
    assert not torch.autograd.grad(LeakyDropout(0.25, 1.0)(zero).sum(), zero)[0].any()


@pytest.mark.parametrize("training", [True, False])
def test_layer_norm_before_aid_is_aid_of_the_normalised_input(training):
    x = 7.0 + 3.0 * torch.randn(4, 3, 5, 5)
    normal = nn.functional.layer_norm(x, x.shape[1:])
    found = []
    for call in (NormAID(0.7).train(training), lambda x: SF.aid(normal, 0.7, training)):
        with mask_stream(torch.Generator().manual_seed(3)):
            found.append(call(x))
    assert torch.equal(*found)


def test_random_smooth_leaky_draws_slopes_and_is_their_mean_in_evaluation():
    layer = SmoothLeaky(0.125, upper=0.333)
    x = torch.full((10_000,), -3.0, dtype=torch.float64)
    y = layer(x)
    low, high = (SmoothLeaky(slope)(x[:1]) for slope in (0.125, 0.333))
    assert ((y <= low) & (y >= high)).all()
    assert y.unique().numel() > 9_000
    torch.testing.assert_close(layer.eval()(x[:1]), (low + high) / 2)


@pytest.mark.parametrize("layer", [AIDGauss(), SmoothLeaky(0.1, upper=0.3), AIDPerUnit(), LeakyDropout()], ids=repr)
def test_noise_comes_from_the_stream_of_masks(layer):
    x = torch.randn(2, 50)
    drawn = []
    for _ in range(2):
        with mask_stream(torch.Generator().manual_seed(3)):
            drawn.append(layer(x))
    assert torch.equal(*drawn)
    state = torch.get_rng_state()
    with mask_stream(torch.Generator().manual_seed(3)):
        layer(x)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("layer", [AIDGauss(), SmoothLeaky(0.1, upper=0.3), AIDPerUnit(), RReLU()], ids=repr)
def test_noise_of_a_jit_trace_is_drawn_anew_by_torchs_own_generator(layer):
    x = torch.randn(2, 50)
    with mask_stream(torch.Generator().manual_seed(3)):
        traced = torch.jit.trace(layer, (x,), check_trace=False)
    first, second = traced(x), traced(x)
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    first = traced(x)
    torch.manual_seed(1)
    assert torch.equal(traced(x), first)


@pytest.mark.parametrize(
    ("layer", "field", "value"),
    [
        (RReLU, "inplace", "no"),
        (RReLU, "lower", True),
        (RReLU, "upper", "1"),
        (NormReLU, "affine", 1),
        (NormReLU, "eps", True),
        (SmoothLeaky, "slope", True),
        (SmoothLeaky, "upper", True),
        (SmoothLeaky, "sharpness", "1"),
        (PReLU, "num_units", True),
        (PReLU, "unit_dim", 1.5),
    ],
)
def test_value_of_a_wrong_type_is_refused_with_the_name_of_its_field(layer, field, value):
    with pytest.raises(TypeError, match=rf"{layer.__name__}\.{field}"):
        layer(**{field: value})


@pytest.mark.parametrize("shape", [(4, 30), (4, 3, 5, 5)])
def test_norm_relu_normalises_each_example_and_may_scale(shape):
    x = 7.0 + 3.0 * torch.randn(shape)
    plain, affine = NormReLU(), NormReLU(affine=True)
    torch.testing.assert_close(plain(0.001 * x), torch.relu(nn.functional.layer_norm(0.001 * x, shape[1:])))
    expected = torch.relu(nn.functional.layer_norm(x, shape[1:]))
    torch.testing.assert_close(plain(x), expected)
    torch.testing.assert_close(affine(x), expected)
    affine.scale.data.fill_(-2.0)
    affine.shift.data.fill_(0.5)
    torch.testing.assert_close(affine(x), torch.relu(0.5 - 2.0 * nn.functional.layer_norm(x, shape[1:])))
    assert [len(list(layer.parameters())) for layer in (plain, affine)] == [0, 2]
    torch.testing.assert_close(NormReLU(eps=5.0)(x), torch.relu(nn.functional.layer_norm(x, shape[1:], eps=5.0)))


def test_slopes_and_probabilities_out_of_range_are_refused():
    newest = (lambda: AIDPerUnit(1.5), lambda: NormAID(-0.1), lambda: LeakyDropout(0.1, 2.0), lambda: SmoothLeaky(1.5))
    for make in (lambda: AIDMean(1.5), lambda: AIDGauss(-0.1), lambda: SmoothLeaky(0.5, upper=0.1), *newest):
        with pytest.raises(ValueError, match=r"got"):
            make()
    assert [at(SmoothLeaky(slope), -50.0)[0] for slope in (0.0, 1.0)] == pytest.approx([0.0, -50.0])


@pytest.mark.parametrize(
    ("shape", "dim", "unit_dim"), [((5, 3), 1, None), ((2, 3, 4, 4), 1, None), ((2, 7, 3), 2, None), ((2, 3, 7), 1, 1)]
)
def test_prelu_has_a_slope_for_each_unit_from_its_first_forward_on(shape, dim, unit_dim):
    layer = PReLU(unit_dim=unit_dim)
    x = torch.randn(shape)
    torch.testing.assert_close(layer(x), torch.where(x > 0, x, 0.25 * x))
    slopes = torch.tensor([0.0, 0.5, 1.0])
    layer.weight.data.copy_(slopes)
    expected = torch.where(x > 0, x, slopes.view([-1 if at == dim else 1 for at in range(len(shape))]) * x)
    torch.testing.assert_close(layer(x), expected)
    layer(x).sum().backward()
    assert layer.weight.grad.shape == (3,)
    zero = torch.zeros(shape, requires_grad=True)
    assert (torch.autograd.grad(layer(zero).sum(), zero)[0] == 1.0).all()  # zero belongs to the right
    assert len(PReLU(num_units=4).weight) == 4


def test_converted_model_gets_its_slopes_from_a_forward_or_an_example(tmp_path):
    model, x = convert(fresh(), PReLU()), torch.randn(6, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match=r"'1.weight' has no shape before the model's first forward. Call model\(x\)"):
        Learner(model, optimizer)
    Learner(model, optimizer, example_input=x)
    assert [len(model[at].weight) for at in (1, 3)] == [4, 5]
    model(x).sum().backward()
    optimizer.step()
    assert (model[1].weight != 0.25).all()
    save_converted(model, tmp_path / "model.pt")
    again = load_converted(tmp_path / "model.pt", fresh())
    assert torch.equal(again(x), model(x))


def fresh():
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
