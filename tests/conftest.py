"""Every test starts from the same seed; libraries that import torchvision can be imported."""

import os

import pytest

# Some machines that claim AMX die of it in bfloat16 products; it is read when torch first multiplies.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import torch

import timm_shim

timm_shim.declare_operators()  # here, too: pytest-xdist imports a library to show a warning of its own kind


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)
