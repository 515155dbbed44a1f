"""The numbers of quickstart's curves, gathered from runs that measured what happens inside.

for METHOD in "vanilla" "dropout --method.drop-positive 0.2" "aid --method.relu-prob 0.95"; seeds 0, 1, 2:
    supple train --scenario random_label --scenario.num-stages 20 --scenario.epochs 40 --model.width 256 \\
        --optimizer.learning-rate 2e-3 --metrics dormant saturation --method METHOD --seed SEED --out OUT
python docs/making/quickstart_numbers.py OUT > docs/images/quickstart.json
"""

import json
import sys
from pathlib import Path

import torch

from supple_lab.provenance import machine

METHODS = ("vanilla", "dropout", "aid")
METRICS = ("train_accuracy", "dormant_ratio", "saturated_share")


def gathered(root: Path) -> dict[str, object]:
    """Each metric of each method, seeds by stages, with what the runs were."""
    runs = [read(folder) for folder in sorted((root / "runs").iterdir())]
    by_method = {name: sorted((r for r in runs if r[0] == name), key=lambda r: r[1]) for name in METHODS}
    series = {
        name: {metric: [[round(row[metric], 5) for row in rows] for _, _, rows in own] for metric in METRICS}
        for name, own in by_method.items()
    }
    about = {"torch": torch.__version__, "cpu": machine()["cpu"], "seeds": [seed for _, seed, _ in by_method["aid"]]}
    return {"about": about, "series": series}


def read(folder: Path) -> tuple[str, int, list[dict[str, float]]]:
    """Method, seed and records of one run."""
    spec = json.loads((folder / "spec.json").read_text())
    rows = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    return spec["method"]["kind"], spec["seed"], rows


if __name__ == "__main__":
    print(json.dumps(gathered(Path(sys.argv[1]))))
