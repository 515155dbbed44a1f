import math
import threading

import numpy
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import supple.functional as SF
from supple import AID, DropReLU, IntervalDropout, ReLUDropout, held_masks, kernels
from supple.kernels.base import Intervals
from supple.kernels.cpu import CpuKernel
from supple.layers import AIDGauss, LeakyDropout, NormAID, RReLU
from supple.random import HELD, HeldMasks

LAYERS = [AID(0.7), IntervalDropout((-0.5, 0.5), (0.2, 0.5, 0.8)), DropReLU(0.6), ReLUDropout(0.3)]
LAYERS += [NormAID(0.7), LeakyDropout(drop=0.3)]


def held(network, x, samples, seed=0):
    with held_masks(samples, seed=seed):
        return network(x)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_sample_has_its_masks_in_every_batch_and_order(layer):
    network = nn.Sequential(nn.Linear(4, 16), layer, nn.Linear(16, 16), layer).double()
    x, samples = torch.randn(12, 4, dtype=torch.float64), torch.arange(100, 112)
    whole, order = held(network, x, samples), torch.randperm(12)
    torch.testing.assert_close(held(network, x[order], samples[order]), whole[order])
    for one in range(12):
        torch.testing.assert_close(held(network, x[one : one + 1], samples[one : one + 1]), whole[one : one + 1])
    assert not torch.allclose(held(network, x, samples + 1), whole)
    assert not torch.allclose(held(network, x, samples, seed=1), whole)


def test_masks_do_not_depend_on_the_memory_format():
    x, samples = torch.randn(3, 5, 4, 4), torch.arange(3)
    with held_masks(samples):
        y = SF.aid(x)
    with held_masks(samples):
        assert torch.equal(SF.aid(x.contiguous(memory_format=torch.channels_last)), y)


@pytest.mark.parametrize("seed", [numpy.int64(3), torch.tensor(3)], ids=["numpy", "tensor"])
def test_seed_may_be_any_integer_and_is_left_as_it_was(seed):
    x, samples = torch.ones(4, 50), torch.arange(4)
    assert torch.equal(held(AID(0.5), x, samples, seed=seed), held(AID(0.5), x, samples, seed=3))
    assert seed == 3


def test_numbers_that_change_while_masks_are_held_change_no_mask():
    x, samples = torch.ones(4, 50), torch.arange(4)
    before = held(AID(0.5), x, samples)
    with held_masks(samples):
        samples += 1
        assert torch.equal(AID(0.5)(x), before)


def test_draws_of_one_forward_differ_from_each_other():
    x = torch.ones(4, 1000)
    with held_masks(torch.zeros(4, dtype=torch.long)):
        first, second = SF.aid(x, 0.5), SF.aid(x, 0.5)
    assert torch.equal(first[0], first[3])  # the same sample
    assert not torch.equal(first, second)


@pytest.mark.parametrize("rate", [0.5, 0.9, 0.999])
def test_held_masks_keep_at_the_rate_and_are_independent(rate):
    num_samples, num_units = 2000, 500
    uniform = HeldMasks(torch.arange(num_samples), 0).uniform_like(torch.empty(num_samples, num_units))
    kept = (uniform < rate).double()
    n, variance = kept.numel(), rate * (1 - rate)
    assert abs(kept.mean() - rate) < 5 * math.sqrt(variance / n)
    centred = kept - rate
    pairs = [(centred[1:], centred[:-1]), (centred[:, 1:], centred[:, :-1]), (centred[64:], centred[:-64])]
    for left, right in pairs:  # neighbours among samples and among units
        assert abs((left * right).mean()) < 5 * variance / math.sqrt(left.numel())


def test_gradient_and_output_are_those_of_some_mask():
    x = torch.randn(64, 50, requires_grad=True)
    y = held(AID(0.7), x, torch.arange(64))
    y.sum().backward()
    assert torch.equal(x.grad, (y != 0).float())
    assert set((y[y != 0] == x[y != 0]).tolist()) == {True}


def test_inplace_writes_what_the_other_returns():
    x, samples = torch.randn(8, 6), torch.arange(8)
    y = held(AID(0.7), x, samples)
    assert torch.equal(held(AID(0.7, inplace=True), x, samples), y)
    assert torch.equal(x, y)


