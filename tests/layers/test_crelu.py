"""CReLU: both halves side by side, along dimension 1."""

import pytest
import torch

from supple import CReLU


@pytest.mark.parametrize("shape", [(3, 4), (2, 5, 3, 3), (2, 5, 7)], ids=str)
def test_halves_sit_side_by_side_in_dimension_one(shape: tuple[int, ...]):
    x = torch.randn(shape)
    first, second = CReLU()(x).split(shape[1], dim=1)
    assert torch.equal(first, torch.relu(x))
    assert torch.equal(second, torch.relu(-x))
    assert torch.equal(first - second, x)


def test_no_unit_can_die_since_one_half_always_has_gradient():
    x = torch.randn(10, 4, requires_grad=True)
    CReLU()(x).sum().backward()
    assert torch.equal(x.grad, x.sign())


def test_expansion_tells_the_output_width():
    x = torch.randn(2, 6)
    assert CReLU()(x).shape[1] == CReLU.expansion * x.shape[1]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.bool], ids=str)
def test_integers_are_refused_with_a_way_out(dtype: torch.dtype):
    message = rf"^CReLU needs a floating-point tensor; got {dtype}\. Convert with x\.float\(\)\.$"
    with pytest.raises(TypeError, match=message):
        CReLU()(torch.ones(2, 3, dtype=dtype))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_symbolic_trace_and_script_equal_the_layer():
    x = torch.randn(3, 4)
    for made in (torch.fx.symbolic_trace(CReLU()), torch.jit.script(CReLU())):
        assert torch.equal(made(x), CReLU()(x))


def test_training_and_eval_agree_and_there_is_no_state():
    layer, x = CReLU(), torch.randn(2, 6)
    assert torch.equal(layer(x), layer.eval()(x))
    assert not layer.state_dict()
