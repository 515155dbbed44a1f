"""Precision of matrix products: single, TensorFloat-32, or bfloat16 under autocast."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

Precision = Literal["default", "fp32", "tf32", "bf16"]  # default: fp32 on a CPU, tf32 on a GPU


def named(precision: Precision, *, device: str) -> Precision:
    """The precision as a spec should have it: default if it is the device's own, so that a run has one name."""
    return "default" if precision == default_on(torch.device(device)) else precision


def default_on(device: torch.device) -> Precision:
    return "tf32" if device.type == "cuda" else "fp32"


@dataclass(frozen=True)
class Numerics:
    """How a run computes on its device."""

    device: torch.device
    precision: Precision

    @classmethod
    def choose(cls, device: torch.device, precision: Precision) -> "Numerics":
        """The device's own default if the spec leaves it open."""
        return cls(device, default_on(device) if precision == "default" else precision)

    def place(self, model: nn.Module) -> nn.Module:
        """The model on the device, in the memory format that suits it: tensor cores take channels last."""
        if self.precision != "fp32":
            return model.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        return model.to(self.device)

    def forward(self) -> contextlib.AbstractContextManager[object]:
        """While open, forwards run in the precision."""
        if self.precision == "bf16":
            return torch.autocast(self.device.type, dtype=torch.bfloat16)
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def matmuls(self) -> Iterator[None]:
        """While open, float32 products and convolutions round as the precision says, and always alike."""
        ROUNDING.enter(tf32=self.precision != "fp32")
        try:
            yield
        finally:
            ROUNDING.leave()


class Rounding:
    """torch's rounding of float32 products, which is the process's: runs in several threads must agree on it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._num_inside = 0
        self._tf32 = False
        self._before = ("highest", False, False)

    def enter(self, *, tf32: bool) -> None:
        with self._lock:
            if self._num_inside and tf32 != self._tf32:
                raise RuntimeError("runs that share a process must have one precision; run them in separate sweeps.")
            if not self._num_inside:
                cudnn = torch.backends.cudnn
                self._before = torch.get_float32_matmul_precision(), cudnn.allow_tf32, cudnn.deterministic
                self._set("high" if tf32 else "highest", tf32, True)
            self._num_inside, self._tf32 = self._num_inside + 1, tf32

    def leave(self) -> None:
        with self._lock:
            self._num_inside -= 1
            if not self._num_inside:
                self._set(*self._before)

    def _set(self, products: str, tf32_convolutions: bool, deterministic: bool) -> None:
        torch.set_float32_matmul_precision(products)
        torch.backends.cudnn.allow_tf32 = tf32_convolutions
        torch.backends.cudnn.deterministic = deterministic  # else some convolutions add up in whatever order


ROUNDING = Rounding()
