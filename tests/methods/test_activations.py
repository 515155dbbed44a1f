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
