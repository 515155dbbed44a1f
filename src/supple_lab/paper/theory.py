"""Theory (section 4, appendix C): what AID computes, what it is pulled towards, its moments, and what it costs.

The cost is read from the file of `supple bench kernels` among the runs.
"""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from supple import functional as SF
from supple import theory
from supple_lab.paper import theorem
from supple_lab.paper.claims import Claim, Computed
from supple_lab.paper.findings import NOT_RUN, in_at_least
from supple_lab.paper.study import Condition, Study, StudyOptions
from supple_lab.paper.theorem import NUM_NETWORKS, NUM_UNITS, PROBABILITIES, ROUNDING
from supple_lab.report.figure import Figure, Finding, Level, Line, Panel, StudyReport, Verdict
from supple_lab.results.results import Results

FILE = "bench-kernels.json"
SMALLEST = 2**16  # values; below, a call takes longer than its work
BOTH_WAYS = ("forward + backward", "CUDA graph")  # in the title of a case: not the forward alone


def aid_costs_what_dropout_costs(folder: Path | None) -> Finding:
    """Does AID take at most as long as a ReLU and a Dropout, in every case of the benchmark in the folder?"""
    path = (folder or Path("OUT")) / FILE
    try:
        found = excesses_in(json.loads(path.read_bytes())["rows"])
    except FileNotFoundError:
        return replace(NOT_RUN, measured=f"not measured; supple bench kernels --json {path} does it")
    except (ValueError, KeyError, TypeError):
        return replace(NOT_RUN, measured=f"{path} is damaged; supple bench kernels --json {path} writes it again")
    if not found:
        return replace(NOT_RUN, measured=f"{path} has no case of 2^16 values or more, forward and backward")
    worst = max(found, key=lambda case: found[case][0])
    parts = {case: part for case, (_, part) in found.items()}
    num_holding = sum(part.verdict == "holds" for part in parts.values())
    return replace(
        in_at_least(len(parts), {case: replace(part, interval=None) for case, part in parts.items()}),
        measured=f"holds in {num_holding} of {len(parts)} cases (each?); AID minus ReLU and Dropout in times of "
        f"F.relu: {found[worst][0]:.2f} at most, in {worst}",
        interval=parts[worst].interval,
    )


def excesses_in(rows: list[dict[str, Any]]) -> dict[str, tuple[float, Finding]]:
    """How much longer each AID of each large case takes than ReLU and Dropout together, in times of F.relu.

    AID at most as slow holds if all of the interval, between the quartiles, says so, and fails if none of it does.
    """
    dropouts = {row["case"]: row for row in rows if row["candidate"] == "F.dropout"}
    found = {}
    for aid in rows:
        if aid["candidate"].startswith("AID") and (dropout := dropouts.get(aid["case"])) and counts(aid["case"]):
            low = aid["ratio_quartiles"][0] - 1.0 - dropout["ratio_quartiles"][1]
            high = aid["ratio_quartiles"][1] - 1.0 - dropout["ratio_quartiles"][0]
            verdict: Verdict = "holds" if high <= 0.0 else "fails" if low > 0.0 else "not decided"
            part = replace(NOT_RUN, verdict=verdict, n=aid["turns"], interval=(low, high))
            excess = aid["ratio"] - 1.0 - dropout["ratio"]
            said = f"{excess:.2f}: AID minus ReLU and Dropout, in times of F.relu (at most 0?)"
            part = replace(part, chance=float(verdict == "not decided"), measured=said)
            found[f"{aid['case']}, {aid['candidate']}"] = excess, part
    return found


def counts(case: str) -> bool:
    """Whether the case has enough values and goes both ways, by its title: '2^20, float32, forward + backward'."""
    size = case.replace(",", " ").split()[0]
    base, _, exponent = size.partition("^")
    num_values = int(base) ** int(exponent) if exponent else math.prod(map(int, size.split("x")))
    return num_values >= SMALLEST and any(words in case for words in BOTH_WAYS)


FIGURE_P = 0.9  # as the paper's experiments with random labels
NUM_NORMAL = 2**17  # numbers z for each p


class Parts(NamedTuple):
    """All that the claims are about, computed once."""

    folder: Path | None  # with the benchmark's file
    theorem: dict[str, np.ndarray]
    corollary: dict[str, np.ndarray]
    moments: tuple[np.ndarray, np.ndarray]


