"""CUDA graphs as far as a CPU can have them: operations are recorded, and done again on the very tensors they touched.

What the host alone does (modes, branches, numbers read from tensors) happens once, as in a capture. A look at a value,
and a tensor made of a number of the host, fail as they do there.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from supple import kernels
from supple.kernels import renewal
from supple_lab.run import capture
from supple_lab.run.captures import Captures

NO_GRAPH_HOLDS = {"_local_scalar_dense", "lift_fresh", "nonzero", "masked_select", "equal"}


class Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, list[Tensor]]] = []

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if op.overloadpacket.__name__ in NO_GRAPH_HOLDS:
            raise RuntimeError(f"no graph holds {op}")
        result = op(*args, **(kwargs or {}))
        self.calls.append((op, args, kwargs or {}, tensors_in(result)))
        return result


class Replayed:
    """In place of torch.cuda.CUDAGraph."""

    def __init__(self, work: Any) -> None:
        with Recorder() as recorder:
            work()
        self.calls = [call for call in recorder.calls if not is_view(*call)]

    def pool(self) -> tuple[int, int]:
        return 0, 0

    @torch.no_grad()
    def replay(self) -> None:
        for op, args, kwargs, results in self.calls:
            new = tensors_in(op(*args, **kwargs))
            if not op._schema.is_mutable:
                for before, after in zip(results, new, strict=True):
                    before.copy_(after)


def tensors_in(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def is_view(op: Any, args: Any, kwargs: Any, results: list[Tensor]) -> bool:
    """Whether all that the operation gives is memory that it was given."""
    places = {tensor.untyped_storage().data_ptr() for tensor in tensors_in((args, kwargs))}
    own = {tensor.untyped_storage().data_ptr() for tensor in results}
    return bool(own) and own <= places and not op._schema.is_mutable


def record(work: Any, **options: Any) -> Replayed:
    for _ in range(capture.NUM_REHEARSALS):
        work()
    return Replayed(work)


def compute_by_torch_alone(monkeypatch: Any) -> None:
    """By operations that can be recorded, and that look at no values; masks are others than the compiled library's."""
    monkeypatch.setitem(kernels.KERNELS, "cpu", kernels.REFERENCE)
    monkeypatch.setattr(renewal, "is_compiled", lambda tensor: False)
    monkeypatch.setattr(renewal, "can_look", lambda tensor: False)


def replay_from_now_on(monkeypatch: Any) -> list[Replayed]:
    """What agents do is recorded and replayed; the list of what is, as it is made."""
    made: list[Replayed] = []
    monkeypatch.setattr(capture, "record", lambda *args, **options: made.append(record(*args)) or made[-1])
    monkeypatch.setattr(Captures, "are_made", True)
    monkeypatch.setattr(Tensor, "cpu", Tensor.clone)  # from a GPU it is a copy
    return made
