"""How long a large store takes to list and to report: a study's whole search over many seeds, made up, not trained."""

import json
import math
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from supple_lab.paper.continual import ContinualFull
from supple_lab.paper.manifest import add_to_manifest, read_manifest
from supple_lab.paper.study import Study, StudyOptions
from supple_lab.report.study_json import ReportInfo
from supple_lab.report.write import write_report
from supple_lab.results.load import load_results
from supple_lab.spec import RunSpec, Supervised
from supple_lab.store.reading import Record, digests
from supple_lab.store.run_folder import RunFolder, line_of
from supple_lab.store.store import Store

NUM_RUNS = 10_000
METRICS = ("train_accuracy", "train_loss", "test_accuracy", "test_loss", "online_accuracy", "online_loss")

T = TypeVar("T")


@dataclass(frozen=True)
class ReportRow:
    """One thing that is done with a store."""

    step: str
    runs: int
    seconds: float


def bench_report(*, num_runs: int = NUM_RUNS) -> Iterator[ReportRow]:
    """Make a store of so many finished runs, then time what the commands list and report do with it."""
    study = ContinualFull()

    def timed(step: str, work: Callable[[], T]) -> tuple[T, ReportRow]:
        started = time.perf_counter()
        result = work()
        return result, ReportRow(step, num_runs, time.perf_counter() - started)

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        store, row = timed("make the store (no part of the product)", lambda: made_store(out, study, num_runs))
        yield row
        yield timed("list", store.runs)[1]
        manifest, row = timed("report: read the order", lambda: read_manifest(out, study.name))
        yield row
        specs, row = timed("report: name the runs", lambda: study.specs(manifest.order))
        yield row
        results, row = timed("report: read and verify the runs", lambda: load_results(store, specs))
        yield row
        drawing, row = timed("report: select and draw", lambda: study.draw(results, manifest.order))
        yield row
        info = ReportInfo(study=study.name, title=study.title, question="", scale="paper", command="supple bench")
        write = partial(write_report, out / "report", info, results=results, report=drawing)
        yield timed("report: write page, figures, tables, JSON", write)[1]


def made_store(out: Path, study: Study, num_runs: int) -> Store:
    """A store that holds the study's search with as many seeds as it takes, every run finished."""
    num_each_seed = len(study.specs(StudyOptions(scale="paper", search=True, num_seeds=1)))
    order = StudyOptions(scale="paper", search=True, num_seeds=math.ceil(num_runs / num_each_seed))
    specs = study.specs(order)[:num_runs]
    store, random_numbers = Store.create(out), random.Random(0)
    for spec in specs:
        make_run(store.folder(spec), spec, random_numbers)
    add_to_manifest(out, study.name, order=order, command="supple bench report", specs=specs)
    return store


def make_run(folder: RunFolder, spec: RunSpec, random_numbers: random.Random) -> None:
    """The files of a finished run. (RunFolder's own writing waits for the disk, four times a run.)"""
    records = list(made_records(spec, random_numbers))
    folder.path.mkdir()
    (folder.path / "spec.json").write_text(json.dumps(spec.to_dict(), indent=2, sort_keys=True))
    folder.stage_log.path.write_bytes(b"".join(map(line_of, records)))
    folder.epoch_log.path.write_bytes(b"".join(line_of({**record, "epoch": 0}) for record in records))
    status = {"state": "done", "progress": 1.0, "num_records": len(records), "seconds": 60.0, "device": "cpu"}
    content = {**status, "accuracy": records[-1]["test_accuracy"], "digests": digests(folder.path)}
    (folder.path / "status.json").write_text(json.dumps(content, indent=2))


def made_records(spec: RunSpec, random_numbers: random.Random) -> Iterator[Record]:
    """A record for each stage, with what a supervised run measures at least."""
    assert isinstance(spec.problem, Supervised)
    for stage in range(spec.problem.scenario.num_stages):
        yield {"stage": stage, **{metric: random_numbers.random() for metric in METRICS}}
