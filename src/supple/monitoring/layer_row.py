"""LayerRow: the state of one layer in a handful of numbers, as the Monitor's table and writers show it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from supple.metrics.dormant import dormant_mask, dormant_scores
from supple.metrics.effective_rank import singular_values, srank
from supple.metrics.gradient import dead_rows
from supple.metrics.observation import Observation
from supple.metrics.saturation import saturated_mask
from supple.metrics.sign_entropy import binary_entropy
from supple.metrics.site import Site
from supple.metrics.sites import never_silent
from supple.metrics.weight_norm import joint_norm
from supple.units import Layer

UNIT_SCALARS = ("dormant", "saturated", "sign_entropy", "srank")
DELTA = 0.01  # of srank: Kumar et al. 2021, as in `effective_rank`


@dataclass(frozen=True, kw_only=True)
class SiteNumbers:
    """Of the layer's units: dormant at tau 0, saturated, mean sign entropy, and the rank of at most 256 of h's rows.

    Where the forward drew a mask, h is what it is in evaluation; the features of the metrics are what was computed.
    """

    activation: str  # its class
    never_silent: bool  # dormant is 0 by construction
    finite: bool  # all that went through was a number
    num_units: int
    dormant: float
    saturated: float
    stuck: float  # saturated and not dormant
    sign_entropy: float
    srank: float
    max_srank: int  # min(rows, columns): what a healthy layer could reach


@dataclass(frozen=True, kw_only=True)
class LayerRow:
    """One layer with weights and the activation it feeds; either may be missing."""

    name: str
    units: SiteNumbers | None
    weight_norm: float | None
    gradient_norm: float | None  # None where there is no gradient to read
    dead_gradient: float | None = None  # of the rows of a linear or convolutional weight, those that get none

    def scalars(self) -> dict[str, float]:
        """The numbers that are there, by name."""
        own = ("weight_norm", "gradient_norm", "dead_gradient")
        weights = {key: getattr(self, key) for key in own}
        units = {} if self.units is None else {key: getattr(self.units, key) for key in UNIT_SCALARS}
        return {key: value for key, value in {**units, **weights}.items() if value is not None}


def layer_rows(observation: Observation) -> list[LayerRow]:
    """The layers of the observation in order of execution."""
    return [layer_row(observation, layer, site) for layer, site in pairs(observation)]


def layer_row(observation: Observation, layer: str | None, site: Site | None) -> LayerRow:
    """One row: the norms of the layer's own parameters, the numbers of its units."""
    parameters = () if layer is None else tuple(observation.layers[layer].parameters(recurse=False))
    gradients = [p.grad for p in parameters if p.grad is not None]
    return LayerRow(
        name=label(layer, site),
        units=None if site is None else site_numbers(site),
        weight_norm=joint_norm(parameters) if parameters else None,
        gradient_norm=joint_norm(dense(gradients)) if gradients else None,
        dead_gradient=None if layer is None else dead_share(observation.layers[layer]),
    )


def site_numbers(site: Site) -> SiteNumbers:
    """The numbers of one site."""
    q_U, rows_RV = site.positive_share, site.kept_rows
    dormant_U, saturated_U = dormant_mask(dormant_scores(site.magnitude), 0.0), saturated_mask(q_U)
    return SiteNumbers(
        activation=type(site.activation).__name__,
        never_silent=never_silent(site.activation),
        finite=bool(site.magnitude.isfinite().all()),
        num_units=site.num_units,
        dormant=share(dormant_U),
        saturated=share(saturated_U),
        # An activation that narrows (GLU) has another number of columns than of inputs: no telling which is which.
        stuck=share(saturated_U & ~dormant_U if dormant_U.shape == saturated_U.shape else saturated_U),
        sign_entropy=binary_entropy(q_U).mean().item(),
        srank=srank(singular_values(rows_RV), DELTA),
        max_srank=min(rows_RV.shape),
    )


def pairs(observation: Observation) -> Iterator[tuple[str | None, Site | None]]:
    """Each layer with the site it feeds; a site of no known layer stands alone, behind the site before it."""
    behind: dict[str | None, list[Site]] = defaultdict(list)
    latest = None
    for site in observation.sites:
        latest = site.layer or latest
        behind[latest].append(site)
    for layer in (None, *observation.layers):
        if layer is not None and not behind[layer]:
            yield layer, None
        for site in behind[layer]:
            yield (layer if site.layer == layer else None), site


def label(layer: str | None, site: Site | None) -> str:
    """The layer's name, or in brackets the activation's where no layer is known to feed it."""
    if layer is not None:
        return layer or "(model)"
    return "" if site is None else f"({site.name})"


def share(mask: Tensor) -> float:
    """How much of the mask is set."""
    return mask.double().mean().item()


def dead_share(layer: nn.Module) -> float | None:
    """How many rows of the layer's weight got no gradient at all; None where there is none to read."""
    # Rows of an embedding whose token did not occur are no fault.
    gradient = layer.weight.grad if isinstance(layer, Layer) else None
    return None if gradient is None else share(dead_rows(gradient))


def dense(gradients: Iterable[Tensor]) -> Iterator[Tensor]:
    """Gradients of sparse embeddings by the values they hold."""
    return (g.coalesce().values() if g.is_sparse else g for g in gradients)
