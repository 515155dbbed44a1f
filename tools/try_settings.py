"""Tries the settings that docs/which_method.md advises against the defaults, on problems that chose neither.

    python tools/try_settings.py out/settings          # the short trial
    python tools/try_settings.py out/settings long     # the long one; the same command continues
    python tools/try_settings.py out/settings long 3   # a seed of it alone

Short: random labels of 256 digits, 20 draws of 20 epochs, an MLP of 3 x 256, Adam at torch's 1e-3: another network,
length and rate than the arena's. ReLU loses little there. Long: what a new user does. README's loop with torch's own
initialisation, 512 digits in batches of 32, 30 draws of labels of 25 epochs each, the same width and rate.

The score is the arena's, the mean accuracy of the later half of the stages, on seeds 0 to 4. The rule, set before the
runs: an advice stands if the 95% interval of its difference from the default by seed lies above 0, falls if it lies
below, else nothing is said.

The rule of defaults, set before the runs of the long trial and those of these methods at full scale (two problems of
AID were known): a default of the library becomes the advice if the advice stands in both trials, and if at full scale
at least two of three problems chose it, or a value nearer to it than to the default (by ratio; of AID's p, that of
1 - p). A method that is not at full scale keeps its default.
"""

import json
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from supple import attach, convert
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
PAPERS: dict[str, dict[str, Any]] = {  # the defaults until 17 November 2026, which are the paper's values
    **{name: {} for name in ("vanilla", "full_reset", "redo")},
    "aid": {"relu_prob": 0.9},
    "cbp": {"replacement_rate": 1e-3, "maturity": 100},
    "l2_init": {"strength": 1e-3},
    "shrink_perturb": {"shrink": 0.8, "clear_moments": False},
}
LONG: tuple[tuple[str, dict[str, Any]], ...] = (  # methods that a user takes first
    *PAPERS.items(),
    ("aid", {"relu_prob": 0.99}),
    ("cbp", {"replacement_rate": 1e-4}),  # what diagnose named; added after the others were run
    *((name, fields) for name, fields in ADVISED if name in PAPERS),
)
NUM_DIGITS, BATCH, NUM_EPOCHS, NUM_STAGES = 512, 32, 25, 30


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


def loop(method: Method, seed: int) -> list[float]:
    """Accuracy at the end of each stage, in a plain loop as in the README."""
    torch.manual_seed(seed)
    draws = torch.Generator().manual_seed(seed)
    pixels = torch.tensor(load_digits().data / 16, dtype=torch.float32)
    x = pixels[torch.randperm(len(pixels), generator=draws)[:NUM_DIGITS]]
    widths = [x.shape[1], 256, 256, 256]
    hidden = [part for ins, outs in pairwise(widths) for part in (nn.Linear(ins, outs), nn.ReLU())]
    network: nn.Module = nn.Sequential(*hidden, nn.Linear(widths[-1], 10))
    if not method.acts_in():
        network = convert(network, method.activation())
    optimizer = torch.optim.Adam(network.parameters())
    plasticity = attach(network, optimizer, method, example_input=x, loss=cross_entropy) if method.acts_in() else None
    found, before = list[float](), list[tuple[Tensor, Tensor]]()
    for _ in range(NUM_STAGES):
        y = torch.randint(10, (NUM_DIGITS,), generator=draws)
        data = list(zip(x.split(BATCH), y.split(BATCH), strict=True))
        if plasticity is not None and before:
            plasticity.end_stage(before)
            plasticity.begin_stage(data)
        network.train()
        for _ in range(NUM_EPOCHS):
            for batch in torch.randperm(NUM_DIGITS, generator=draws).split(BATCH):
                optimizer.zero_grad()
                cross_entropy(network(x[batch]), y[batch]).backward()
                optimizer.step()
        network.eval()
        with torch.no_grad():
            found.append(float((network(x).argmax(1) == y).float().mean()))
        before = data
    return found


def try_long(path: Path, seeds: Sequence[int]) -> None:
    """A line of the file for each run; the table if all have been run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = path.read_text().splitlines() if path.exists() else []
    done = {(row["method"], json.dumps(row["fields"]), row["seed"]) for row in map(json.loads, lines)}
    for seed in seeds:
        for name, fields in LONG:
            if (name, json.dumps(fields), seed) not in done:
                accuracy = loop(registry.find(Method, name)(**fields), seed)
                row = {"method": name, "fields": fields, "seed": seed, "accuracy": [round(one, 4) for one in accuracy]}
                with path.open("a") as file:
                    print(json.dumps(row), file=file)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    if len(rows) < NUM_SEEDS * len(LONG):
        return
    print("| | last stage | later half | minus the default |\n|---|---|---|---|")
    for name, fields in LONG:
        own, default = (accuracies(rows, name, wanted) for wanted in (fields, PAPERS[name]))
        last, later, less = own[:, -1], later_half(own), later_half(own) - later_half(default)
        low, high = mean_interval(less) or (0.0, 0.0)
        words = ", ".join(f"{field} {value}" for field, value in fields.items())
        gain = f"{less.mean():+.3f} [{low:+.3f}, {high:+.3f}]" if fields != PAPERS[name] else ""
        print(
            f"| `{name}` {words} | {last.mean():.3f} ± {last.std(ddof=1):.3f} | {later.mean():.3f} ± "
            f"{later.std(ddof=1):.3f} | {gain} |"
        )


def accuracies(rows: Sequence[dict[str, Any]], name: str, fields: dict[str, Any]) -> np.ndarray:
    """A row for each seed, in the order of the seeds: a run that was continued wrote its lines in another."""
    own = [row for row in rows if row["method"] == name and row["fields"] == fields]
    return np.array([row["accuracy"] for row in sorted(own, key=lambda row: row["seed"])])


def later_half(accuracy: np.ndarray) -> np.ndarray:
    found: np.ndarray = accuracy[:, NUM_STAGES // 2 :].mean(axis=1)
    return found


def main() -> None:
    torch.set_num_threads(1)
    if "long" in sys.argv[2:]:
        try_long(Path(sys.argv[1]) / "long.jsonl", [int(seed) for seed in sys.argv[3:]] or range(NUM_SEEDS))
        return
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
