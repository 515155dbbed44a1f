"""Reading: all that the Monitor learned at one step from one source, the training batch or the probe."""

from collections.abc import Sequence
from dataclasses import dataclass

from supple.metrics.base import Metric, measure
from supple.metrics.observation import Observation
from supple.monitoring.layer_row import LayerRow, layer_rows


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Numbers of the whole network and of each layer."""

    source: str  # "train" or "probe"
    step: int
    num_samples: int
    layers: list[LayerRow]
    numbers: dict[str, float]  # by the metrics' names

    def scalars(self) -> dict[str, float]:
        """Everything by name: train/sign_entropy, train/fc1/dormant, ..."""
        network = {f"{self.source}/{name}": value for name, value in self.numbers.items()}
        layers = {f"{self.source}/{row.name}/{key}": v for row in self.layers for key, v in row.scalars().items()}
        return network | layers


def read(observation: Observation, metrics: Sequence[Metric], *, source: str, step: int) -> Reading:
    """What the observation says at this step."""
    return Reading(
        source=source,
        step=step,
        num_samples=max((site.num_samples for site in observation.sites), default=0),
        layers=layer_rows(observation),
        numbers=measure(metrics, observation),
    )
