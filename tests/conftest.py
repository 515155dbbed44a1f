"""Tests start from the same seed, with nothing compiled; those marked gpu need one; what imports torchvision works."""

import os
import shutil
import sys

import pytest

# Some machines that claim AMX die of it in bfloat16 products; it is read when torch first multiplies.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import torch

import timm_shim
from supple.kernels.cpu import CpuKernel, NoLibraryError

timm_shim.declare_operators()  # here, too: pytest-xdist imports a library to show a warning of its own kind


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    gpu = item.get_closest_marker("gpu")
    if gpu is None or torch.cuda.is_available():
        return
    if not (gpu.kwargs.get("or_interpreted") and os.environ.get("TRITON_INTERPRET") == "1"):
        pytest.skip("needs a CUDA device")


def pytest_collectstart():
    """What a test module draws at its import does not hang on the modules imported before it."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)
    yield
    if "torch._dynamo" in sys.modules:  # it compiles one code object, as nn.Sequential's, only so often
        torch.compiler.reset()


@pytest.fixture(scope="module")
def kernel():
    """The kernel in C, which a machine with a compiler must have."""
    try:
        return CpuKernel()
    except NoLibraryError as error:
        if shutil.which("cc") is None:
            pytest.skip(str(error))
        raise


@pytest.fixture
def no_picture_files(monkeypatch):
    """Reports are written without their PNG and PDF files; the page draws the same panels."""
    monkeypatch.setattr("supple_lab.report.write.picture_files", lambda figure: {"png": b"", "pdf": b""})
