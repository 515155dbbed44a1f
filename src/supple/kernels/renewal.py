"""Renewal of units (see methods/renewal.py) in few passes over memory: in C on a CPU, in Triton on a GPU.

Each function says whether it could serve. If not, nothing has changed, and torch's own operations do the same.
"""

import functools
import math
from typing import Any

import torch
from torch import Tensor

from supple.kernels import CPU, kernel_for
from supple.kernels.cpu import CpuKernel

MOST_AGES = 2**18  # in a table: 4 MiB
MOST_UNITS, MOST_SLOTS = 2**14, 16  # that one Triton program chooses among, and that it chooses
BLOCK, ROWS, COLUMNS = 1024, 16, 128


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


def take_own_steps_(
    parameter: Tensor,
    mean: Tensor,
    square: Tensor,
    group: dict[str, Any],
    *,
    borns: dict[int, Tensor],
    step: Tensor,
    last_step: Tensor,
) -> bool:
    """Give entries younger than their tensor the update of their own age in place of the one that Adam gave them."""
    betas, lr, eps = group["betas"], group["lr"], group["eps"]
    if isinstance(betas[0], Tensor) or not is_plain(parameter, mean, square):
        return False
    if any(tensor.device != parameter.device for tensor in (mean, square, last_step, *borns.values())):
        return False  # torch says so
    born = [borns.get(dim) for dim in (0, 1)]
    if parameter.is_cpu and can_look(step) and isinstance(CPU, CpuKernel):
        now, root = step.item(), square.sqrt()
        roots, firsts, num_ages, is_whole = table(*betas, min(1 << int(now).bit_length(), MOST_AGES))
        if now >= num_ages and not is_whole:
            return False
        pointers = parameter.data_ptr(), mean.data_ptr(), root.data_ptr()
        births = [None if tensor is None else tensor.data_ptr() for tensor in born]
        ages = roots.data_ptr(), firsts.data_ptr(), num_ages
        told = *pointers, *sides(parameter), *births, now, last_step.data_ptr(), *ages, float(lr), eps
        return CPU.library.supple_take_own_steps(*told, torch.get_num_threads())
    programs = triton_programs(parameter)
    if programs is None:
        return False
    if isinstance(lr, Tensor) and lr.device != parameter.device:
        lr = float(lr)
    step = step.to(parameter.device)
    num_rows, num_columns, inner = sides(parameter)
    grid = -(-num_rows // ROWS), -(-num_columns * inner // COLUMNS)
    logs = math.log2(betas[0]) if betas[0] else -math.inf, math.log2(betas[1]) if betas[1] else -math.inf
    tensors = parameter, mean, square, *born, step, last_step
    flags = isinstance(lr, Tensor), *logs, eps, *(tensor is not None for tensor in born), ROWS, COLUMNS
    with torch.cuda.device_of(parameter):
        programs.own_steps_kernel[grid](*tensors, num_rows, num_columns, inner, lr, *flags)
    last_step.copy_(step)
    return True


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
    record: dict[str, Tensor], value_U: Tensor, decay: float, maturity: int, rate: float, num_slots: int
) -> tuple[Tensor, Tensor] | None:
    """Do the same, and choose them: units, and which of them are due, new in the record. None: it is not done here."""
    programs, num_units = triton_programs(value_U), len(value_U)
    if programs is None or num_units > MOST_UNITS or num_slots > MOST_SLOTS or len(record) > len(CHOOSES_BY):
        return None
    units_K = torch.empty(num_slots, dtype=torch.int64, device=value_U.device)
    due_K = torch.empty(num_slots, dtype=torch.bool, device=value_U.device)
    tensors = *(record[key] for key in CHOOSES_BY), value_U, units_K, due_K
    log_decay = math.log2(decay) if decay else -math.inf
    numbers = 1.0 - decay, log_decay, rate, num_slots, max(16, 1 << (num_units - 1).bit_length())
    with torch.cuda.device_of(value_U):
        programs.choose_kernel[(1,)](*tensors, num_units, maturity, *numbers)
    return units_K, due_K


CHOOSES_BY = ("age", "utility", "budget")


def renew_(
    tensor: Tensor,
    dim: int,
    chosen: tuple[Tensor, Tensor],  # indices along the dimension, and which of them are due
    value: Tensor | float,
    memory: dict[str, Any],
    born: Tensor | None,
) -> bool:
    """Give the entries that are due a value, and Adam's memory of them the one that it begins with."""
    moments = [memory[key] for key in MOMENTS if key in memory]
    programs = triton_programs(tensor)
    drawn = isinstance(value, Tensor)
    if programs is None or not is_plain(tensor, *moments) or (drawn and dim != 0):
        return False
    num_rows, num_columns, inner = sides(tensor)
    grid = len(chosen[0]), -(-inner * (num_columns if dim == 0 else num_rows) // BLOCK)
    step = None if born is None else memory["step"].to(tensor.device)
    tensors = tensor, *[*moments, None, None, None][:3], born, step, *(part.contiguous() for part in chosen)
    numbers = (value.contiguous(), 0.0) if isinstance(value, Tensor) else (None, value)
    flags = dim, drawn, len(moments), born is not None, BLOCK
    with torch.cuda.device_of(tensor):
        programs.renew_kernel[grid](*tensors, *numbers, num_rows, num_columns, inner, *flags)
    return True


MOMENTS = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
