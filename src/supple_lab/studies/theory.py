"""Theory (section 4, Figure 1): what AID computes, Theorem 1 and the law of He initialisation. Nothing is trained."""

import numpy as np
import torch
from torch import Tensor

from supple import functional as SF
from supple import theory
from supple_lab.report.figure import ClaimRow, Drawing, Figure
from supple_lab.report.panel import Curve, Level, Panel
from supple_lab.report.results import Results
from supple_lab.studies.base import Study
from supple_lab.studies.condition import Condition
from supple_lab.studies.decide import words_of
from supple_lab.studies.kernel_cost import aid_costs_what_dropout_costs
from supple_lab.studies.order import Order
from supple_lab.studies.theorem import (
    NUM_NETWORKS,
    NUM_UNITS,
    PROBABILITIES,
    ROUNDING,
    corollary_1,
    distances_of_one_unit,
    dropout_has_no_pull,
    enumerated_loss,
    over_p,
    pull_figure,
    random_networks,
    theorem_1,
    theorem_figure,
    theorem_table,
)

FIGURE_P = 0.9  # as the paper's experiments with random labels
NUM_NORMAL = 2**17  # numbers z for each p
SMOKE = "Smoke scale: to see that everything runs; no verdict is given, as with the other studies. Take --scale quick."


class Theory(Study):
    """The branches of AID, both sides of Theorem 1, and AID's moments."""

    name = "theory"
    title = "Theory: what AID computes, and what it is pulled towards"
    question = (
        "In training AID is a ReLU or a negative ReLU by chance, in evaluation their mean. Does Theorem 1 hold, that "
        "this pulls a network towards a linear one? Does He initialisation suit it? And what does it cost?"
    )

    def conditions(self, order: Order) -> tuple[Condition, ...]:
        return ()

    def draw(self, results: Results, order: Order) -> Drawing:
        networks = random_networks()
        left, right = (over_p(networks, side) for side in (enumerated_loss, theory.aid_loss_bound))
        penalty, bound = (over_p(networks, side) for side in (theory.aid_penalty, theory.aid_penalty_bound))
        one_unit = distances_of_one_unit(enumerated_loss, theory.aid_loss_bound)
        corollary = corollary_1(networks)
        second_moments, slopes = sampled_moments()
        return Drawing(
            figures=(
                branches_figure(),
                theorem_figure(left, right, penalty=penalty, bound=bound),
                pull_figure(corollary["dropout"], corollary["aid"]),
                moments_figure(second_moments, slopes),
            ),
            tables=(theorem_table(left, right, penalty=penalty, bound=bound),),
            claims=(
                aid_costs_what_dropout_costs(results.root),
                theorem_1(left, right, penalty=penalty, bound=bound, one_unit=one_unit),
                dropout_has_no_pull(**corollary),
                he_moments(second_moments, slopes),
            ),
            notes=(
                *((SMOKE,) if order.scale == "smoke" else ()),
                "Nothing is trained, so that there is no protocol to be larger or smaller than: every scale computes "
                "the same numbers. Theorem 1's left side is the mean over all "
                f"{2**NUM_UNITS} masks of {NUM_NETWORKS} random networks with {NUM_UNITS} hidden units. At p = 1/2 the "
                "printed factor is 0/0; we take the form without it.",
            ),
        )


# Figure 1.


def branches_figure() -> Figure:
    """The two branches in training, and r_p in evaluation."""
    x = torch.linspace(-2.0, 2.0, 81, dtype=torch.float64)
    drawn = (
        ("vanilla", f"ReLU, with probability p = {FIGURE_P:g}", torch.relu(x)),
        ("aid", f"negative ReLU, with probability {1 - FIGURE_P:.1g}", theory.negative_relu(x)),
        ("aid", "evaluation: their mean, r_p", SF.modified_leaky_relu(x, FIGURE_P)),
    )
    panels = tuple(
        Panel(
            title=title,
            x_label="pre-activation",
            y_label="activation",
            curves=tuple(line(*one, x=x) for one in chosen),
            y_range=(-2.1, 2.1),
        )
        for title, chosen in (("training", drawn[:2]), ("evaluation", drawn[2:]))
    )
    caption = f"AID with p = {FIGURE_P:g}, element by element (the paper's Figure 1)."
    return Figure(name="aid", caption=caption, panels=panels)


