"""Frames in a memory-mapped file: more than the memory of a host can hold, paged in by the operating system."""

import math
import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from supple_lab.atomic_write import storage_error


def mapped_frames(file: Path, shape: tuple[int, ...]) -> Tensor:
    """Zeroed bytes in a new file of their own, its space reserved: a disk that fills up later would kill the run."""
    try:
        with open(file, "wb") as new:
            os.posix_fallocate(new.fileno(), 0, math.prod(shape))
    except OSError as error:
        raise storage_error(error, file) from error
    return torch.from_numpy(np.memmap(file, dtype=np.uint8, mode="r+", shape=shape))
