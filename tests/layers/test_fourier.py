"""Fourier: sine and cosine side by side, along dimension 1."""

import pytest
import torch

from supple import Fourier


@pytest.mark.parametrize("shape", [(3, 4), (2, 5, 3, 3), (2, 5, 7)], ids=str)
def test_sine_and_cosine_sit_side_by_side_in_dimension_one(shape: tuple[int, ...]):
    x = torch.randn(shape)
    sine, cosine = Fourier()(x).split(shape[1], dim=1)
    assert torch.equal(sine, torch.sin(x))
    assert torch.equal(cosine, torch.cos(x))


def test_squared_gradients_of_the_two_halves_sum_to_one():
    x = torch.randn(10, 4, dtype=torch.float64)
    _, tangent = torch.func.jvp(Fourier(), (x,), (torch.ones_like(x),))
    sine, cosine = tangent.split(4, dim=1)
    torch.testing.assert_close(sine**2 + cosine**2, torch.ones_like(x))


def test_expansion_tells_the_output_width():
    x = torch.randn(2, 6)
    assert Fourier()(x).shape[1] == Fourier.expansion * x.shape[1]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.bool], ids=str)
def test_integers_are_refused_with_a_way_out(dtype: torch.dtype):
    message = rf"^Fourier needs a floating-point tensor; got {dtype}\. Convert with x\.float\(\)\.$"
    with pytest.raises(TypeError, match=message):
        Fourier()(torch.ones(2, 3, dtype=dtype))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_symbolic_trace_and_script_equal_the_layer():
    x = torch.randn(3, 4)
    for made in (torch.fx.symbolic_trace(Fourier()), torch.jit.script(Fourier())):
        assert torch.equal(made(x), Fourier()(x))


def test_training_and_eval_agree_and_there_is_no_state():
    layer, x = Fourier(), torch.randn(2, 6)
    assert torch.equal(layer(x), layer.eval()(x))
    assert not layer.state_dict()
