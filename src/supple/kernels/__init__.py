"""Which kernel serves which device, and why not a faster one."""

import torch

from supple.kernels.base import Kernel
from supple.kernels.reference import ReferenceKernel

REFERENCE = ReferenceKernel()


def kernel_for(device: torch.device) -> Kernel:
    """The fastest kernel that can serve this device."""
    return REFERENCE


def describe() -> str:
    """One line per device: the kernel that serves it, and why a faster one does not."""
    return "\n".join(f"{device}: {REFERENCE.name} (plain torch; no fused kernel yet)" for device in ("cpu", "cuda"))
