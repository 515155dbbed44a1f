"""Methods that are an activation: the layer they name, with their numbers in it."""

import pytest
import torch
from torch import nn

from supple import AID, CReLU, DropReLU, Fourier, ReLUDropout
from supple.layers import Identity, RReLU
from supple.methods import (
    UseAID,
    UseCReLU,
    UseDropout,
    UseDropReLU,
    UseFourier,
    UseIdentity,
    UseRReLU,
    UseSigmoid,
    UseTanh,
)

X = torch.linspace(-3.0, 3.0, 12).view(2, 6)


@pytest.mark.parametrize(
    ("method", "layer", "in_evaluation"),
    [
        (UseAID(relu_prob=0.75), AID, torch.where(X >= 0, 0.75 * X, 0.25 * X)),
        (UseDropout(drop_positive=0.2), ReLUDropout, X.clamp(min=0)),
        (UseDropReLU(relu_prob=0.75), DropReLU, torch.where(X >= 0, X, 0.25 * X)),
        (UseRReLU(lower_slope=0.25, upper_slope=0.5), RReLU, torch.where(X >= 0, X, 0.375 * X)),
        (UseCReLU(), CReLU, torch.cat((X.clamp(min=0), (-X).clamp(min=0)), dim=1)),
        (UseFourier(), Fourier, torch.cat((X.sin(), X.cos()), dim=1)),
        (UseIdentity(), Identity, X),
        (UseSigmoid(), nn.Sigmoid, 1 / (1 + (-X).exp())),
        (UseTanh(), nn.Tanh, (X.exp() - (-X).exp()) / (X.exp() + (-X).exp())),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_layer_in_evaluation_is_the_formula(method, layer, in_evaluation):
    assert type(method.activation()) is layer
    torch.testing.assert_close(method.activation().eval()(X), in_evaluation)


def test_rrelu_slopes_are_within_the_bounds_and_drawn_per_element():
    x = -torch.ones(10_000)
    slopes = -UseRReLU(lower_slope=0.25, upper_slope=0.5).activation()(x)
    assert ((slopes >= 0.25) & (slopes <= 0.5)).all()
    assert slopes.unique().numel() > 5000


def test_identity_gives_another_tensor_with_the_same_gradient():
    x = torch.randn(3, 4, requires_grad=True)
    y = Identity()(x)
    y.backward(torch.full((3, 4), 2.0))
    assert y is not x
    assert torch.equal(y, x)
    assert torch.equal(x.grad, torch.full((3, 4), 2.0))


@pytest.mark.parametrize(
    ("cls", "field"), [(UseAID, "relu_prob"), (UseDropout, "drop_positive"), (UseDropReLU, "relu_prob")]
)
def test_probability_out_of_range_is_named(cls, field):
    with pytest.raises(ValueError, match=rf"^{cls.__name__}\.{field} is .*, in \[0, 1\]; got 1\.2\.$"):
        cls(**{field: 1.2})


@pytest.mark.parametrize(("lower", "upper"), [(0.25, 0.125), (-0.1, 0.5), (0.5, 1.5)])
def test_slopes_out_of_order_are_named(lower, upper):
    with pytest.raises(
        ValueError, match=rf"UseRReLU\.lower_slope and UseRReLU\.upper_slope .*got {lower} and {upper}\."
    ):
        UseRReLU(lower_slope=lower, upper_slope=upper)
