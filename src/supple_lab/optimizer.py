"""Optimizers of the paper as data: Adam and plain SGD, with torch's own constants."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from supple.fields import Checked
from supple.learner import forget_, starts_from_zeros


@dataclass(frozen=True, kw_only=True)
class Optimizer(Checked, ABC):
    """A frozen dataclass in every subclass; its fields are its settings."""

    name: ClassVar[str]
    learning_rate: float

    def __post_init__(self) -> None:
        if not 0.0 < self.learning_rate < math.inf:
            name = type(self).__name__
            raise ValueError(f"{name}.learning_rate must be positive and finite; got {self.learning_rate}.")

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
        if not 0.0 <= self.epsilon < math.inf:
            raise ValueError(f"Adam.epsilon must be a finite number of at least 0; got {self.epsilon}.")

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        own = list(parameters)
        on_gpu = own[0].is_cuda
        return torch.optim.Adam(own, lr=self.rate_for(own), eps=self.epsilon, fused=True, capturable=on_gpu)


@dataclass(frozen=True, kw_only=True)
class SGD(Optimizer):
    """Stochastic gradient descent without momentum."""

    name = "sgd"
    learning_rate: float = 3e-2

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        own = list(parameters)
        return torch.optim.SGD(own, lr=self.rate_for(own), fused=True)


def set_learning_rate_(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Give every parameter this learning rate from the next step on."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(learning_rate)
        else:
            group["lr"] = learning_rate
