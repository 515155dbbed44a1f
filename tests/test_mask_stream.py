import threading

import pytest
import torch

import supple.functional as SF
from supple import AID
from supple.layers.relu_dropout import ReLUDropout
from supple.layers.rrelu import RReLU
from supple.mask_stream import mask_stream
from supple.tracing import trace_units
from test_default_generator import Crossing, StopsInForward

LAYERS = {"aid": AID(0.7), "dropout": ReLUDropout(0.3), "rrelu": RReLU(0.1, 0.4)}


def stream(seed):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", LAYERS)
def test_masks_are_those_that_the_default_generator_would_give_from_the_same_seed(name):
    x = torch.randn(1000)
    torch.manual_seed(7)
    expected = [LAYERS[name](x) for _ in range(2)]
    with mask_stream(stream(7)):
        assert all(torch.equal(LAYERS[name](x), y) for y in expected)


@pytest.mark.parametrize("name", LAYERS)
def test_default_generator_is_not_moved_inside_and_is_used_again_outside(name):
    x = torch.randn(1000)
    torch.manual_seed(3)
    expected = LAYERS[name](x)
    torch.manual_seed(3)
    with mask_stream(stream(7)):
        LAYERS[name](x)
    assert torch.equal(LAYERS[name](x), expected)


def test_gradient_of_rrelu_is_its_slope():
    x = torch.randn(1000, requires_grad=True)
    with mask_stream(stream(1)):
        y = RReLU(0.1, 0.4)(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad * x.detach(), y.detach())


def test_another_thread_keeps_its_own_stream():
    x, seen = torch.randn(1000), []
    with mask_stream(stream(7)):
        thread = threading.Thread(target=lambda: seen.append(SF.aid(x, 0.5, training=True)))
        torch.manual_seed(0)
        thread.start()
        thread.join()
    torch.manual_seed(0)
    assert torch.equal(SF.aid(x, 0.5, training=True), seen[0])


def test_generator_that_is_passed_goes_before_the_stream():
    x = torch.randn(1000)
    with mask_stream(stream(7)):
        y = SF.aid(x, 0.5, training=True, generator=stream(1))
    assert torch.equal(y, SF.aid(x, 0.5, training=True, generator=stream(1)))


@pytest.mark.parametrize("name", LAYERS)
def test_stream_holds_while_another_thread_exports_a_network(name):
    x, crossing = torch.randn(1000), Crossing()
    with mask_stream(stream(7)):
        alone = LAYERS[name](x)

    def draw():
        with mask_stream(stream(7)):
            y = LAYERS[name](x)
        crossing.go_on.set()
        return y

    network = StopsInForward(crossing)
    assert torch.equal(crossing.run(lambda: trace_units(network, torch.zeros(2, 4)), draw), alone)