CLAIMS = (
    Claim(
        key="aid_costs_what_dropout_costs",
        section="4.3 Simplified Version of AID",
        paper="AID has the computational complexity of standard Dropout.",
        claim="AID takes no longer than ReLU and Dropout.",
        rule=Computed(
            "in each case of `supple bench kernels` with at least 2^16 values, forward and backward, over F.relu: AID "
            "at most 1 plus F.dropout, because it stands in for both. Turns stand for seeds, quartiles for the "
            "interval",
            lambda parts: aid_costs_what_dropout_costs(parts.folder),
        ),
    ),
    Claim(
        key="theorem_1",
        paper="For two layers the loss under AID is at least that under r_p plus 4p(1-p)/(n(2p-1)^2) R_p, a pull to "
        "the linear network that grows as p approaches 0.5.",
        claim="Check: Theorem 1's inequality holds, and its penalty grows towards p = 1/2.",
        rule=Computed(
            "on random networks and a grid of p, expectations exact: left side minus right side never below 0, and 0 "
            "for a single hidden unit, where it is an equality (beyond rounding); the penalty at p nearer to 1/2 never "
            "smaller than at p further away",
            lambda parts: theorem.theorem_1(**parts.theorem),
        ),
        is_check=True,
    ),
    Claim(
        key="dropout_has_no_such_pull",
        section="C.2 Effect of Theorem 1 for ReLU and Standard Dropout",
        paper="Dropout after ReLU does not regularize to a linear network: its penalty is at least p/(n(1-p)) times "
        "the squared output of the ReLU network, in which negative pre-activations have no part.",
        claim="Check: Dropout after ReLU lacks AID's pull to the linear network.",
        rule=Computed(
            "on random networks and a grid of p, expectations exact: Dropout's loss minus the corollary's right side "
            "never below 0, and 0 for a single hidden unit (beyond rounding). If all pre-activations are negative, "
            "Dropout adds nothing to the loss, though the network is not linear, and AID adds at least Theorem 1's "
            "penalty, above 0",
            lambda parts: theorem.dropout_has_no_pull(**parts.corollary),
        ),
        is_check=True,
    ),
    Claim(
        key="he_moments",
        paper="With He initialisation AID is as stable as ReLU: both leave half of the variance.",
        claim="Check: AID keeps He's moment law for every p: half of the second moment, half of the slopes.",
        rule=Computed(
            "E[AID(z)^2] / Var z and P(slope = 1) over a grid of p, for normal z, each with -z under the same mask: "
            "1/2, beyond rounding",
            lambda parts: he_moments(*parts.moments),
        ),
        is_check=True,
    ),
)


class Theory(Study):
    """The branches of AID, both sides of Theorem 1, and AID's moments."""

    name = "theory"
    title = "Theory: what AID computes, and what it is pulled towards"
    question = (
        "In training AID is a ReLU or a negative ReLU by chance, in evaluation their mean. Does Theorem 1 hold, that "
        "this pulls a network towards a linear one? Does He initialisation suit it? And what does it cost?"
    )
    section = "4.4 Theoretical Analysis"
    claims = CLAIMS
    measured = (FILE,)

    def conditions(self, order: StudyOptions) -> tuple[Condition, ...]:
        return ()

    def draw(self, results: Results, order: StudyOptions) -> StudyReport:
        networks = theorem.random_networks()
        sides: dict[str, theorem.Side] = {
            "left": theorem.enumerated_loss,
            "right": theory.aid_loss_bound,
            "penalty": theory.aid_penalty,
            "bound": theory.aid_penalty_bound,
        }
        both = {name: theorem.over_p(networks, side) for name, side in sides.items()}
        one_unit = theorem.distances_of_one_unit(theorem.enumerated_loss, theory.aid_loss_bound)
        corollary, moments = theorem.corollary_1(networks), sampled_moments()
        return StudyReport(
            figures=(
                branches_figure(),
                theorem.theorem_figure(**both),
                theorem.pull_figure(corollary["dropout"], corollary["aid"]),
                moments_figure(*moments),
            ),
            tables=(theorem.theorem_table(**both),),
            claims=self.decided(Parts(results.root, {**both, "one_unit": one_unit}, corollary, moments), order),
            notes=(
                "Nothing is trained, so that there is no protocol to be larger or smaller than: every scale computes "
                "the same numbers. Theorem 1's left side is the mean over all "
                f"{2**NUM_UNITS} masks of {NUM_NETWORKS} random networks with {NUM_UNITS} hidden units. At p = 1/2 the "
                "printed factor is 0/0; we take the form without it.",
            ),
        )


def branches_figure() -> Figure:
    """Figure 1."""
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
            curves=tuple(
                Line.over_seeds(method=method, label=label, x=x.numpy(), values=y.numpy()[None])
                for method, label, y in chosen
            ),
            y_range=(-2.1, 2.1),
        )
        for title, chosen in (("training", drawn[:2]), ("evaluation", drawn[2:]))
    )
    caption = f"AID with p = {FIGURE_P:g}, element by element (the paper's Figure 1)."
    return Figure(name="aid", caption=caption, panels=panels)


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
    in_evaluation = np.array([theory.eval_second_moment(p, 1.0 - p) for p in PROBABILITIES])

    def panel(title: str, y_label: str, by_label: dict[str, np.ndarray]) -> Panel:
        curves = (
            Line.over_seeds(method="aid", label=label, x=np.array(PROBABILITIES), values=values[None])
            for label, values in by_label.items()
        )
        return Panel(
            title=title,
            x_label="p, the probability of the ReLU",
            y_label=y_label,
            curves=tuple(curves),
            levels=(Level(label="He's law: 1/2", value=0.5),),
            y_range=(0.0, 0.6),
        )

    training, evaluation = "AID in training", "r_p, in evaluation"
    return Figure(
        name="he_moments",
        caption=f"Normal z, {NUM_NORMAL:,} draws for each p. He initialisation needs half of the second moment and "
        "half of the slopes in training. In evaluation r_p leaves less, which the paper does not discuss.",
        panels=(
            panel("Second moment", "E[f(z)²] / Var z", {training: second_moments, evaluation: in_evaluation}),
            panel("Slopes", "P(slope = 1)", {training: slopes}),
        ),
    )


def he_moments(second_moments: np.ndarray, slopes: np.ndarray) -> Finding:
    """Are moments and slopes a half at every p, to rounding?"""
    furthest = max(np.abs(second_moments - 0.5).max(), np.abs(slopes - 0.5).max())
    return Finding(
        measured=f"{furthest:.3g}: furthest from 1/2 (beyond rounding?), over {len(PROBABILITIES)} values of p with "
        f"{NUM_NORMAL:,} draws each, z and −z under one mask",
        interval=None,
        n=len(PROBABILITIES),
        verdict="holds" if furthest <= ROUNDING else "fails",
    )
