"""The activation as an operator: ours beside F.relu, F.dropout, F.rrelu and the paper's listing, plain and compiled."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from supple import functional as SF
from supple_lab.bench.timing import captured, compare

Activation = Callable[[Tensor], Tensor]
Mode = Literal["forward", "forward + backward"]
MODES: tuple[Mode, ...] = ("forward", "forward + backward")
GRAPH_LAYERS = 8  # layers of one captured graph; it draws one seed for all of them


@dataclass(frozen=True)
class Case:
    """One tensor on which all candidates are timed."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    channels_last: bool
    mode: Mode

    def title(self) -> str:
        size = f"2^{self.shape[0].bit_length() - 1}" if len(self.shape) == 1 else "x".join(map(str, self.shape))
        layout = " channels_last" if self.channels_last else ""
        return f"{size}{layout}, {str(self.dtype).removeprefix('torch.')}, {self.mode}"

    def tensor(self, device: torch.device) -> Tensor:
        x = torch.randn(self.shape, device=device).to(self.dtype)
        return x.contiguous(memory_format=torch.channels_last) if self.channels_last else x


@dataclass(frozen=True)
class Row:
    """One candidate in one case, against F.relu in the same run."""

    case: str
    candidate: str
    microseconds: float
    ratio: float
    ratio_quartiles: tuple[float, float]
    turns: int
    bytes_kept: int  # for backward, beyond the output


def listing(x: Tensor, p: float = 0.9) -> Tensor:
    """Algorithm 2 written out with torch operations, as in the paper's appendix."""
    relu_branch = torch.bernoulli(torch.full_like(x, p)).bool()
    return torch.where(relu_branch, torch.relu(x), -torch.relu(-x))


def candidates() -> dict[str, Activation]:
    """Everything that is compared; F.relu first."""
    return {
        "F.relu": F.relu,
        "AID p=0.9": lambda x: SF.aid(x, 0.9),
        "AID p=0.7": lambda x: SF.aid(x, 0.7),
        "F.dropout": lambda x: F.dropout(x, 0.1),
        "F.rrelu": lambda x: F.rrelu(x, training=True),
        "listing": listing,
        # The compiler of CPU code is handed torch's own path unquoted.
        **({} if " " in torch.__file__ else {"compiled listing": torch.compile(listing, dynamic=False)}),
    }


def cases(device: torch.device) -> Iterator[Case]:
    """Sizes from a small layer to the largest, a convolution's output in both layouts."""
    exponents = (12, 16, 20, 24, 28) if device.type == "cuda" else (12, 16, 20, 24)
    for dtype in (torch.float32, torch.bfloat16):
        for mode in MODES:
            for exponent in exponents:
                yield Case((2**exponent,), dtype, False, mode)
            for channels_last in (False, True):
                yield Case((64, 64, 32, 32), dtype, channels_last, mode)


def bench_kernels(device: torch.device, *, seconds_per_case: float, only: str = "") -> Iterator[Row]:
    """Time all candidates in the cases whose title holds ``only``, a row each as soon as it is known."""
    activations = candidates()
    for case in (case for case in cases(device) if only in case.title()):
        yield from bench_case(case, activations, device=device, seconds=seconds_per_case)
        torch.compiler.reset()  # or the compiled listing gives up after a few shapes
    if device.type == "cuda":
        yield from bench_graph(device, seconds=seconds_per_case)


def bench_case(
    case: Case, activations: dict[str, Activation], *, device: torch.device, seconds: float
) -> Iterator[Row]:
    x = case.tensor(device)
    works = {name: work_of(activation, x, case.mode) for name, activation in activations.items()}
    for name, found in compare(works, base="F.relu", device=device, seconds=seconds).items():
        kept = bytes_kept(activations[name], x) if case.mode == "forward + backward" else 0
        yield Row(case.title(), name, found.seconds * 1e6, found.ratio, found.quartiles, found.turns, kept)


def work_of(activation: Activation, x: Tensor, mode: Mode) -> Callable[[], object]:
    """One call: the forward alone, or forward and backward from a ready gradient."""
    if mode == "forward":
        return lambda: activation(x)
    leaf, grad = x.clone().requires_grad_(), torch.ones_like(x)
    return lambda: torch.autograd.grad(activation(leaf), leaf, grad)


def bytes_kept(activation: Activation, x: Tensor) -> int:
    """Bytes of the tensors saved for backward that are not the output itself."""
    saved: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    leaf = x.clone().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        output = activation(leaf)
    saved.pop(output.untyped_storage().data_ptr(), None)
    return sum(saved.values())


def bench_graph(device: torch.device, *, seconds: float) -> Iterator[Row]:
    """Forward and backward through several activations of 2^20 elements, captured in one CUDA graph."""
    for dtype in (torch.float32, torch.bfloat16):
        works = {
            name: captured_layers(candidates()[name], dtype, device) for name in ("F.relu", "AID p=0.9", "F.dropout")
        }
        title = f"2^20, {str(dtype).removeprefix('torch.')}, CUDA graph of {GRAPH_LAYERS} layers"
        for name, found in compare(works, base="F.relu", device=device, seconds=seconds).items():
            yield Row(title, name, found.seconds * 1e6, found.ratio, found.quartiles, found.turns, 0)


def captured_layers(activation: Activation, dtype: torch.dtype, device: torch.device) -> Callable[[], object]:
    """A replay of forward and backward through the layers, each on a tensor of its own."""
    leaves = [torch.randn(2**20, device=device).to(dtype).requires_grad_() for _ in range(GRAPH_LAYERS)]
    grads = [torch.ones_like(leaf) for leaf in leaves]
    return captured(lambda: torch.autograd.grad([activation(leaf) for leaf in leaves], leaves, grads))
