"""Renewal of units (see methods/renewal.py) in few passes over memory: in C on a CPU, in Triton on a GPU.

Each function says whether it could serve. If not, nothing has changed, and torch's own operations do the same.
"""

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from supple.kernels import CPU, kernel_for
from supple.kernels.cpu import CpuKernel

MOST_AGES = 2**18  # in a table: 4 MiB
MOST_UNITS, MOST_SLOTS = 2**14, 16  # that one Triton program chooses among, and that it chooses
MOST_PARTS = 8  # that one launch serves: each is compiled by itself
BLOCK, AGES, ROWS, COLUMNS = 1024, 256, 16, 128


class Grown(NamedTuple):
    """A tensor after Adam's step: its moments and counts, and when the units along a dimension were born."""

    parameter: Tensor
    mean: Tensor
    square: Tensor
    step: Tensor
    last_step: Tensor
    borns: dict[int, Tensor]


class Mean(NamedTuple):
    """A mean as a sum and what to divide it by, which a kernel does on its way."""

    sums: Tensor
    number: float

    @property
    def value(self) -> Tensor:
        return self.sums / self.number


class Drawn(NamedTuple):
    """Values by their places in another tensor, flattened."""

    source: Tensor
    places: Tensor

    @property
    def values(self) -> Tensor:
        return self.source.take(self.places)  # flatten()[at] copies a channels_last weight


Value = Drawn | Tensor | float


class Part(NamedTuple):
    """Entries of a tensor that get a value: those of some units along a dimension, if they are due."""

    tensor: Tensor
    dim: int
    units: Tensor
    due: Tensor
    value: Value
    memory: dict[str, Any]  # Adam's of the tensor; empty if it stays
    born: Tensor | None  # when the units were born; None: nobody counts


def triton_programs(tensor: Tensor) -> Any:
    """The Triton programs, if they serve the tensor's device; else None."""
    if not tensor.is_cuda or kernel_for(tensor.device).name != "triton":
        return None
    from supple.kernels import renewal_programs

    return renewal_programs


def can_look(tensor: Tensor) -> bool:
    """Whether a look at its values is free. One at a GPU's waits for it, and no CUDA graph can hold it."""
    return tensor.is_cpu


def is_plain(*tensors: Tensor) -> bool:
    """Whether all are of the kind that the kernels know."""
    return all(tensor.dtype is torch.float32 and tensor.is_contiguous() and tensor.numel() for tensor in tensors)


def sides(tensor: Tensor) -> tuple[int, int, int]:
    """How many rows and columns it has, and of how many entries each a column of a row is."""
    num_rows, num_columns = (*tensor.shape, 1)[:2]
    return num_rows, num_columns, tensor.numel() // (num_rows * num_columns)


def take_own_steps_(group: dict[str, Any], grown: Grown) -> bool:
    """Give entries younger than their tensor the update of their own age in place of the one that Adam gave them."""
    parameter, mean, square, step, last_step, borns = grown
    if not parameter.is_cpu or not isinstance(CPU, CpuKernel) or not can_look(step) or not serves(group, grown):
        return False
    now, root = step.item(), square.sqrt()
    roots, firsts, num_ages, is_whole = table(*group["betas"], min(1 << int(now).bit_length(), MOST_AGES))
    if now >= num_ages and not is_whole:
        return False
    pointers = parameter.data_ptr(), mean.data_ptr(), root.data_ptr()
    births = [borns[dim].data_ptr() if dim in borns else None for dim in (0, 1)]
    ages = roots.data_ptr(), firsts.data_ptr(), num_ages
    told = *pointers, *sides(parameter), *births, now, last_step.data_ptr(), *ages, float(group["lr"]), group["eps"]
    return CPU.library.supple_take_own_steps(*told, torch.get_num_threads())


def serves(group: dict[str, Any], grown: Grown) -> bool:
    """Whether the kernels know such tensors. Of several devices torch complains."""
    tensors = grown.mean, grown.square, grown.last_step, *grown.borns.values()
    is_here = all(tensor.device == grown.parameter.device for tensor in tensors)
    return is_here and not isinstance(group["betas"][0], Tensor) and is_plain(*grown[:3])


def take_all_own_steps_(group: dict[str, Any], many: Sequence[Grown]) -> list[Grown]:
    """Do the same to all tensors that a GPU has; those that are left."""
    served = [grown for grown in many if triton_programs(grown.parameter) is not None and serves(group, grown)]
    for parts in batched(served):
        launch_own_steps_(group, parts)
    return [grown for grown in many if not any(grown is other for other in served)]


def batched(parts: Iterable[Any]) -> Iterable[tuple[Any, ...]]:
    """As many of them as one launch takes."""
    ahead = iter(parts)
    return iter(lambda: tuple(itertools.islice(ahead, MOST_PARTS)), ())


