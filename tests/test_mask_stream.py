import contextlib
import threading

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import supple.functional as SF
from supple import AID
from supple.layers import ReLUDropout, RReLU
from supple.random import mask_stream
from supple.units import trace_units
from test_default_generator import Crossing, StopsInForward

LAYERS = {"aid": AID(0.7), "dropout": ReLUDropout(0.3), "rrelu": RReLU(0.1, 0.4)}


def stream(seed):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", LAYERS)
def test_masks_are_those_of_the_seed_and_the_default_generator_is_not_moved(name):
    x = torch.randn(1000)
    torch.manual_seed(7)
    expected = [LAYERS[name](x) for _ in range(2)]
    state = torch.get_rng_state()
    with mask_stream(stream(7)):
        assert all(torch.equal(LAYERS[name](x), y) for y in expected)
    assert torch.equal(torch.get_rng_state(), state)
    LAYERS[name](x)
    assert not torch.equal(torch.get_rng_state(), state)


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


CHECKPOINTS = pytest.mark.parametrize("use_reentrant", [True, False], ids=["reentrant", "not_reentrant"])
REFUSAL = r"^masks of mask_stream and generator= cannot be drawn inside torch\.utils\.checkpoint, .* torch\.manual_seed"


def deep_network(name):
    return nn.Sequential(nn.Linear(20, 30), LAYERS[name], nn.Linear(30, 5), LAYERS[name])


@CHECKPOINTS
@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
@pytest.mark.parametrize("name", LAYERS)
def test_checkpoint_is_refused_inside_a_stream(name, grad, use_reentrant):
    x = torch.randn(40, 20, requires_grad=True)
    with torch.set_grad_enabled(grad), mask_stream(stream(1)), pytest.raises(RuntimeError, match=REFUSAL):
        checkpoint(deep_network(name), x, use_reentrant=use_reentrant)


@CHECKPOINTS
@pytest.mark.parametrize("name", LAYERS)
def test_checkpoint_is_refused_when_the_stream_is_opened_before_backward(name, use_reentrant):
    x = torch.randn(40, 20, requires_grad=True)
    y = checkpoint(deep_network(name), x, use_reentrant=use_reentrant)
    with mask_stream(stream(1)), pytest.raises(RuntimeError, match=REFUSAL):
        y.sum().backward()


@CHECKPOINTS
def test_checkpoint_is_refused_for_a_generator_that_is_passed(use_reentrant):
    x, generator = torch.randn(100, requires_grad=True), stream(1)
    with pytest.raises(RuntimeError, match=REFUSAL):
        checkpoint(lambda x: SF.aid(x, generator=generator), x, use_reentrant=use_reentrant)


@CHECKPOINTS
@pytest.mark.parametrize("name", LAYERS)
def test_checkpointed_gradients_without_a_stream_and_in_evaluation_are_the_plain_ones(name, use_reentrant):
    net, x = deep_network(name), torch.randn(40, 20, requires_grad=True)
    for training in (True, False):
        net.train(training)
        gradients = []
        for call in (lambda x: net(x), lambda x: checkpoint(net, x, use_reentrant=use_reentrant)):
            torch.manual_seed(1)
            x.grad = None
            with contextlib.nullcontext() if training else mask_stream(stream(1)):
                call(x).square().sum().backward()
            gradients.append(x.grad)
        assert torch.equal(*gradients)
    net.train()


def test_stream_draws_under_no_grad_and_saved_tensor_hooks_outside_a_checkpoint():
    x = torch.randn(1000, requires_grad=True)
    with mask_stream(stream(7)):
        expected = LAYERS["aid"](x)
    with mask_stream(stream(7)), torch.no_grad():
        assert torch.equal(LAYERS["aid"](x), expected)
    with mask_stream(stream(7)), torch.autograd.graph.save_on_cpu():
        assert torch.equal(LAYERS["aid"](x), expected)
