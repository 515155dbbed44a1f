"""Three units: one that is alive, one that is dead and one that is linear, with what the metrics say of each."""

import torch
from matplotlib.figure import Figure
from shade import Shade, panels, titled_

from supple.metrics.units import binary_entropy, saturated_mask

UNITS = {"alive": 0.3, "dead": -3.6, "always on": 3.6}  # mean of z; its standard deviation is 0.8
NUM_VALUES = 4000


def draw(shade: Shade) -> Figure:
    """The histogram of each unit's pre-activations; what ReLU lets pass is coloured."""
    generator = torch.Generator().manual_seed(0)
    with panels(columns=len(UNITS), width=6.2, height=2.7, sharey=True) as (figure, axes):
        for each, (name, mean) in zip(axes, UNITS.items(), strict=True):
            z = mean + 0.8 * torch.randn(NUM_VALUES, generator=generator)
            q = (z > 0).double().mean()
            bins = torch.arange(-6.5, 6.6, 0.25).tolist()
            each.hist(z[z <= 0], bins=bins, color=shade.muted, alpha=0.55, histtype="stepfilled")
            each.hist(z[z > 0], bins=bins, color=shade.of("aid"), histtype="stepfilled")
            each.axvline(0.0, color=shade.ink, linewidth=1)
            titled_(each, name)
            each.set_xlabel(f"z > 0 in {float(q):.0%}\n{read_off(q)}", color=shade.ink)
            each.set_yticks([])
            each.spines["left"].set_visible(False)
            each.set_xticks([-5, 0, 5])
    return figure


def read_off(q: torch.Tensor) -> str:
    """What the metrics say of a unit by how often its z is above zero."""
    words = ("dormant, saturated" if q == 0 else "saturated") if saturated_mask(q) else "healthy"
    return f"sign entropy {abs(float(binary_entropy(q))):.2f}\n{words}"