def launch_own_steps_(group: dict[str, Any], many: Sequence[Grown]) -> None:
    (beta_1, beta_2), lr, device = group["betas"], group["lr"], many[0].parameter.device
    programs = triton_programs(many[0].parameter)
    if isinstance(lr, Tensor) and lr.device != device:
        lr = float(lr)
    lines: list[tuple[Any, ...]] = []
    parts: list[tuple[Any, ...]] = []
    length = num_tiles = 0
    for parameter, mean, square, step, last_step, borns in many:
        step = step.to(device)
        at: dict[int, tuple[int, int]] = {}
        for dim, born in borns.items():
            lines.append((born, step, last_step, len(born), length))
            at[dim] = length, 1
            length += len(born) + 1
        own_at = length - 1
        num_rows, num_columns, inner = sides(parameter)
        width = num_columns * inner
        across = -(-width // COLUMNS)
        begin, num_tiles = num_tiles, num_tiles + across * -(-num_rows // ROWS)
        shape = num_rows, width, inner
        places = *at.get(0, (own_at, 0)), *at.get(1, (own_at, 0)), own_at
        parts.append((parameter, mean, square, step, last_step, *shape, *places, begin, num_tiles, across))
    ages = torch.empty(3 * length, device=device)
    logs = math.log2(beta_1) if beta_1 else -math.inf, math.log2(beta_2) if beta_2 else -math.inf
    blocks = max(-(-(line[3] + 1) // AGES) for line in lines)
    with torch.cuda.device_of(ages):
        told = length, lr, isinstance(lr, Tensor), *logs, group["eps"], AGES
        programs.ages_kernel[(len(lines), blocks)](tuple(lines), ages, *told)
        programs.own_steps_kernel[(num_tiles,)](tuple(parts), ages, length, ROWS, COLUMNS)


@functools.lru_cache(maxsize=8)
def table(beta_1: float, beta_2: float, num_ages: int) -> tuple[Tensor, Tensor, int, bool]:
    """By age, what Adam divides its moments by, the second's root; and whether later ages are as the last one."""
    ages = torch.arange(num_ages, dtype=torch.float64, device="cpu")
    first, second = (1.0 - beta**ages for beta in (beta_1, beta_2))
    return second.sqrt(), first, num_ages, bool(first[-1] == second[-1] == 1.0)


def rate_units_(
    record: dict[str, Tensor], value_U: Tensor, decay: float, maturity: int, rate: float, num_slots: int
) -> int | None:
    """Add a step's values to the utilities of CBP's units, and say how many are due; None: it is not done here."""
    if not isinstance(CPU, CpuKernel) or not can_look(value_U) or not record["age"].is_cpu:
        return None
    pointers = (tensor.data_ptr() for tensor in (record["utility"], value_U, record["age"], record["budget"]))
    return CPU.library.supple_rate_units(*pointers, len(value_U), decay, maturity, rate, num_slots)


def choose_units_(
    record: dict[str, Tensor], factors: Sequence[Mean], decay: float, maturity: int, rate: float, num_slots: int
) -> tuple[Tensor, Tensor] | None:
    """Do the same by the product of the two, and choose them: units, and which of them are due, new in the record.

    The units grow a step older, too. None: it is not done here.
    """
    (activity, number), (outgoing, num_weights) = factors
    programs, num_units = triton_programs(activity), len(activity)
    if programs is None or num_units > MOST_UNITS or num_slots > MOST_SLOTS or len(record) > len(CHOOSES_BY):
        return None
    units_K = torch.empty(num_slots, dtype=torch.int64, device=activity.device)
    due_K = torch.empty(num_slots, dtype=torch.bool, device=activity.device)
    tensors = *(record[key] for key in CHOOSES_BY), activity.contiguous(), outgoing.contiguous(), units_K, due_K
    scales = [torch.tensor(number, dtype=torch.float32).reciprocal().item() for number in (number, num_weights)]
    log_decay = math.log2(decay) if decay else -math.inf
    numbers = 1.0 - decay, log_decay, rate, num_slots, max(16, 1 << (num_units - 1).bit_length())
    with torch.cuda.device_of(activity):
        programs.choose_kernel[(1,)](*tensors, num_units, *scales, maturity, *numbers)
    return units_K, due_K


CHOOSES_BY = ("age", "utility", "budget")


def renew_(parts: Sequence[Part]) -> list[Part]:
    """Give the entries that are due their values, and Adam's memory of them the one that it begins with.

    Those that are left, which is all if two are of one tensor: then the later one counts.
    """
    if len({id(part.tensor) for part in parts}) < len(parts):
        return list(parts)
    served = [part for part in parts if is_served(part)]
    for some in batched(served):
        launch_renewal_(some)
    return [part for part in parts if not any(part is other for other in served)]


def is_served(part: Part) -> bool:
    if triton_programs(part.tensor) is None or (part.dim != 0 and not isinstance(part.value, float)):
        return False
    sources = [part.value.source] if isinstance(part.value, Drawn) else []
    return is_plain(part.tensor, *moments_of(part), *sources)


def moments_of(part: Part) -> list[Tensor]:
    return [part.memory[key] for key in MOMENTS if key in part.memory]


def launch_renewal_(parts: Sequence[Part]) -> None:
    programs = triton_programs(parts[0].tensor)
    told: list[tuple[Any, ...]] = []
    end = 0
    for part in parts:
        tensor, dim, units, due, value, memory, born = part
        num_rows, num_columns, inner = sides(tensor)
        length = inner * (num_columns if dim == 0 else num_rows)
        blocks = -(-length // BLOCK)
        begin, end = end, end + len(units) * blocks
        moments = moments_of(part)
        clock = (tensor, tensor, 0) if born is None else (born, memory["step"].to(tensor.device), 1)
        new: tuple[Any, ...] = tensor, units, 0, value
        if isinstance(value, Drawn):
            new = value.source, value.places.contiguous(), 2, 0.0
        elif isinstance(value, Tensor):
            new = value.contiguous(), units, 1, 0.0
        tensors = tensor, *[*moments, *[tensor] * 3][:3], len(moments), *clock, units.contiguous(), due.contiguous()
        told.append((*tensors, *new, length, num_columns * inner, inner, begin, end, blocks, dim))
    with torch.cuda.device_of(parts[0].tensor):
        programs.renew_kernel[(end,)](tuple(told), BLOCK)


MOMENTS = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
