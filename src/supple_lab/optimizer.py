"""Optimizers as data: Adam and SGD of the paper, and AdamW, with torch's own constants."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from supple.fields import Checked
from supple.learner import forget_, starts_from_zeros
from supple_lab.errors import at_least, positive


@dataclass(frozen=True, kw_only=True)
class Optimizer(Checked, ABC):
    """A frozen dataclass in every subclass; its fields are its settings."""

    name: ClassVar[str]
    learning_rate: float

    def __post_init__(self) -> None:
        positive(self, "learning_rate")

    @abstractmethod
    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """A fresh optimizer over the parameters, whose steps can be captured if these are on a GPU."""

    def renewed(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """One as it is before its first step: the same one if that is zeros, so that captured steps stay good."""
        own = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        if not starts_from_zeros(optimizer):
            return self.build(own)
        forget_(optimizer, own)
        return optimizer

    def rate_for(self, parameters: list[nn.Parameter]) -> float | Tensor:
        """The learning rate: on a GPU in its memory, where a captured step reads it at each replay."""
        device = parameters[0].device
        return torch.tensor(self.learning_rate, device=device) if device.type == "cuda" else self.learning_rate


@dataclass(frozen=True, kw_only=True)
class Adam(Optimizer):
    """Adam with betas (0.9, 0.999), no weight decay; one fused kernel per step."""

    name = "adam"
    learning_rate: float = 1e-3
    epsilon: float = field(default=1e-8, metadata={"later": True})  # 1.5e-4 in reinforcement learning

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(0, self, "epsilon")

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        own = list(parameters)
        on_gpu = own[0].is_cuda
        return torch.optim.Adam(own, lr=self.rate_for(own), eps=self.epsilon, fused=True, capturable=on_gpu)


@dataclass(frozen=True, kw_only=True)
class SGD(Optimizer):
    """Stochastic gradient descent; the paper's has neither momentum nor weight decay."""

    name = "sgd"
    learning_rate: float = 3e-2
    momentum: float = field(default=0.0, metadata={"later": True})
    weight_decay: float = field(default=0.0, metadata={"later": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.momentum < 1.0:
            raise ValueError(f"SGD.momentum must be in [0, 1); got {self.momentum}.")
        at_least(0, self, "weight_decay")

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        own = list(parameters)
        return torch.optim.SGD(
            own, lr=self.rate_for(own), momentum=self.momentum, weight_decay=self.weight_decay, fused=True
        )


@dataclass(frozen=True, kw_only=True)
class AdamW(Optimizer):
    """Adam with decoupled weight decay: theta shrinks by lr * weight_decay at each step, which moments never see."""

    name = "adamw"
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(0, self, "weight_decay")

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        own = list(parameters)
        rate, on_gpu = self.rate_for(own), own[0].is_cuda
        return torch.optim.AdamW(own, lr=rate, weight_decay=self.weight_decay, fused=True, capturable=on_gpu)


def set_learning_rate_(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(learning_rate)
        else:
            group["lr"] = learning_rate
