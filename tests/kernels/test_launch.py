"""A launch through the driver is the one of Triton's launcher; on a GPU so is that of the node in C++."""

import ctypes
import threading
from types import SimpleNamespace

import laws
import pytest
import torch
from torch import Tensor

from supple import functional as SF
from supple import kernels
from supple.kernels import launch
from supple.kernels.cuda_seed import serves
from supple.kernels.launch import argument_types, direct_launch

PTX = """.version 8.7
.visible .entry drop_kernel(
	.param .u64 .ptr .global .align 1 drop_kernel_param_0,
	.param .u64 .ptr .global .align 1 drop_kernel_param_1,
	.param .u64 drop_kernel_param_2,
	.param .u64 drop_kernel_param_3,
	.param .u64 drop_kernel_param_4,
	.param .f32 drop_kernel_param_5,
	.param .f64 drop_kernel_param_6,
	.param .u64 .ptr .global .align 1 drop_kernel_param_7
)
.reqntid 128
{
	ld.param.u64 %rd1, [drop_kernel_param_0];
}
"""
CONSTANTS = [("f32", 0.25), ("f64", -3.0)]
LAUNCH_KERNEL = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    *[ctypes.c_uint] * 7,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
)
GPU = torch.device("cuda")


def compiled(ptx: str = PTX, **changed: int) -> SimpleNamespace:
    """What Triton gives back, as far as a launch reads it."""
    metadata = {"num_warps": 4, "shared": 96, "num_ctas": 1, "global_scratch_size": 0, "profile_scratch_size": 0}
    return SimpleNamespace(asm={"ptx": ptx}, metadata=SimpleNamespace(**metadata | changed), function=1234)


def test_arguments_reach_the_driver_in_the_order_of_the_program(monkeypatch):
    calls = []

    def driver(function, x, y, z, threads, _y, _z, shared, stream, arguments, extra):
        words = [ctypes.string_at(arguments[i], 8) for i in range(8)]
        calls.append(((function, x, y, z, threads, shared, stream, extra), words))
        return 1 if stream == 13 else 0

    kept = LAUNCH_KERNEL(driver)
    monkeypatch.setattr(launch, "launch_kernel", lambda: kept)
    ours = direct_launch(compiled(), CONSTANTS, elements=2048)
    assert ours(99, 2**40, 2**50, 4097, 2**64 - 3, 8)
    assert not ours(13, 0, 0, 1, 0, 0)
    (shape, words), _ = calls
    assert shape == (1234, 3, 1, 1, 128, 96, 99, None)
    assert [int.from_bytes(word, "little") for word in words[:5]] == [2**40, 2**50, 4097, 2**64 - 3, 8]
    assert ctypes.c_float.from_buffer_copy(words[5]).value == 0.25
    assert ctypes.c_double.from_buffer_copy(words[6]).value == -3.0
    assert words[7] == bytes(8)


@pytest.mark.parametrize(
    "other",
    [
        compiled(PTX.replace(".f32", ".f64")),
        compiled(PTX.replace(".u64 drop_kernel_param_2", ".u32 drop_kernel_param_2")),
        compiled(PTX.replace(".u64 .ptr .global .align 1 drop_kernel_param_7", ".u32 drop_kernel_param_7")),
        compiled(""),
        compiled(num_ctas=2),
        compiled(global_scratch_size=16),
        compiled(profile_scratch_size=16),
    ],
    ids=["float", "integer", "last", "no text", "clusters", "scratch", "profile"],
)
def test_a_program_made_otherwise_is_left_to_tritons_launcher(other, monkeypatch):
    monkeypatch.setattr(launch, "launch_kernel", lambda: lambda *_: 0)
    assert direct_launch(compiled(), CONSTANTS, elements=2048) is not None
    assert direct_launch(other, CONSTANTS, elements=2048) is None


def test_types_are_those_of_the_entry():
    assert argument_types(PTX) == ["u64"] * 5 + ["f32", "f64", "u64"]


def in_many_intervals(x: Tensor) -> Tensor:
    return SF.interval_dropout(x, [edge / 8 for edge in range(-9, 10)], [rate / 20 for rate in range(20)])


@pytest.mark.parametrize("path", ["in C++", "in Python"])
@pytest.mark.parametrize("dtype", laws.DTYPES, ids=str)
@pytest.mark.parametrize("layout", ["flat", "channels_last", "transposed", "unaligned", "strided", "empty"])
@pytest.mark.gpu
def test_masks_and_gradients_are_those_of_tritons_launcher(layout, dtype, path, monkeypatch):
    kernel = kernels.kernel_for(GPU)
    if path == "in C++" and kernel.node is None:
        pytest.skip("needs `python -m supple build`")
    if path == "in Python":
        monkeypatch.setattr(kernel, "node", None)
    whole = torch.randn(8, 16, 9, 10, device=GPU).to(dtype)
    x = {
        "flat": whole.flatten(),
        "channels_last": whole.contiguous(memory_format=torch.channels_last),
        "transposed": whole.flatten(1).t(),
        "unaligned": whole.flatten()[1:],
        "strided": whole[..., ::2],
        "empty": whole[:0],
    }[layout]

    def results(x=x):
        leaf, outcome = x.detach().requires_grad_(), []
        torch.manual_seed(5)
        for activation in (SF.aid, SF.drop_relu, lambda x: SF.relu_dropout(x, 0.3), in_many_intervals):
            y = activation(leaf)
            outcome += [y.detach(), *torch.autograd.grad(y, leaf, torch.full_like(y, 2.0))]
        return outcome, torch.cuda.default_generators[0].get_offset()

    results(whole.flatten())  # after which the programs are known
    assert any(known is not None for known in kernel.launches.values())
    ours, offset = results()
    monkeypatch.setattr(kernel, "launches", {})
    monkeypatch.setattr(kernel, "_note_launch", lambda *_: None)
    theirs, their_offset = results()
    assert offset == their_offset
    for one, other in zip(ours, theirs, strict=True):
        assert one.stride() == other.stride()
        assert torch.equal(one, other)


def test_a_generator_serves_its_own_device_and_without_a_number_every_gpu():
    cuda, first, second, cpu = (torch.device(name) for name in ("cuda", "cuda:0", "cuda:1", "cpu"))
    found = {
        device: [serves(generator, device) for generator in (cuda, first, second, cpu)] for device in (first, second)
    }
    assert found == {first: [True, True, False, False], second: [True, False, True, False]}


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["cuda", "cuda:0"])
def test_a_generator_with_or_without_the_number_of_its_gpu_takes_the_node(name):
    if kernels.kernel_for(GPU).node is None:
        pytest.skip("needs `python -m supple build`")
    x = torch.randn(4096, device=GPU, requires_grad=True)
    SF.aid(x)  # after which the program is known
    y = SF.aid(x, generator=torch.Generator(name).manual_seed(7))
    assert not type(y.grad_fn).__name__.startswith("PlainIntervalDropout")
    torch.manual_seed(7)
    assert torch.equal(y, SF.aid(x))


@pytest.mark.gpu
def test_a_thread_that_never_used_the_gpu_can_launch():
    x, drawn = torch.ones(4096, device=GPU), []
    SF.aid(x, 0.5)
    thread = threading.Thread(target=lambda: drawn.append(SF.aid(x, 0.5)))
    thread.start()
    thread.join()
    assert 0.4 < drawn[0].mean().item() < 0.6
