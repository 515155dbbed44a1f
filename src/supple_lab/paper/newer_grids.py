"""Grids of the methods that the paper does not compare, as their own papers searched them or name their settings.

    supple run trainability --search --methods snr upgd regrama    # each setting, with each optimizer of the study

A method without values has nothing to search but the optimizers. Where its paper gives no grid, ours says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from supple.methods import UPGD, Method
from supple_lab import registry
from supple_lab.optimizer import SGD
from supple_lab.paper.tables import Setting
from supple_lab.spec import Problem, Supervised, in_stages

Axes = Mapping[str, tuple[Any, ...]]  # by field
EPOCHS = "every"  # in the grids below it counts epochs; the method's field counts steps

P = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)  # AID's
UNTUNED = (
    *("fire", "nap", "trac", "fresh_optimizer", "prelu"),
    *("random_smooth_leaky", "elu", "celu", "gelu", "silu", "rational"),
)
GRIDS: Mapping[str, Axes] = {
    "snr": {"rejection_rate": (0.08, 0.04, 0.02, 0.01, 0.005, 0.0025, 0.00125)},
    "upgd": {
        "beta": (0.9, 0.99, 0.999, 0.9999),
        "sigma": (0.001, 0.01, 0.1, 1.0),
        "weight_decay": (0.0, 1e-4, 1e-3, 1e-2, 1e-1),
    },
    # Both act between the stages of a study, where their authors act every 1,000 steps.
    "regrama": {"threshold": (0.0, 0.005, 0.01, 0.025, 0.1)},
    "cpr": {"rate": (0.005, 0.015, 0.05), "sharpness": (4.0, 16.0)},
    "l2_er": {"strength": (1e-3, 1e-4, 1e-5), "rank_rate": (1e-2, 1e-3, 1e-4)},
    "parseval": {"strength": (1e-5, 1e-4, 1e-3, 1e-2)},
    "adamo": {"strength": (1e-4, 1e-3, 1e-2, 1e-1)},  # ours: its strengths are not known
    "weight_clipping": {"kappa": (1.0, 2.0, 3.0, 4.0, 5.0), "clip_output": (True, False)},
    "spectral": {"strength": (1e-2, 1e-3, 1e-4)},
    "wasserstein_init": {"strength": (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)},  # L2 Init's in the AID paper
    "hare_tortoise": {"momentum": (0.99, 0.999, 0.9999), EPOCHS: (5, 10, 20)},
    "c_chain": {"beta": (0.01, 0.05, 0.1)},
    "head_reset": {"layers": (1, 2)},  # ours
    "leaky_relu": {"slope": (0.01, 0.1, 0.3)},
    "smooth_leaky": {"slope": (0.1,)},
    "layer_norm": {"affine": (False, True)},  # ours
    **{name: {"relu_prob": P} for name in ("aid_mean", "aid_gauss", "aid_per_unit", "layer_norm_aid")},
    "leaky_dropout": {"slope": (0.01, 0.1, 0.3), "drop": (0.01, 0.1, 0.3, 0.5)},  # ours
    "decoupled_decay": {"strength": (1e-1, 1e-2, 1e-3, 1e-4)},  # ours
    "equal_betas": {"beta": (0.9, 0.99, 0.999)},  # ours
    **{name: {} for name in UNTUNED},
}


def searched(name: str, rows: Sequence[Setting], problem: Problem) -> list[Setting]:
    """The method's grid with each optimizer of the rows; nothing if it has none, or rows of its own.

    UPGD's plain form is the authors' with SGD, its adaptive form with others.
    """
    if name not in GRIDS or any(row.method.name == name for row in rows):
        return []
    optimizers = dict.fromkeys(row.optimizer for row in rows)
    return [
        Setting(replace(method, adaptive=not isinstance(own, SGD)) if isinstance(method, UPGD) else method, own)
        for method in grid_of(name, steps_per_epoch=last_epoch(problem))
        for own in optimizers
    ]


def grid_of(name: str, *, steps_per_epoch: int) -> list[Method]:
    """The method at every combination of its values, the last axis fastest."""
    cls: type[Method] = registry.find(Method, name)
    axes = GRIDS[name]
    fields = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    for content in fields:
        if EPOCHS in content:
            content[EPOCHS] *= steps_per_epoch
    return [in_stages(cls, **content) for content in fields]


def last_epoch(problem: Problem) -> int:
    """How many steps an epoch of the last stage has; games have none, and 200 gives 1,000 to 4,000 steps."""
    if not isinstance(problem, Supervised):
        return 200
    scenario = problem.scenario
    return scenario.size(scenario.num_stages - 1, problem.dataset.facts).steps_per_epoch
