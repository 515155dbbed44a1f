"""How long a large store takes to list and to report: a study's whole search over many seeds, made up, not trained.

python tools/large_store.py [NUM_RUNS]   # 10,000 unless told; seconds of each step
"""

import json
import math
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from supple_lab.paper.continual import ContinualFull
from supple_lab.paper.manifest import add_to_manifest, read_manifest
from supple_lab.paper.study import StudyOptions
from supple_lab.report.study_json import ReportInfo
from supple_lab.report.write import write_report
from supple_lab.results.load import load_results
from supple_lab.spec import RunSpec
from supple_lab.store.reading import digests
from supple_lab.store.run_folder import line_of
from supple_lab.store.store import Store

METRICS = ("train_accuracy", "train_loss", "test_accuracy", "test_loss", "online_accuracy", "online_loss")
T = TypeVar("T")


def main(num_runs: int) -> None:
    study = ContinualFull()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        store = timed("make the store", lambda: made_store(out, num_runs))
        timed("list", store.runs)
        manifest = timed("report: read the order", lambda: read_manifest(out, study.name))
        specs = timed("report: name the runs", lambda: study.specs(manifest.order))
        results = timed("report: read and verify the runs", lambda: load_results(store, specs))
        drawing = timed("report: select and draw", lambda: study.draw(results, manifest.order))
        info = ReportInfo(study=study.name, title=study.title, question="", scale="paper", command="made up")
        timed("report: write", lambda: write_report(out / "report", info, results=results, report=drawing))


def timed(step: str, work: Callable[[], T]) -> T:
    started = time.perf_counter()
    result = work()
    print(f"{step}: {time.perf_counter() - started:.2f} s", flush=True)
    return result


def made_store(out: Path, num_runs: int) -> Store:
    """A store that holds the study's search with as many seeds as it takes, every run finished."""
    study, numbers = ContinualFull(), random.Random(0)
    one_seed = StudyOptions(scale="paper", search=True, num_seeds=1)
    order = StudyOptions(scale="paper", search=True, num_seeds=math.ceil(num_runs / len(study.specs(one_seed))))
    specs, store = study.specs(order)[:num_runs], Store.create(out)
    for spec in specs:
        make_run(store.folder(spec).path, spec, numbers)
    add_to_manifest(out, study.name, order=order, command="made up", specs=specs)
    return store


def make_run(folder: Path, spec: RunSpec, numbers: random.Random) -> None:
    """The files of a finished run. (RunFolder's own writing waits for the disk, four times a run.)"""
    stages = range(spec.problem.scenario.num_stages)
    records = [{"stage": stage, **{metric: numbers.random() for metric in METRICS}} for stage in stages]
    folder.mkdir()
    (folder / "spec.json").write_text(json.dumps(spec.to_dict(), indent=2, sort_keys=True))
    (folder / "records.jsonl").write_bytes(b"".join(map(line_of, records)))
    (folder / "epochs.jsonl").write_bytes(b"".join(line_of({**record, "epoch": 0}) for record in records))
    status = {"state": "done", "progress": 1.0, "num_records": len(records), "seconds": 60.0, "device": "cpu"}
    (folder / "status.json").write_text(json.dumps({**status, "digests": digests(folder)}, indent=2))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
