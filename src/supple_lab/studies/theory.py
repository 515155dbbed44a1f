"""Theory (section 4, Figure 1): what AID computes, Theorem 1 and the law of He initialisation. Nothing is trained."""

from collections.abc import Callable
from functools import cache
from itertools import product

import numpy as np
import torch
from torch import Tensor

from supple import functional as SF
from supple import theory
from supple_lab.report.figure import ClaimRow, Drawing, Figure, Table
from supple_lab.report.panel import Curve, Estimate, Level, Panel
from supple_lab.report.results import Results
from supple_lab.studies.base import Study
from supple_lab.studies.condition import Condition
from supple_lab.studies.decide import words_of
from supple_lab.studies.kernel_cost import aid_costs_what_dropout_costs
from supple_lab.studies.order import Order

FIGURE_P = 0.9  # as the paper's experiments with random labels
PROBABILITIES = tuple(round(0.05 * step, 2) for step in range(21))
NUM_NETWORKS = 20
NUM_UNITS = 8  # so few that the expectation over all 2^8 masks is exact
ROUNDING = 1e-9  # relative; float64 is exact to 1e-13 over such sums
NUM_NORMAL = 2**17  # numbers z for each p
NUM_ERRORS = 5  # standard errors


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
        second_moments, slopes = sampled_moments()
        return Drawing(
            figures=(
                branches_figure(),
                theorem_figure(left, right, penalty=penalty, bound=bound),
                moments_figure(second_moments, slopes),
            ),
            tables=(theorem_table(left, right, penalty=penalty, bound=bound),),
            claims=(
                aid_costs_what_dropout_costs(results.root),
                theorem_1(left, right, penalty=penalty, bound=bound),
                he_moments(second_moments, slopes),
            ),
            notes=(
                "Nothing is trained; the scale makes no difference. Theorem 1's left side is the mean over all "
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
        ("dropout", f"negative ReLU, with probability {1 - FIGURE_P:.1g}", theory.negative_relu(x)),
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


# Theorem 1. Every array is (networks, probabilities).

Network = dict[str, Tensor]
Side = Callable[..., Tensor]


def random_networks() -> list[Network]:
    """Weights, input and target of two-layer networks, the same every time."""
    generator = torch.Generator().manual_seed(0)
    shapes = {"W1": (NUM_UNITS, NUM_UNITS), "W2": (NUM_UNITS, NUM_UNITS), "x": (NUM_UNITS,), "y": (NUM_UNITS,)}
    return [
        {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}
        for _ in range(NUM_NETWORKS)
    ]


def over_p(networks: list[Network], side: Side) -> np.ndarray:
    """A loss or a penalty of each network at each probability."""
    takes_target = "penalty" not in side.__name__
    return np.array(
        [
            [float(side(own["W1"], own["W2"], x=own["x"], p=p, **target(own, takes_target))) for p in PROBABILITIES]
            for own in networks
        ]
    )


def target(network: Network, wanted: bool) -> Network:
    """The target as an argument, where a side depends on it."""
    return {"y": network["y"]} if wanted else {}


def enumerated_loss(W1: Tensor, W2: Tensor, *, x: Tensor, y: Tensor, p: float) -> Tensor:
    """E||W2 AID_p(W1 x) - y||^2 without any algebra: every mask with its probability."""
    v = theory.preactivation(W1, x)
    is_relu = every_mask(len(v))
    activations = torch.where(is_relu, torch.relu(v), theory.negative_relu(v))
    chances = (p * is_relu.double() + (1.0 - p) * (~is_relu).double()).prod(dim=1)
    return chances @ theory.squared_error(W2, activations, y=y)


@cache
def every_mask(num_units: int) -> Tensor:
    """All choices of a branch for each unit, one a row."""
    return torch.tensor(list(product((True, False), repeat=num_units)))


def theorem_figure(left: np.ndarray, right: np.ndarray, *, penalty: np.ndarray, bound: np.ndarray) -> Figure:
    """Both sides, and the two penalties."""
    losses = (over_networks("aid", "loss under AID (left side)", left), over_networks("vanilla", "right side", right))
    penalties = (over_networks("aid", "exact penalty", penalty), over_networks("vanilla", "Theorem 1's penalty", bound))
    x_label = "p, the probability of the ReLU"
    return Figure(
        name="theorem_1",
        caption=f"Theorem 1 on {NUM_NETWORKS} random networks, their mean. The "
        "penalties are what the loss under AID, and the bound on it, lie above the loss under r_p.",
        panels=(
            Panel(title="Both sides of Theorem 1", x_label=x_label, y_label="squared error", curves=losses),
            Panel(title="The pull to a linear network", x_label=x_label, y_label="penalty", curves=penalties),
        ),
    )


def over_networks(method: str, label: str, values: np.ndarray) -> Estimate:
    """A mean over networks at each p; they differ so much that a band would hide that each obeys the theorem."""
    nowhere = np.full(len(PROBABILITIES), np.nan)
    return Estimate(
        method=method,
        label=label,
        x=np.array(PROBABILITIES),
        middle=values.mean(axis=0),
        low=nowhere,
        high=nowhere,
        n=len(values),
    )


def theorem_table(left: np.ndarray, right: np.ndarray, *, penalty: np.ndarray, bound: np.ndarray) -> Table:
    """Both sides and both penalties at some p."""
    columns = [PROBABILITIES.index(p) for p in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)]
    rows = tuple(
        (f"{PROBABILITIES[i]:g}", *(f"{side[:, i].mean():.3f}" for side in (left, right, penalty, bound)))
        for i in columns
    )
    return Table(
        name="theorem_1",
        caption=f"Theorem 1, means over {NUM_NETWORKS} random networks.",
        header=("p", "loss under AID", "right side", "exact penalty", "Theorem 1's penalty"),
        rows=rows,
    )


def theorem_1(left: np.ndarray, right: np.ndarray, *, penalty: np.ndarray, bound: np.ndarray) -> ClaimRow:
    """Is the left side never below the right, and does the penalty never shrink towards p = 1/2?"""
    margin = ((left - right) / np.maximum(left, 1.0)).min()
    nearer = np.argsort(-np.abs(np.array(PROBABILITIES) - 0.5), kind="stable")  # from both ends to the middle
    growth = min(float(smallest_step(side[:, nearer])) for side in (penalty, bound))
    holds = margin >= -ROUNDING and growth >= -ROUNDING
    return ClaimRow(
        measured=f"{margin:.3g}: smallest (left − right) / left (below 0 beyond rounding?); {growth:.3g}: smallest "
        f"relative change of the penalty from a p to one nearer to 1/2 (likewise?); {len(PROBABILITIES)} values of p",
        interval=None,
        n=len(left),
        verdict="holds" if holds else "fails",
        **words_of("theorem_1"),
    )


def smallest_step(penalties: np.ndarray) -> float:
    """The smallest change from one p to the next, over the largest penalty of the network."""
    return float((np.diff(penalties, axis=1) / penalties.max(axis=1, keepdims=True)).min())


# He initialisation.


def sampled_moments() -> tuple[np.ndarray, np.ndarray]:
    """E[AID(z)^2] / Var z and P(slope = 1) at each probability, from normal z that every p draws for itself."""
    generator = torch.Generator().manual_seed(0)
    moments, slopes = [], []
    for p in PROBABILITIES:
        z = torch.randn(NUM_NORMAL, generator=generator, dtype=torch.float64).requires_grad_()
        activation = SF.aid(z, p, training=True, generator=generator)
        (slope,) = torch.autograd.grad(activation.sum(), z)
        moments.append(activation.detach().square().mean().item())
        slopes.append(slope.mean().item())
    return np.array(moments), np.array(slopes)


# For normal z a fair half of the squares survives: Var = E[z^4] / 2 - 1/4; a slope is a fair coin.
MOMENT_ERROR = float(np.sqrt((3.0 / 2.0 - 1.0 / 4.0) / NUM_NORMAL))
SLOPE_ERROR = float(np.sqrt((1.0 / 4.0) / NUM_NORMAL))


def moments_figure(second_moments: np.ndarray, slopes: np.ndarray) -> Figure:
    """AID's moments over p beside the law, and what evaluation makes of them."""
    in_evaluation = np.array([theory.eval_second_moment(p, 1.0 - p) for p in PROBABILITIES])
    half = Level(label="He's law: 1/2", value=0.5)
    x_label = "p, the probability of the ReLU"
    squares = (
        sampled("aid", "AID in training", second_moments),
        sampled("identity", "r_p, in evaluation", in_evaluation),
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
    """Are moments and slopes a half, within five standard errors, at every p?"""
    furthest = max(np.abs(second_moments - 0.5).max() / MOMENT_ERROR, np.abs(slopes - 0.5).max() / SLOPE_ERROR)
    return ClaimRow(
        measured=f"{furthest:.1f} standard errors from 1/2 at the furthest (at most {NUM_ERRORS}?), over "
        f"{len(PROBABILITIES)} values of p with {NUM_NORMAL:,} draws each",
        interval=None,
        n=len(PROBABILITIES),
        verdict="holds" if furthest <= NUM_ERRORS else "fails",
        **words_of("he_moments"),
    )
