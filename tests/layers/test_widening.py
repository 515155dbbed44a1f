"""CReLU and Fourier, which concatenate two halves along dimension 1, and Identity."""

import pytest
import torch

from supple import CReLU, Fourier
from supple.layers import Identity

HALVES = {CReLU: (torch.relu, lambda x: torch.relu(-x)), Fourier: (torch.sin, torch.cos)}
each = pytest.mark.parametrize("cls", HALVES)


@each
@pytest.mark.parametrize("shape", [(3, 4), (2, 5, 3, 3), (2, 5, 7)], ids=str)
def test_halves_sit_side_by_side_in_dimension_one(cls, shape):
    layer, x = cls(), torch.randn(shape)
    expected = torch.cat([half(x) for half in HALVES[cls]], dim=1)
    assert expected.shape[1] == cls.expansion * shape[1]
    for made in (layer, layer.eval(), torch.fx.symbolic_trace(cls())):
        assert torch.equal(made(x), expected)
    assert not layer.state_dict()


@each
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.bool], ids=str)
def test_integers_are_refused_with_a_way_out(cls, dtype):
    message = rf"^{cls.__name__} needs a floating-point tensor; got {dtype}\. Convert with x\.float\(\)\.$"
    with pytest.raises(TypeError, match=message):
        cls()(torch.ones(2, 3, dtype=dtype))


def test_identity_gives_another_tensor():
    x = torch.randn(3, 4)
    assert Identity()(x) is not x
