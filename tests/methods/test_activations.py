"""Methods that are an activation: the layer they name, with their numbers in it."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from supple import AID, CReLU, DropReLU, Fourier, ReLUDropout, methods
from supple.layers import Identity, RReLU
from supple.methods.activations import Swap

X = torch.linspace(-3.0, 3.0, 12).view(2, 6)


@pytest.mark.parametrize(
    ("method", "layer", "in_evaluation"),
    [
        (methods.UseAID(relu_prob=0.75), AID, torch.where(X >= 0, 0.75 * X, 0.25 * X)),
        (methods.UseDropout(drop_positive=0.2), ReLUDropout, X.clamp(min=0)),
        (methods.UseDropReLU(relu_prob=0.75), DropReLU, torch.where(X >= 0, X, 0.25 * X)),
        (methods.UseRReLU(lower_slope=0.25, upper_slope=0.5), RReLU, torch.where(X >= 0, X, 0.375 * X)),
        (methods.UseCReLU(), CReLU, torch.cat((X.clamp(min=0), (-X).clamp(min=0)), dim=1)),
        (methods.UseFourier(), Fourier, torch.cat((X.sin(), X.cos()), dim=1)),
        (methods.UseIdentity(), Identity, X),
        (methods.UseSigmoid(), nn.Sigmoid, 1 / (1 + (-X).exp())),
        (methods.UseTanh(), nn.Tanh, (X.exp() - (-X).exp()) / (X.exp() + (-X).exp())),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_layer_in_evaluation_is_the_formula(method, layer, in_evaluation):
    assert type(method.activation()) is layer
    torch.testing.assert_close(method.activation().eval()(X), in_evaluation)


LAYERS = {
    methods.UseRReLU(lower_slope=0.25, upper_slope=0.5): "RReLU(lower=0.25, upper=0.5)",
    methods.UseAIDMean(relu_prob=0.7): "AIDMean(p=0.7)",
    methods.UseAIDGauss(relu_prob=0.7): "AIDGauss(p=0.7)",
    methods.UseAIDPerUnit(relu_prob=0.7): "AIDPerUnit(p=0.7)",
    methods.UseLeakyDropout(slope=0.2, drop=0.3): "LeakyDropout(slope=0.2, drop=0.3)",
    methods.UseLayerNormAID(relu_prob=0.7): "NormAID(p=0.7)",
    methods.UseLeakyReLU(slope=0.2): "LeakyReLU(negative_slope=0.2)",
    methods.UseRandomSmoothLeaky(lower_slope=0.25, upper_slope=0.5): "SmoothLeaky(slope=0.25, upper=0.5)",
    methods.UseLayerNorm(affine=True): "NormReLU(affine=True)",
    methods.UsePReLU(): "PReLU()",
    methods.UseELU(): "ELU(alpha=1.0)",
    methods.UseCELU(): "CELU(alpha=1.0)",
    methods.UseGELU(): "GELU(approximate='none')",
    methods.UseSiLU(): "SiLU()",
    methods.UseRational(): "Rational()",
}


@pytest.mark.parametrize(("method", "layer"), LAYERS.items(), ids=lambda value: getattr(value, "name", ""))
def test_layer_has_the_methods_numbers_in_their_places(method, layer):
    assert repr(method.activation()) == layer


def test_fields_that_a_subclass_adds_are_its_own():
    @dataclass(frozen=True, kw_only=True)
    class WithRate(methods.UseLeakyReLU):
        rate: float = 0.5

    @dataclass(frozen=True, kw_only=True)
    class Shrunk(Swap):
        layer = nn.Softshrink
        bound: float = 0.5

    assert repr(WithRate(slope=0.2).activation()) == "LeakyReLU(negative_slope=0.2)"
    assert repr(Shrunk(bound=0.25).activation()) == "Softshrink(0.25)"
