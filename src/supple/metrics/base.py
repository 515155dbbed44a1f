"""Metric: numbers that say how able to learn a network still is, read from an observation of it."""

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from supple.fields import Checked
from supple.metrics.observe import Observation


class Metric(Checked, ABC):
    """A frozen dataclass in every subclass; its fields are its thresholds."""

    name: ClassVar[str]
    stands_alone: ClassVar[bool] = True  # False: its numbers mean something only together, as the bins of a histogram
    reads_gradients: ClassVar[bool] = False  # True: it reads ``.grad``, as whoever trains left it

    @abstractmethod
    def measure(self, observation: Observation) -> dict[str, float]:
        """The numbers by name; none where the observation lacks what they need (gradients, the initial weights)."""


def every_metric() -> list[Metric]:
    """One of each kind that this folder holds, at its defaults, in the order of their names."""
    package = importlib.import_module(__package__)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    own = [cls for cls in Metric.__subclasses__() if cls.__module__.startswith(f"{package.__name__}.")]
    return [cls() for cls in sorted(own, key=lambda cls: cls.name)]


def measure(metrics: Sequence[Metric], observation: Observation) -> dict[str, float]:
    """The numbers of all the metrics, side by side."""
    return {name: value for metric in metrics for name, value in metric.measure(observation).items()}
