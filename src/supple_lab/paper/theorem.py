"""Theorem 1 and Corollary 1 (section 4.4, appendix C): both sides on random networks, all masks enumerated."""

from collections.abc import Callable
from functools import cache
from inspect import signature
from itertools import product

import numpy as np
import torch
from torch import Tensor

from supple import theory
from supple_lab.report.figure import Figure, Finding, Line, Panel, Table

PROBABILITIES = tuple(round(0.05 * step, 2) for step in range(21))
RATES = PROBABILITIES[1:-1]  # of Dropout; at 0 and 1 there is nothing to draw
NUM_NETWORKS = 20
NUM_UNITS = 8  # so few that the expectation over all 2^8 masks is exact
ROUNDING = 1e-9  # relative; float64 is exact to 1e-13 over such sums

Network = dict[str, Tensor]
Side = Callable[..., Tensor]


def random_networks(num_units: int = NUM_UNITS) -> list[Network]:
    """Weights, input and target of two-layer networks with so many hidden units, the same every time."""
    generator = torch.Generator().manual_seed(0)
    shapes = {"W1": (num_units, NUM_UNITS), "W2": (NUM_UNITS, num_units), "x": (NUM_UNITS,), "y": (NUM_UNITS,)}
    return [
        {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}
        for _ in range(NUM_NETWORKS)
    ]


def over_p(networks: list[Network], side: Side, *, probabilities: tuple[float, ...] = PROBABILITIES) -> np.ndarray:
    """A loss or a penalty of each network at each probability; a penalty takes no target."""
    taken = signature(side).parameters
    inputs = [{name: part for name, part in network.items() if name in taken} for network in networks]
    return np.array([[float(side(**own, p=p)) for p in probabilities] for own in inputs])


def distances_of_one_unit(left: Side, right: Side, *, probabilities: tuple[float, ...] = PROBABILITIES) -> np.ndarray:
    """|left - right| / left for networks with one hidden unit, where both inequalities are equalities.

    Cauchy and Schwarz lose nothing over a single unit, so an error on either side shows here, whatever its sign.
    """
    sides = [over_p(random_networks(1), side, probabilities=probabilities) for side in (left, right)]
    return np.abs(sides[0] - sides[1]) / np.maximum(sides[0], 1.0)


def corollary_1(networks: list[Network]) -> dict[str, np.ndarray]:
    """Both sides of Corollary 1, and what Dropout and AID add to the loss if all pre-activations are negative."""
    negative = [made_negative(network) for network in networks]
    left, right = (over_p(networks, side, probabilities=RATES) for side in (enumerated_dropout_loss, dropout_bound))
    dropout, aid, bound = (
        over_p(negative, side, probabilities=RATES) for side in (pull_of_dropout, pull_of_aid, theory.aid_penalty_bound)
    )
    one_unit = distances_of_one_unit(enumerated_dropout_loss, dropout_bound, probabilities=RATES)
    return {"left": left, "right": right, "dropout": dropout, "aid": aid, "bound": bound, "one_unit": one_unit}


def enumerated_loss(W1: Tensor, W2: Tensor, *, x: Tensor, y: Tensor, p: float) -> Tensor:
    """E||W2 AID_p(W1 x) - y||^2 without any algebra: every mask with its probability."""
    v = theory.preactivation(W1, x)
    is_relu = every_mask(len(v))
    activations = torch.where(is_relu, torch.relu(v), theory.negative_relu(v))
    chances = (p * is_relu.double() + (1.0 - p) * (~is_relu).double()).prod(dim=1)
    return chances @ theory.squared_error(W2, activations, y=y)


def enumerated_dropout_loss(W1: Tensor, W2: Tensor, *, x: Tensor, y: Tensor, p: float) -> Tensor:
    """E||W2 Dropout(relu(W1 x)) - y||^2 at drop rate p, every mask with its probability."""
    v = theory.preactivation(W1, x)
    is_kept = every_mask(len(v))
    chances = ((1.0 - p) * is_kept.double() + p * (~is_kept).double()).prod(dim=1)
    return chances @ theory.squared_error(W2, is_kept * torch.relu(v) / (1.0 - p), y=y)


def dropout_bound(W1: Tensor, W2: Tensor, *, x: Tensor, y: Tensor, p: float) -> Tensor:
    """The right side of Corollary 1: the ReLU network's loss plus the bound on Dropout's penalty."""
    bound = theory.dropout_penalty_bound(W1, W2, x=x, drop_positive=p)
    return theory.mean_network_loss(W1, W2, x=x, y=y, p=1.0) + bound


def pull_of_dropout(W1: Tensor, W2: Tensor, *, x: Tensor, y: Tensor, p: float) -> Tensor:
    """What Dropout at drop rate p adds to the loss of the ReLU network."""
    return enumerated_dropout_loss(W1, W2, x=x, y=y, p=p) - theory.mean_network_loss(W1, W2, x=x, y=y, p=1.0)


def pull_of_aid(W1: Tensor, W2: Tensor, *, x: Tensor, y: Tensor, p: float) -> Tensor:
    """What AID that drops positive values at rate p adds to the loss under its mean, r_{1-p}."""
    kept = 1.0 - p
    return enumerated_loss(W1, W2, x=x, y=y, p=kept) - theory.mean_network_loss(W1, W2, x=x, y=y, p=kept)


