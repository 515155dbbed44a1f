"""The Triton kernel obeys every law on a GPU, and a captured graph never repeats a mask."""

from collections.abc import Callable

import laws
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from supple import AID, kernels
from supple import functional as SF
from supple.kernels.base import Intervals

pytest.importorskip("triton", minversion="3.4")
from host_philox import host_uniforms

from supple.kernels.cuda_seed import NUM_SLOTS, CudaSeeds
from supple.kernels.triton import GROUPS, TritonKernel

pytestmark = pytest.mark.gpu
GPU = torch.device("cuda")
KERNEL = TritonKernel()
HALF = Intervals((0.0,), (0.5, 0.5))


@pytest.mark.parametrize("dtype", laws.DTYPES, ids=str)
@pytest.mark.parametrize("law", laws.EVERY_DTYPE, ids=lambda law: law.__name__.removeprefix("check_"))
def test_triton_obeys_the_law_in_every_dtype(law, dtype):
    law(KERNEL, dtype=dtype, device=GPU)


@pytest.mark.parametrize("law", laws.ONE_DTYPE, ids=lambda law: law.__name__.removeprefix("check_"))
def test_triton_obeys_the_law(law):
    law(KERNEL, device=GPU)


def test_triton_serves_cuda_and_the_description_says_so():
    assert isinstance(kernels.kernel_for(GPU), TritonKernel)
    assert "cuda: triton" in kernels.describe()


# Random bits, recomputed on the host.


@pytest.mark.parametrize("dtype", laws.DTYPES, ids=str)
@pytest.mark.parametrize("seed", [0, 12345, 2**64 - 3])
def test_masks_are_the_philox_bits_of_seed_and_offset(seed, dtype):
    generator = torch.Generator(GPU).manual_seed(seed)
    generator.set_offset((5 << 32) + 8)
    x = torch.randn(40 * 8 * GROUPS - 77, device=GPU).to(dtype)
    uniforms = host_uniforms(40, groups=GROUPS, seed=seed, offset=(5 << 32) + 8)[: x.numel()].to(GPU)
    intervals = Intervals((-0.5, 0.0), (0.2, 0.9, 1e-3), 1.25)
    keep = torch.where(x >= 0, 0.999, torch.where(x >= -0.5, 0.1, 0.8).double())
    y = KERNEL.drop(x, intervals, generator=generator, out=None)
    torch.testing.assert_close(y, torch.where(uniforms < keep, x * 1.25, torch.zeros_like(x)), rtol=0, atol=0)
    assert generator.get_offset() == (5 << 32) + 12


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("p", [1e-6, 1e-4, 0.01, 0.5, 0.9, 0.999, 1 - 1e-4, 1 - 1e-6])
def test_keep_rates_per_sign_are_exact_far_into_the_tails(p, dtype):
    n, intervals = 2**28, Intervals((0.0,), (p, 1.0 - p))
    for value, rate in ((1.0, p), (-1.0, 1.0 - p)):
        x = torch.full((n,), value, dtype=dtype, device=GPU)
        count = torch.count_nonzero(laws.draw(KERNEL, x, intervals, seed=17)).item()
        assert abs(count / n - rate) < 5 * laws.sigma(rate, n), f"x={value}: kept {count} of {n}"


# Values and layouts.


@pytest.mark.parametrize("dtype", laws.DTYPES, ids=str)
@pytest.mark.parametrize("size", [1, 2, 1023, 8 * GROUPS - 1, 8 * GROUPS, 8 * GROUPS + 1, 100_003])
def test_unaligned_view_equals_aligned_tensor_and_spares_its_neighbours(size, dtype):
    storage = torch.randn(size + 2, device=GPU).to(dtype)
    before, view = storage.clone(), storage[1:-1]
    expected = laws.draw(KERNEL, view.clone(), laws.AID_90, seed=5)
    assert torch.equal(laws.draw(KERNEL, view, laws.AID_90, seed=5), expected)
    KERNEL.drop(view, laws.AID_90, generator=torch.Generator(GPU).manual_seed(5), out=view)
    assert torch.equal(view, expected)
    KERNEL.drop(view, Intervals((0.0,), (1.0, 1.0)), generator=None, out=view)
    assert not view.any()
    assert torch.equal(storage[[0, -1]], before[[0, -1]])


def test_channels_last_is_walked_without_a_copy():
    x = torch.randn(8, 16, 32, 32, device=GPU).to(memory_format=torch.channels_last)
    KERNEL.drop(x, laws.AID_90, generator=None, out=None)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    y = KERNEL.drop(x, laws.AID_90, generator=None, out=None)
    KERNEL.drop(x, laws.AID_90, generator=None, out=x)
    assert torch.cuda.max_memory_allocated() - before == y.untyped_storage().nbytes()


