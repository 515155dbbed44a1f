"""Renewal of units (see methods/renewal.py) in few passes over memory: in C on a CPU, in Triton on a GPU.

Each function says whether it could serve. If not, nothing has changed, and torch's own operations do the same.
"""

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from supple.kernels import CPU, kernel_for
from supple.kernels.cpu import FLOAT, POINTER, CpuKernel

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
    born: Tensor | None  # when the units were born; None: not counted


def triton_programs(tensor: Tensor) -> Any:
    """The Triton programs, if they serve the tensor's device; else None."""
    if not tensor.is_cuda or kernel_for(tensor.device).name != "triton":
        return None
    from supple.kernels import renewal_programs

    return renewal_programs


def is_compiled(tensor: Tensor) -> bool:
    """Whether the compiled library serves the tensor's device."""
    return tensor.is_cpu and isinstance(CPU, CpuKernel)


def library() -> Any:
    """The compiled library, where it serves."""
    return cast(CpuKernel, CPU).library


def can_look(tensor: Tensor) -> bool:
    """Whether a look at its values is free. One at a GPU's waits for it, and no CUDA graph can hold it."""
    return tensor.is_cpu


def is_plain(*tensors: Tensor) -> bool:
    """Whether all are of the kind that the kernels know."""
    for tensor in tensors:  # at each step: with `all` this takes twice as long
        if tensor.dtype is not torch.float32 or not tensor.is_contiguous() or not tensor.numel():
            return False
    return True


def sides(tensor: Tensor) -> tuple[int, int, int]:
    """How many rows and columns it has, and of how many entries each a column of a row is."""
    num_rows, num_columns = (*tensor.shape, 1)[:2]
    return num_rows, num_columns, tensor.numel() // (num_rows * num_columns)


def serves(group: dict[str, Any], grown: Grown) -> bool:
    """Whether the kernels know such tensors. Of several devices torch complains."""
    device = grown.parameter.get_device()
    for tensor in (grown.mean, grown.square, grown.last_step, *grown.borns.values()):
        if tensor.get_device() != device:
            return False
    return not isinstance(group["betas"][0], Tensor) and is_plain(*grown[:3])


def take_own_steps_(group: dict[str, Any], many: Sequence[Grown]) -> list[Grown]:
    """Give entries younger than their tensor the update of their own age in place of the one that Adam gave them.

    Returns the tensors that are left.
    """
    launched, compiled, left = list[Grown](), list[Grown](), list[Grown]()
    for grown in many:
        is_served = serves(group, grown)
        if is_served and triton_programs(grown.parameter) is not None:
            launched.append(grown)
        elif is_served and is_compiled(grown.parameter) and can_look(grown.step):
            compiled.append(grown)
        else:
            left.append(grown)
    for parts in batched(launched):
        launch_own_steps_(group, parts)
    return left if not compiled or call_own_steps_(group, compiled) else [*left, *compiled]


