"""Methods that are an activation: the layer they name, with their numbers in it."""

from dataclasses import dataclass

import pytest
from torch import nn

from supple import methods
from supple.methods.activations import Swap

LAYERS = {
    methods.UseAID(relu_prob=0.75): "AID(p=0.75)",
    methods.UseDropout(drop_positive=0.2): "ReLUDropout(drop_positive=0.2)",
    methods.UseDropReLU(relu_prob=0.75): "DropReLU(relu_prob=0.75)",
    methods.UseCReLU(): "CReLU()",
    methods.UseFourier(): "Fourier()",
    methods.UseIdentity(): "Identity()",
    methods.UseSigmoid(): "Sigmoid()",
    methods.UseTanh(): "Tanh()",
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
