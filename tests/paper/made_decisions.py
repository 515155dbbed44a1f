"""Made decisions: what a study's claims come to on made-up runs, some of which diverged or have not begun.

python tests/paper/made_decisions.py writes decisions.json from the rules as they stand; rules that were only worded
anew must give the same again.
"""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from supple_lab.codec import encode
from supple_lab.paper.study import Study, StudyOptions
from supple_lab.registry import find
from supple_lab.results.results import Results, RunResult
from supple_lab.spec import RunSpec

FILE = Path(__file__).with_name("decisions.json")
SCALES = {  # of a study's made-up runs: as few stages as its rules can tell apart
    "trainability": "smoke",
    "trainability_metrics": "quick",
    "dropout_fails": "quick",
    "preactivation_shift": "paper",
    "warm_start": "paper",
    "continual_full": "paper",
    "continual_limited": "paper",
    "class_incremental": "quick",
    "generalizability_gap": "paper",
    "sensitivity": "paper",
    "supervised": "paper",
    "atari": "paper",
    "quickstart": "quick",
}
KINDS = ("clear", "noisy", "diverging", "partly run", "as claimed")
STEADY = ("aid", "drop_relu", "rrelu", "identity", "full_reset")  # methods that lose nothing in runs as claimed
ACCURACIES = ("test_accuracy", "train_accuracy", "online_accuracy", "learned_test_accuracy", "subnetwork_accuracy")
SHARES = ("saturated_share", "sign_entropy", "dormant_ratio")
Ends = tuple[float, float] | None
FIELDS = ("measured", "n", "verdict", "interval", "chance")


def decisions(study_name: str, kind: str, scale: str = "") -> list[list]:
    """What the claims of a study come to, in their order."""
    study, order = find(Study, study_name)(), StudyOptions(scale=scale or SCALES[study_name], num_seeds=4)
    also = StudyOptions(scale=order.scale, num_seeds=4, methods=("vanilla", "l2_init", "redo"))
    specs = [*study.specs(order), *(study.specs(also) if study_name == "continual_full" else ())]
    runs = {spec.run_id: made_run(spec, kind) for spec in specs}
    claims = study.draw(Results(tuple(runs.values())), order.whole(also)).claims
    return [[getattr(claim, name) for name in FIELDS] for claim in claims]


def made_run(spec: RunSpec, kind: str) -> RunResult:
    """A run whose numbers depend on its method and condition, its seed and the kind."""
    plain = replace(spec, precision="default")  # roundings make no difference here
    own = generator(kind, plain.run_id)
    if kind == "partly run" and own.random() < 0.15:
        return RunResult(spec=spec, state="waiting", seconds=0.0, reason="", records=())
    scenario = getattr(spec.problem, "scenario", None)
    number = scenario.num_stages if scenario is not None else min(spec.problem.num_iterations, 8)
    written = json.dumps(encode(replace(plain, seed=0)), sort_keys=True)  # without fields that came later
    group = generator(kind, written)
    noise = {"clear": 0.004, "noisy": 0.05}.get(kind, 0.01)
    ends = (0.9, 0.9 + 0.05 * (spec.method.name == "aid")) if spec.method.name in STEADY else (0.6, 0.3)
    given = ends if kind == "as claimed" else None
    values = {name: curve(group, own, number, noise, given) for name in (*ACCURACIES, *SHARES)}
    values |= {"score": 900.0 * values["test_accuracy"], "srank": 100.0 * values["sign_entropy"]}
    median = -3000.0 * group.random() * np.arange(number) / number
    values |= {f"preactivation_q{n + 1}": median + (n - 1) * (40.0 + own.random()) for n in range(3)}
    length = number
    if kind == "diverging" and own.random() < 0.25:
        length = int(own.integers(number))
    records = tuple({"stage": k} | {name: float(row[k]) for name, row in values.items()} for k in range(length))
    state = "done" if length == number else "diverged"
    epochs = tuple({**one, "epoch": 0} for one in records)
    return RunResult(spec=spec, state=state, seconds=1.0, reason="", records=records, read_epochs=lambda: epochs)


def curve(group: np.random.Generator, own: np.random.Generator, number: int, noise: float, given: Ends) -> np.ndarray:
    """A number at each stage, from one level to another; drawn, if they are not given."""
    ends = given or group.choice([0.2, 0.5, 0.7, 0.9, 0.93], size=2)
    return np.linspace(*ends, number) + noise * own.normal() + 0.2 * noise * own.normal(size=number)


def generator(*seeds: str) -> np.random.Generator:
    """The same random numbers for the same words."""
    return np.random.default_rng(int(hashlib.sha256("|".join(seeds).encode()).hexdigest()[:12], 16))


def main() -> None:
    """Write the file."""
    told = {f"{study}, {kind}": decisions(study, kind) for study in SCALES for kind in KINDS}
    rows = {case: ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in rows) for case, rows in told.items()}
    lines = ",\n".join(f" {json.dumps(case)}: [\n  {row}\n ]" for case, row in rows.items())
    FILE.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
