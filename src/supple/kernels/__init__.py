"""Which kernel serves which device, and why not a faster one."""

import os

import torch

from supple.kernels.base import Kernel
from supple.kernels.cpu import BrokenLibraryError, CpuKernel, NoLibraryError
from supple.kernels.portable import PortableKernel
from supple.kernels.reference import ReferenceKernel
from supple.warn import warn

REFERENCE = ReferenceKernel()


def choose_cpu_kernel(forced: str) -> tuple[Kernel, str]:
    """The kernel of the CPU, and why it is this one: the fused one, else the portable one, or the one named."""
    simple = {"portable": PortableKernel(), "reference": REFERENCE}
    if forced in simple:
        return simple[forced], "SUPPLE_KERNEL asks for it"
    if forced not in ("", "cpu"):
        raise ValueError(f"SUPPLE_KERNEL is one of cpu, portable, reference, or unset; got {forced!r}.")
    try:
        kernel = CpuKernel()
    except NoLibraryError as error:
        if forced:
            raise RuntimeError(f"SUPPLE_KERNEL=cpu cannot be had: {error}.") from error
        if isinstance(error, BrokenLibraryError):
            warn(f"supple runs without its fused CPU kernel, several times slower: {error}.")
        return simple["portable"], str(error)
    return kernel, kernel.detail()


def choose_cuda_kernel(forced: str) -> tuple[Kernel, str]:
    """The kernel of the GPUs, and why it is this one. Triton is imported here, when the first CUDA tensor comes."""
    if forced == "reference":
        return REFERENCE, "SUPPLE_KERNEL asks for it"
    try:
        from supple.kernels.triton import TritonKernel, why_not
    except ImportError as error:
        return REFERENCE, f"plain torch; the fused kernel needs Triton 3.4 or newer: {error}"
    reason = why_not(torch.device("cuda", torch.cuda.current_device()))
    if reason is not None:
        return REFERENCE, f"plain torch; {reason}"
    kernel = TritonKernel()
    return kernel, f"fused; {kernel.why_node}"


FORCED = os.environ.get("SUPPLE_KERNEL", "")
CPU, WHY_CPU = choose_cpu_kernel(FORCED)
KERNELS: dict[str, Kernel] = {"cpu": CPU}
WHY: dict[str, str] = {"cpu": WHY_CPU, "cuda": "no GPU here"}


def kernel_for(device: torch.device) -> Kernel:
    """The fastest kernel that can serve this device."""
    if device.type == "cuda" and "cuda" not in KERNELS:
        KERNELS["cuda"], WHY["cuda"] = choose_cuda_kernel(FORCED)
    return KERNELS.get(device.type, REFERENCE)


def describe() -> str:
    """One line per device: the kernel that serves it, and why a faster one does not.

    The environment variable ``SUPPLE_KERNEL``, read once at import, forces a path: ``cpu`` (on the CPU the fused
    kernel, or an error), ``portable`` (on the CPU torch alone), ``reference`` (on every device the judge of the tests).
    """
    if torch.cuda.is_available():
        kernel_for(torch.device("cuda"))
    return "\n".join(f"{device}: {KERNELS.get(device, REFERENCE).name} ({why})" for device, why in WHY.items())