def made_negative(network: Network) -> Network:
    """The same network with every pre-activation below zero: rows of W1 change their sign."""
    signs = theory.preactivation(network["W1"], network["x"]).sign()
    return {**network, "W1": -signs[:, None] * network["W1"]}


@cache
def every_mask(num_units: int) -> Tensor:
    """All choices of a branch for each unit, one a row."""
    return torch.tensor(list(product((True, False), repeat=num_units)))


def over_networks(method: str, label: str, values: np.ndarray, *, x: tuple[float, ...] = PROBABILITIES) -> Line:
    """A mean over networks at each p; they differ so much that a band would hide that each obeys the theorem."""
    middle, nowhere = values.mean(axis=0), np.full(len(x), np.nan)
    return Line(method=method, label=label, x=np.array(x), middle=middle, low=nowhere, high=nowhere, n=len(values))


def theorem_figure(left: np.ndarray, right: np.ndarray, *, penalty: np.ndarray, bound: np.ndarray) -> Figure:
    losses = (over_networks("aid", "loss under AID (left side)", left), over_networks("aid", "right side", right))
    penalties = (over_networks("aid", "exact penalty", penalty), over_networks("aid", "Theorem 1's penalty", bound))
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


def theorem_table(left: np.ndarray, right: np.ndarray, *, penalty: np.ndarray, bound: np.ndarray) -> Table:
    columns = [PROBABILITIES.index(p) for p in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)]
    return Table(
        name="theorem_1",
        caption=f"Theorem 1, means over {NUM_NETWORKS} random networks.",
        header=("p", "loss under AID", "right side", "exact penalty", "Theorem 1's penalty"),
        rows=tuple(
            (f"{PROBABILITIES[i]:g}", *(f"{side[:, i].mean():.3f}" for side in (left, right, penalty, bound)))
            for i in columns
        ),
    )


def theorem_1(
    left: np.ndarray, right: np.ndarray, *, penalty: np.ndarray, bound: np.ndarray, one_unit: np.ndarray
) -> Finding:
    """Is the left side never below the right, equal for one unit, and does the penalty never shrink towards 1/2?"""
    margin = ((left - right) / np.maximum(left, 1.0)).min()
    nearer = np.argsort(-np.abs(np.array(PROBABILITIES) - 0.5), kind="stable")  # from both ends to the middle
    steps = (np.diff(side[:, nearer], axis=1) / side.max(axis=1, keepdims=True) for side in (penalty, bound))
    growth = min(float(step.min()) for step in steps)  # over the largest penalty of the network
    holds = margin >= -ROUNDING and growth >= -ROUNDING and one_unit.max() <= ROUNDING
    return Finding(
        measured=f"{margin:.3g}: smallest (left − right) / left (below 0 beyond rounding?); {one_unit.max():.3g}: "
        f"largest distance of both for one hidden unit (beyond rounding?); {growth:.3g}: smallest "
        f"relative change of the penalty from a p to one nearer to 1/2 (likewise?); {len(PROBABILITIES)} values of p",
        interval=None,
        n=len(left),
        verdict="holds" if holds else "fails",
    )


def pull_figure(dropout: np.ndarray, aid: np.ndarray) -> Figure:
    curves = (
        over_networks("aid", "AID, 1 − p = drop rate", aid, x=RATES),
        over_networks("dropout", "Dropout after ReLU", dropout, x=RATES),
    )
    panel = Panel(
        title="All pre-activations negative", x_label="drop rate of positive values", y_label="penalty", curves=curves
    )
    caption = (
        f"Corollary 1 on the same {NUM_NETWORKS} networks with all pre-activations made negative, where a ReLU network "
        "lets nothing pass: what the masks add to the loss, by enumeration."
    )
    return Figure(name="corollary_1", caption=caption, panels=(panel,))


def dropout_has_no_pull(
    left: np.ndarray,
    right: np.ndarray,
    *,
    dropout: np.ndarray,
    aid: np.ndarray,
    bound: np.ndarray,
    one_unit: np.ndarray,
) -> Finding:
    """Does Corollary 1's inequality hold, and if all is negative, does Dropout add nothing while AID pulls?"""
    margin = ((left - right) / np.maximum(left, 1.0)).min()
    added = (np.abs(dropout) / np.maximum(bound, 1.0)).max()
    excess, least = ((aid - bound) / np.maximum(aid, 1.0)).min(), bound.min()
    inequality = margin >= -ROUNDING and one_unit.max() <= ROUNDING
    holds = inequality and added <= ROUNDING and excess >= -ROUNDING and least > ROUNDING
    return Finding(
        measured=f"{margin:.3g}: smallest (left − right) / left (below 0 beyond rounding?); {one_unit.max():.3g}: "
        "largest distance of both for one hidden unit (beyond rounding?); with all pre-activations "
        f"negative, {added:.3g}: the most that Dropout adds (beyond rounding?); {least:.3g}: the least that AID must "
        f"add by Theorem 1 (above 0?), {aid.min():.3g}: that it does; {len(RATES)} drop rates",
        interval=None,
        n=len(left),
        verdict="holds" if holds else "fails",
    )
