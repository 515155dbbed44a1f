"""Optimizers of the paper as data: Adam and plain SGD, with torch's own constants."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn


@dataclass(frozen=True, kw_only=True)
class Optimizer(ABC):
    """A frozen dataclass in every subclass; its fields are its settings."""

    name: ClassVar[str]
    learning_rate: float

    def __post_init__(self) -> None:
        if not self.learning_rate > 0.0:
            raise ValueError(f"{type(self).__name__}.learning_rate must be positive; got {self.learning_rate}.")

    @abstractmethod
    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """A fresh optimizer over the parameters."""


@dataclass(frozen=True, kw_only=True)
class Adam(Optimizer):
    """Adam with betas (0.9, 0.999), eps 1e-8, no weight decay; one fused kernel per step."""

    name = "adam"
    learning_rate: float = 1e-3

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameters, lr=self.learning_rate, fused=True)


@dataclass(frozen=True, kw_only=True)
class SGD(Optimizer):
    """Stochastic gradient descent without momentum."""

    name = "sgd"
    learning_rate: float = 3e-2

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=self.learning_rate, fused=True)