def test_default_generator_is_not_moved_and_another_thread_draws_its_own():
    x, seen = torch.randn(10, 10), []
    torch.manual_seed(0)
    state = torch.get_rng_state()
    with held_masks(torch.arange(10)):
        SF.aid(x, 0.5)
        assert torch.equal(torch.get_rng_state(), state)
        thread = threading.Thread(target=lambda: seen.append(SF.aid(x, 0.5)))
        thread.start()
        thread.join()
    torch.manual_seed(0)
    assert torch.equal(SF.aid(x, 0.5), seen[0])


def test_threads_that_open_and_close_at_once_leave_none_held():
    """A sum that two threads add to at once may lose one where Python has no global lock."""

    def open_and_close():
        for _ in range(300):
            with held_masks(torch.arange(1)):
                assert HELD

    threads = [threading.Thread(target=open_and_close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not HELD


@pytest.mark.parametrize("samples", [[0, 1], torch.zeros(2), torch.zeros(2, 1, dtype=torch.long)])
def test_samples_that_are_no_vector_of_integers_are_refused(samples):
    with pytest.raises(TypeError, match="a vector of integers; got"), held_masks(samples):
        pass


def test_wrong_number_of_samples_is_refused():
    with pytest.raises(ValueError, match=r"given 3 samples, and an activation sees a tensor of shape \(4, 2\)"):
        held(AID(), torch.zeros(4, 2), torch.arange(3))


@pytest.mark.parametrize("layer", [RReLU(), AIDGauss()], ids=lambda layer: type(layer).__name__)
def test_other_activations_that_draw_are_refused(layer):
    with pytest.raises(TypeError, match=r"held_masks serves AID, .* NormAID and LeakyDropout; another"):
        held(layer, torch.zeros(4, 2), torch.arange(4))


def test_compiled_and_checkpointed_forwards_are_refused():
    network, x = nn.Sequential(nn.Linear(4, 4), AID()), torch.zeros(3, 4)
    compiled = torch.compile(network, backend="eager")
    compiled(x)  # what was compiled before must not be used
    with pytest.raises(RuntimeError, match=r"held_masks cannot be traced"):
        held(compiled, x, torch.arange(3))
    with held_masks(torch.arange(3)), pytest.raises(RuntimeError, match=r"held inside .*; turn checkpointing off"):
        checkpoint(network, x, use_reentrant=False)


BY_INTERVALS = [
    Intervals((0.0,), (0.99, 0.01)),
    Intervals((0.0,), (0.0001, 0.5)),
    Intervals((0.0,), (1.0, 0.0), 1 / 0.7),
    Intervals((-0.5, 0.0, 0.7), (0.1, 0.9, 0.3, 0.5), 1.3),
]


@pytest.mark.skipif(not isinstance(kernels.CPU, CpuKernel), reason="needs the compiled library")
@pytest.mark.parametrize("intervals", BY_INTERVALS)
@pytest.mark.parametrize("shape", [(64, 256), (300, 333), (3, 5, 7), (0, 4), (4, 0)], ids=str)
def test_kernel_in_c_holds_the_reference_s_masks_bit_for_bit(intervals, shape):
    x = torch.randn(shape)
    x.view(-1)[:5] = torch.tensor([math.nan, 0.0, -0.0, math.inf, 0.7])[: x.numel()]
    samples = torch.randint(-(2**62), 2**62, shape[:1])
    fused, reference = HeldMasks(samples, -3), HeldMasks(samples, -3)
    for _ in range(3):
        y = kernels.CPU.drop_held(x, intervals, fused, None)
        expected = kernels.REFERENCE.drop_by(reference.uniform_like(x), x, intervals, None)
        assert torch.equal(y.view(torch.int32), expected.view(torch.int32))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_number_equal_to_the_rate_keeps_an_element(dtype):
    x, samples = torch.ones(1, 3, dtype=dtype), torch.tensor([5])
    number = HeldMasks(samples, 0).uniform_like(x)[0, 1].item()
    for rate, kept in ((number, 1.0), (math.nextafter(number, 1.0), 0.0)):
        assert held(IntervalDropout((0.0,), (rate, rate)), x, samples)[0, 1] == kept
