"""Tries the settings that docs/which_method.md advises against the defaults, on a problem that chose neither.

    python tools/try_settings.py out/settings

Random labels of 256 digits, 20 draws of 20 epochs, an MLP of 3 x 256, Adam at torch's 1e-3: another network, length and
rate than the arena's. The score is the arena's, the mean accuracy of the later half of the stages, on seeds 0 to 4. The
rule, set before the runs: an advice stands if the 95% interval of its difference from the default by seed lies above 0,
falls if it lies below, else nothing is said.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from supple.methods.base import Method
from supple_lab import registry
from supple_lab.data.digits import Digits
from supple_lab.models.mlp import MLP
from supple_lab.optimizer import Adam
from supple_lab.results.intervals import mean_interval
from supple_lab.run.run import execute
from supple_lab.scenarios.random_label import RandomLabel
from supple_lab.spec import RunSpec, Supervised, in_stages
from supple_lab.store.reading import read_run
from supple_lab.store.store import Store

ADVISED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("shrink_perturb", {"shrink": 0.6, "clear_moments": True}),
    ("leaky_relu", {"slope": 0.2}),
    ("smooth_leaky", {"slope": 0.3}),
    ("rrelu", {"upper_slope": 0.33}),
    ("dropout", {"drop_positive": 0.02}),
    ("leaky_dropout", {"drop": 0.05}),
    ("head_reset", {"layers": 2}),
    ("snr", {"rejection_rate": 0.006}),
    ("adamo", {"strength": 0.1}),
    ("upgd", {"beta": 0.9}),
    ("cpr", {"sharpness": 4.0}),
    ("hare_tortoise", {"momentum": 0.95, "every": 100}),
    ("dash", {"alpha": 0.4, "floor": 0.7}),
    ("cbp", {"replacement_rate": 2e-3, "maturity": 10}),
    ("l2_init", {"strength": 2e-2}),
)
BESIDE = ("vanilla", "full_reset", "aid", "crelu", "redo")  # at their defaults
NUM_SEEDS = 5


def scores(store: Store, method: Method) -> np.ndarray:
    """A number a seed; a run that diverged is at chance."""
    found = []
    for seed in range(NUM_SEEDS):
        problem = Supervised(scenario=RandomLabel(num_stages=20, epochs=20, num_images=256), dataset=Digits())
        spec = RunSpec(
            problem=problem, model=MLP(width=256), method=method, optimizer=Adam(learning_rate=1e-3), seed=seed
        )
        state = execute(spec, store, device="cpu")
        records = read_run(store.folder(spec).path).records
        later = [record["train_accuracy"] for record in records[len(records) // 2 :]]
        found.append(float(np.mean(later)) if state == "done" else 0.1)
    return np.array(found)


def main() -> None:
    torch.set_num_threads(1)
    store = Store.create(Path(sys.argv[1]))
    print("| | default | advised | difference |\n|---|---|---|---|", flush=True)
    for name in BESIDE:
        own = scores(store, registry.find(Method, name)())
        print(f"| `{name}` | {own.mean():.2f} ± {own.std(ddof=1):.2f} | | |", flush=True)
    for name, fields in ADVISED:
        cls = registry.find(Method, name)
        default, advised = scores(store, in_stages(cls)), scores(store, in_stages(cls, **fields))
        low, high = mean_interval(advised - default) or (0.0, 0.0)
        words = ", ".join(f"{field} {value}" for field, value in fields.items())
        print(
            f"| `{name}`: {words} | {default.mean():.2f} ± {default.std(ddof=1):.2f} | {advised.mean():.2f} ± "
            f"{advised.std(ddof=1):.2f} | {(advised - default).mean():+.2f} [{low:+.2f}, {high:+.2f}] |",
            flush=True,
        )


if __name__ == "__main__":
    main()