def line(method: str, label: str, y: Tensor, *, x: Tensor) -> Curve:
    """A function as a curve."""
    return Curve(method=method, label=label, x=x.numpy(), values=y.numpy()[None])


# He initialisation.


def sampled_moments() -> tuple[np.ndarray, np.ndarray]:
    """E[AID(z)^2] / Var z and P(slope = 1) at each probability, from normal z that every p draws for itself.

    Each z comes with -z under the same mask. One of the two passes whatever the mask, so for a symmetric law both
    numbers are 1/2 without any noise of the draws.
    """
    generator = torch.Generator().manual_seed(0)
    moments, slopes = [], []
    for p in PROBABILITIES:
        half = torch.randn(NUM_NORMAL // 2, generator=generator, dtype=torch.float64)
        masks = generator.get_state()
        activations, gradients = zip(*(drawn(z, p, generator, masks) for z in (half, -half)), strict=True)
        moments.append((sum(a.square().sum() for a in activations) / (2.0 * half.square().sum())).item())
        slopes.append((sum(gradient.mean() for gradient in gradients) / 2.0).item())
    return np.array(moments), np.array(slopes)


def drawn(z: Tensor, p: float, generator: torch.Generator, masks: Tensor) -> tuple[Tensor, Tensor]:
    """AID(z) and its slopes under the masks that the generator draws from this state."""
    generator.set_state(masks)
    z = z.clone().requires_grad_()
    activation = SF.aid(z, p, training=True, generator=generator)
    (slope,) = torch.autograd.grad(activation.sum(), z)
    return activation.detach(), slope


def moments_figure(second_moments: np.ndarray, slopes: np.ndarray) -> Figure:
    """AID's moments over p beside the law, and what evaluation makes of them."""
    in_evaluation = np.array([theory.eval_second_moment(p, 1.0 - p) for p in PROBABILITIES])
    half = Level(label="He's law: 1/2", value=0.5)
    x_label = "p, the probability of the ReLU"
    squares = (
        sampled("aid", "AID in training", second_moments),
        sampled("aid", "r_p, in evaluation", in_evaluation),
    )
    return Figure(
        name="he_moments",
        caption=f"Normal z, {NUM_NORMAL:,} draws for each p. He initialisation needs half of the second moment and "
        "half of the slopes in training. In evaluation r_p leaves less, which the paper does not discuss.",
        panels=(
            Panel(
                title="Second moment",
                x_label=x_label,
                y_label="E[f(z)²] / Var z",
                curves=squares,
                levels=(half,),
                y_range=(0.0, 0.6),
            ),
            Panel(
                title="Slopes",
                x_label=x_label,
                y_label="P(slope = 1)",
                curves=(sampled("aid", "AID in training", slopes),),
                levels=(half,),
                y_range=(0.0, 0.6),
            ),
        ),
    )


def sampled(method: str, label: str, values: np.ndarray) -> Curve:
    """One number at each p."""
    return Curve(method=method, label=label, x=np.array(PROBABILITIES), values=values[None])


def he_moments(second_moments: np.ndarray, slopes: np.ndarray) -> ClaimRow:
    """Are moments and slopes a half at every p, to rounding?"""
    furthest = max(np.abs(second_moments - 0.5).max(), np.abs(slopes - 0.5).max())
    return ClaimRow(
        measured=f"{furthest:.3g}: furthest from 1/2 (beyond rounding?), over {len(PROBABILITIES)} values of p with "
        f"{NUM_NORMAL:,} draws each, z and −z under one mask",
        interval=None,
        n=len(PROBABILITIES),
        verdict="holds" if furthest <= ROUNDING else "fails",
        **words_of("he_moments"),
    )