def test_more_than_2_31_elements_are_all_served():
    n = 2**31 + 8 * GROUPS + 3
    x = torch.ones(n, dtype=torch.bfloat16, device=GPU)
    x[2**31 :] = -1.0
    y = laws.draw(KERNEL, x, HALF, seed=2)
    head, tail = y[: 2**31], y[2**31 :]
    assert abs(torch.count_nonzero(head).item() / 2**31 - 0.5) < 5 * laws.sigma(0.5, 2**31)
    assert torch.equal(tail[tail != 0], x[2**31 :][tail != 0])
    assert abs((tail != 0).double().mean().item() - 0.5) < 5 * laws.sigma(0.5, tail.numel())
    assert not torch.equal(tail != 0, head[: tail.numel()] != 0), "the counter wrapped"
    gated = KERNEL.gate(x, y, 2.0)
    assert torch.equal(gated[2**31 :], tail * 2)


def test_a_generator_of_another_device_is_refused():
    others = ["cpu", *(f"cuda:{i}" for i in range(1, torch.cuda.device_count()))]
    for other in others:
        with pytest.raises(ValueError, match=f"generator= must be of the input's device, cuda:0; got one of {other}"):
            SF.aid(torch.ones(3, device=GPU), generator=torch.Generator(other))


# Graphs, compilers, checkpoints.


class Tower(nn.Module):
    """Layers of AID on the same input, each with its own output."""

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(AID(0.5) for _ in range(num_layers))

    def forward(self, x: Tensor) -> list[Tensor]:
        return [layer(x) for layer in self.layers]


