"""Metric: numbers that say how able to learn a network still is, read from an observation of it."""

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from supple.fields import Checked
from supple.metrics.observe import Observation


class Metric(Checked, ABC):
    """Every subclass is a frozen dataclass; its fields are its thresholds."""

    name: ClassVar[str]
    watched: ClassVar[bool] = True  # False: the Monitor measures it only if asked
    reads_gradients: ClassVar[bool] = False  # True: it reads ``.grad`` as the training loop left it
    needs_task: ClassVar[bool] = False  # True: it reads the observation's labelled examples, loss or optimizer

    @abstractmethod
    def measure(self, observation: Observation) -> dict[str, float]:
        """Return the numbers by name; none if the observation lacks what they need (gradients, a task)."""


def at_least_one(metric: Metric, *names: str) -> None:
    """Raise an error that names the first of these fields below 1."""
    for name in names:
        if getattr(metric, name) < 1:
            raise ValueError(f"{type(metric).__name__}.{name} must be at least 1; got {getattr(metric, name)}.")


def every_metric() -> list[Metric]:
    """Return one of each kind in this folder, at its defaults, sorted by name."""
    package = importlib.import_module(__package__)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    own = [cls for cls in Metric.__subclasses__() if cls.__module__.startswith(f"{package.__name__}.")]
    return [cls() for cls in sorted(own, key=lambda cls: cls.name)]


def measure(metrics: Sequence[Metric], observation: Observation) -> dict[str, float]:
    return {name: value for metric in metrics for name, value in metric.measure(observation).items()}