def call_own_steps_(group: dict[str, Any], many: Sequence[Grown]) -> bool:
    steps = [grown.step.item() for grown in many]
    first_roots, firsts, num_ages, is_whole = table(*group["betas"], min(1 << int(max(steps)).bit_length(), MOST_AGES))
    if max(steps) >= num_ages and not is_whole:
        return False
    told: list[int | None] = []
    num_rows = num_entries = most = 0
    for parameter, mean, square, _, last_step, borns in many:
        births = [borns[dim].data_ptr() if dim in borns else None for dim in (0, 1)]
        rows, columns, inner = sides(parameter)
        pointers = parameter.data_ptr(), mean.data_ptr(), square.data_ptr()
        told += *pointers, rows, columns, inner, *births, last_step.data_ptr()
        num_rows, num_entries, most = num_rows + rows, num_entries + rows * columns * inner, max(most, rows + columns)
    places = torch.empty(num_rows, dtype=torch.int64, device="cpu")
    room, packed = torch.empty(3 * most + num_entries, dtype=torch.float32, device="cpu").split((3 * most, num_entries))
    tensors = (POINTER * len(told))(*told), (FLOAT * len(steps))(*steps), len(steps), places.data_ptr()
    roots = packed[: library().supple_pack_squares(*tensors, packed.data_ptr())].sqrt_()
    ages = first_roots.data_ptr(), firsts.data_ptr(), num_ages, float(group["lr"]), group["eps"]
    library().supple_take_own_steps(*tensors, roots.data_ptr(), room.data_ptr(), *ages, torch.get_num_threads())
    return True


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
    record: dict[str, Tensor], factors: Sequence[Mean], decay: float, maturity: int, rate: float, num_slots: int
) -> int | None:
    """Add a step's values to the utilities of CBP's units, and say how many are due; None: it is not done here.

    A value is the product of the factors. If there are two, the units grow a step older first.
    """
    activity = factors[0].sums
    if not is_compiled(record["age"]) or not can_look(activity):
        return None
    outgoing = (factors[1].sums.data_ptr(), factors[1].number) if len(factors) > 1 else (None, 1.0)
    utility, age, budget = (record[key].data_ptr() for key in ("utility", "age", "budget"))
    told = utility, activity.data_ptr(), factors[0].number, *outgoing, age, len(factors) - 1, budget
    return library().supple_rate_units(*told, len(activity), decay, maturity, rate, num_slots)


def choose_units_(
    record: dict[str, Tensor], factors: Sequence[Mean], decay: float, maturity: int, rate: float, num_slots: int
) -> tuple[Tensor, Tensor] | None:
    """Do the same, and choose them: units, and which of them are due, new in the record.

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
    launched, compiled, left = list[Part](), list[Part](), list[Part]()
    for part in parts:
        is_served = are_entries_plain(part)
        if is_served and triton_programs(part.tensor) is not None:
            launched.append(part)
        elif is_served and is_compiled(part.tensor) and (part.born is None or can_look(part.memory["step"])):
            compiled.append(part)
        else:
            left.append(part)
    for some in batched(launched):
        launch_renewal_(some)
    if compiled:
        call_renewal_(compiled)
    return left


def are_entries_plain(part: Part) -> bool:
    if part.dim != 0 and not isinstance(part.value, float):
        return False
    value = part.value.source if isinstance(part.value, Drawn) else part.value
    return is_plain(part.tensor, *moments_of(part), *([value] if isinstance(value, Tensor) else []))


def call_renewal_(parts: Sequence[Part]) -> None:
    told: list[int | None] = []
    values, steps, held = list[float](), list[float](), list[Tensor]()
    for part in parts:
        tensor, dim, units, due, value, memory, born = part
        moments = [*(moment.data_ptr() for moment in moments_of(part)), None, None, None][:3]
        units, due, source, places = units.contiguous(), due.contiguous(), None, None
        if isinstance(value, Drawn):
            source, places = value.source, value.places.contiguous()
        elif isinstance(value, Tensor):
            source = value
        held += [one for one in (units, due, source, places) if one is not None]  # as long as the library reads them
        pointers = [None if one is None else one.data_ptr() for one in (born, units, due, source, places)]
        told += tensor.data_ptr(), *moments, *pointers, len(units), dim, *sides(tensor)
        values.append(value if isinstance(value, float) else 0.0)
        steps.append(0.0 if born is None else memory["step"].item())
    tables = (POINTER * len(told))(*told), (FLOAT * len(values))(*values), (FLOAT * len(steps))(*steps)
    library().supple_renew(*tables, len(values))


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
        told.append((*tensors, *new, length, num_columns * inner, inner, float(begin), float(end), blocks, dim))
    with torch.cuda.device_of(parts[0].tensor):
        programs.renew_kernel[(end,)](tuple(told), BLOCK)


MOMENTS = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