def captured(act: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """A graph of the act, which has already run once."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        act()
    return graph


def replayed(graph: torch.cuda.CUDAGraph, *outputs: Tensor) -> list[Tensor]:
    graph.replay()
    return [output.clone() for output in outputs]


def all_differ(masks: list[Tensor]) -> bool:
    return all(not torch.equal(mask, other) for i, mask in enumerate(masks) for other in masks[:i])


def test_two_replays_give_two_masks_and_two_layers_differ():
    x, tower, outputs = torch.ones(4096, device=GPU), Tower(4), {}
    tower(x)
    graph = captured(lambda: outputs.update(enumerate(tower(x))))
    masks = [mask for _ in range(3) for mask in replayed(graph, *outputs.values())]
    for i, mask in enumerate(masks):
        assert abs(mask.mean().item() - 0.5) < 5 * laws.sigma(0.5, 4096)
        for other in masks[:i]:
            assert abs(((mask - 0.5) * (other - 0.5)).mean().item() * 4) < 5 / 4096**0.5


def test_manual_seed_makes_replays_repeat():
    x, outputs = torch.ones(4096, device=GPU), {}
    SF.aid(x, 0.5)
    graph = captured(lambda: outputs.update(y=SF.aid(x, 0.5)))
    torch.manual_seed(3)
    masks = replayed(graph, outputs["y"]) + replayed(graph, outputs["y"])
    torch.manual_seed(3)
    again = replayed(graph, outputs["y"]) + replayed(graph, outputs["y"])
    assert torch.equal(torch.stack(masks), torch.stack(again))
    assert all_differ(masks)


def test_every_capture_draws_its_own_seed():
    # Nothing runs between the captures, and the second is replayed alone: a seed left over from the first would repeat.
    x, outputs = torch.ones(4096, device=GPU), {}
    SF.aid(x, 0.5)
    first = captured(lambda: outputs.update(first=SF.aid(x, 0.5)))
    second = captured(lambda: outputs.update(second=SF.aid(x, 0.5)))
    masks = replayed(second, outputs["second"]) + replayed(second, outputs["second"])
    assert all_differ(masks + replayed(first, outputs["first"]))


def test_a_capture_draws_once_for_all_layers():
    kernel, x = TritonKernel(), torch.ones(4096, device=GPU)
    kernel.drop(x, HALF, generator=None, out=None)
    captured(lambda: [kernel.drop(x, HALF, generator=None, out=None) for _ in range(5)])
    assert kernel.seeds[0].num_draws == 1
    captured(lambda: [kernel.drop(x, HALF, generator=None, out=None) for _ in range(5)])
    assert kernel.seeds[0].num_draws == 2


def test_without_capture_numbers_every_call_draws_and_masks_still_differ(monkeypatch):
    monkeypatch.setattr("supple.kernels.cuda_seed.capture_id", lambda stream: None)
    kernel, x, outputs = TritonKernel(), torch.ones(4096, device=GPU), {}
    kernel.drop(x, HALF, generator=None, out=None)
    graph = captured(lambda: outputs.update({i: kernel.drop(x, HALF, generator=None, out=None) for i in range(2)}))
    assert kernel.seeds[0].num_draws == 2
    assert all_differ(replayed(graph, *outputs.values()) + replayed(graph, *outputs.values()))


def test_second_stream_of_a_capture_draws_for_itself():
    kernel, x, outputs, side = TritonKernel(), torch.ones(4096, device=GPU), {}, torch.cuda.Stream()
    kernel.drop(x, HALF, generator=None, out=None)

    def forked() -> None:
        side.wait_stream(torch.cuda.current_stream())
        outputs["main"] = kernel.drop(x, HALF, generator=None, out=None)
        with torch.cuda.stream(side):
            outputs["side"] = kernel.drop(x, HALF, generator=None, out=None)
        torch.cuda.current_stream().wait_stream(side)
        outputs["joined"] = kernel.drop(outputs["main"] + outputs["side"], HALF, generator=None, out=None)

    graph = captured(forked)
    assert kernel.seeds[0].num_draws == 2
    for _ in range(2):
        main, beside, joined = replayed(graph, *(outputs[name] for name in ("main", "side", "joined")))
        assert not torch.equal(main, beside)
        assert torch.equal(joined[joined != 0], (main + beside)[joined != 0])


def test_seed_slots_wrap_without_harm():
    seeds = CudaSeeds(torch.device("cuda", 0))
    seeds.num_draws = NUM_SLOTS - 1
    graphs, slots = [], []
    for _ in range(2):
        graphs.append(captured(lambda: slots.append(seeds.start(None).slot)))
    assert [slot.storage_offset() for slot in slots] == [NUM_SLOTS - 1, 0]
    graphs[1].replay()


def test_captured_training_step_equals_its_own_gradient_rule():
    x = torch.randn(64, 512, device=GPU, requires_grad=True)
    grad, saved = torch.randn(64, 512, device=GPU), {}

    def step() -> None:
        y = SF.aid(x, 0.7)
        (saved["grad"],) = torch.autograd.grad(y, x, grad)
        saved["y"] = y.detach()

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = captured(step)
    for _ in range(2):
        graph.replay()
        assert torch.equal(saved["grad"], torch.where(saved["y"] != 0, grad, 0.0))


def test_overlapping_programs_of_a_graph_see_each_others_results():
    # Rates of 0 and 1 make the chain predictable; each program must find what the one before it has written.
    relu, identity = Intervals((0.0,), (1.0, 0.0)), Intervals((), (0.0,))
    kernel, outputs = TritonKernel(), {}
    x = torch.randn(2**18 + 5, device=GPU)
    kernel.gate(x, kernel.drop(kernel.drop(x, relu, generator=None, out=None), identity, generator=None, out=None), 1.0)

    def chain() -> None:
        y = kernel.drop(x, relu, generator=None, out=None)
        for _ in range(30):
            y = kernel.drop(y, identity, generator=None, out=None)
            y = kernel.gate(y, y, 1.0)
        outputs["y"] = y
        x.neg_()

    graph = captured(chain)
    for _ in range(20):
        expected = x.relu()
        graph.replay()
        assert torch.equal(outputs["y"], expected)


def test_fullgraph_compile_gives_the_masks_of_eager():
    tower, x = Tower(3), torch.randn(5000, device=GPU, requires_grad=True)
    compiled = torch.compile(tower, fullgraph=True)
    torch.manual_seed(11)
    eager = tower(x)
    torch.manual_seed(11)
    fused = compiled(x)
    for one, other in zip(eager, fused, strict=True):
        assert torch.equal(one, other)
    sum(y.sum() for y in fused).backward()
    assert torch.equal(x.grad, sum((y != 0).float() for y in eager))


def test_compiled_cuda_graphs_draw_anew_at_every_call():
    x = torch.ones(4096, device=GPU)
    compiled = torch.compile(Tower(2), mode="reduce-overhead", fullgraph=True)
    masks = []
    for _ in range(6):
        torch.compiler.cudagraph_mark_step_begin()
        masks += [y.clone() for y in compiled(x)]
    assert all_differ(masks)


def test_checkpointed_layer_recomputes_the_same_mask():
    x, layer = torch.randn(5000, device=GPU, requires_grad=True), AID(0.5)
    y = checkpoint(layer, x, use_reentrant=False)
    y.sum().backward()
    assert torch.equal(x.grad, (y != 0).float())


def test_backward_keeps_no_byte_beyond_the_output():
    x = torch.randn(2**20, device=GPU, requires_grad=True)
    SF.aid(x, 0.9)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    y = SF.aid(x, 0.9)
    assert torch.cuda.memory_allocated() - before == y.untyped_storage().nbytes()
