"""Golden file: what a redesign must not move. Run ids of studies, records of small runs, claims of published reports.

    PYTHONPATH=tests python tools/golden.py   # writes tests/golden.json; tests/test_golden.py compares
    PYTHONPATH=tests python tools/golden.py --claims    # those of the claims alone, after a report was published
    PYTHONPATH=tests python tools/golden.py --run-ids   # those of runs alone, after a study was meant to change

Records are compared byte by byte on the processor that wrote the file, to 1e-6 on others.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from small_games import chain_spec
from small_runs import SMALL_SCENARIOS, small_scenario_spec, small_spec, small_text_spec
from supple.methods import CBP, ReDo, UseAID
from supple.methods.base import Method
from supple_lab import registry
from supple_lab.optimizer import SGD
from supple_lab.paper.study import Study, StudyOptions
from supple_lab.provenance import cpu_name
from supple_lab.run.run import execute
from supple_lab.spec import RunSpec, in_stages
from supple_lab.store.store import Store

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "tests/golden.json"
ON_CHAIN = ("vanilla", "aid", "dropout", "cbp", "redo", "l2_init", "shrink_perturb", "full_reset")
ON_IMAGES = ("aid", "rrelu", "crelu", "cbp", "redo", "dash")  # smoke scale of continual full: convolutions
OF_A_CLAIM = ("claim", "paper", "measured", "interval", "n", "verdict", "chance")


def grids() -> Iterator[tuple[str, StudyOptions]]:
    """Every grid of runs that a command can ask for, under a name."""
    for name, study in registry.known(Study).items():  # type: ignore[type-abstract]
        for scale in study.scales:
            for search in (False, True)[name == "why_aid" :]:  # its other settings are chosen by runs
                for as_printed in (False, True):
                    order = StudyOptions(scale=scale, search=search, as_printed=as_printed)
                    yield f"{name} {scale}{' search' * search}{' as printed' * as_printed}", order


def run_ids() -> dict[str, dict[str, str]]:
    """For each grid and method the number of runs and the digest of their sorted ids."""
    found: dict[str, dict[str, list[str]]] = {}
    for grid, order in grids():
        for spec in registry.find(Study, grid.split()[0])().specs(order):  # type: ignore[type-abstract]
            found.setdefault(grid, {}).setdefault(spec.method.name, []).append(spec.run_id)
    return {
        grid: {method: f"{len(ids)} {digest(sorted(ids))}" for method, ids in methods.items()}
        for grid, methods in found.items()
    }


def small_runs() -> dict[str, RunSpec]:
    methods = registry.known(Method)  # type: ignore[type-abstract]
    study = registry.find(Study, "continual_full")()  # type: ignore[type-abstract]
    images = study.specs(StudyOptions(scale="smoke", methods=ON_IMAGES, only="resnet"))
    return {
        **{f"random labels {name}": small_spec(in_stages(cls)) for name, cls in methods.items()},
        **{f"{scenario.name} aid": small_scenario_spec(scenario, UseAID()) for scenario in SMALL_SCENARIOS},
        **{f"chain {name}": chain_spec(methods[name]()) for name in ON_CHAIN},
        **{f"images {spec.method.name}": spec for spec in images},
        "language model aid": small_text_spec(UseAID()),
        "busy cbp": small_spec(CBP(replacement_rate=0.05, maturity=3)),
        "busy redo": small_spec(ReDo(threshold=0.5)),
        "sgd redo": small_spec(ReDo(), optimizer=SGD(learning_rate=0.1)),
    }


def records_of(spec: RunSpec) -> list[dict[str, Any]]:
    """What the run writes into its log."""
    with TemporaryDirectory() as folder:
        store = Store.create(Path(folder))
        state = execute(spec, store)
        lines = (store.folder(spec).path / "records.jsonl").read_text().splitlines()
    assert state in ("done", "diverged"), state
    return [json.loads(line) for line in lines]


def published_claims() -> dict[str, str]:
    """For each published report the digest of its claims."""
    reports = sorted(path for path in (ROOT / "docs/results").glob("*/*.json") if path.stem == path.parent.name)
    claims = {path.stem: json.loads(path.read_bytes())["claims"] for path in reports}
    return {
        name: digest([{key: claim.get(key) for key in OF_A_CLAIM} for claim in decided])
        for name, decided in claims.items()
    }


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def processor() -> str:
    """The processor's name, family and model: one name is given to several, which round differently."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    found = dict(line.replace("\t", "").split(":", 1) for line in lines if line.startswith(("cpu family", "model\t")))
    return f"{cpu_name()}{''.join(f', {name}{number}' for name, number in found.items())}"


def main() -> None:
    if sys.argv[1:]:
        made = {"--claims": published_claims, "--run-ids": run_ids}[sys.argv[1]]()
        golden = json.loads(FILE.read_text()) | {sys.argv[1].strip("-").replace("-", "_"): made}
        FILE.write_text(json.dumps(golden, indent=0, sort_keys=True) + "\n")
        return
    records = {}
    for name, spec in small_runs().items():
        records[name] = records_of(spec)
        print(name, digest(records[name]), flush=True)
    golden = {"cpu": processor(), "run_ids": run_ids(), "claims": published_claims(), "records": records}
    FILE.write_text(json.dumps(golden, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
