"""Load: what a store has of the runs that a study asked for. Damaged runs are listed, not averaged."""

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

from supple_lab.results.results import Results, RunResult
from supple_lab.spec import RunSpec
from supple_lab.store.reading import read_epochs, read_run
from supple_lab.store.store import Store

FACTS = ("hardware", "precision", "not_captured", "versions", "commit")
NO_LABELS: Mapping[str, str] = MappingProxyType({})


def load_results(
    store: Store,
    specs: Iterable[RunSpec],
    *,
    conditions: Mapping[str, str] = NO_LABELS,
    methods: Mapping[str, str] = NO_LABELS,
) -> Results:
    """Read what the store has of each spec, once even if it is named twice.

    conditions: a label by a run's id; methods: a label by a method's name.
    """
    grid = {spec.run_id: spec for spec in specs}
    runs = tuple(
        load_run(
            store.folder(spec).path, spec, condition=conditions.get(name, ""), label=methods.get(spec.method.name, "")
        )
        for name, spec in grid.items()
    )
    return Results(runs, root=store.root)


def load_run(folder: Path, spec: RunSpec, *, condition: str = "", label: str = "") -> RunResult:
    """One run as its folder has it; without records if they cannot be believed."""
    run = read_run(folder)
    status, damage = run.status, run.damage
    # A damaged log of epochs has the run executed again, but its records are results all the same.
    state = status["state"] if set(run.wrong) == {"epochs.jsonl"} else run.state
    return RunResult(
        spec=spec,
        written=None if damage or status["state"] == "waiting" else run.spec,
        state="damaged" if damage else state,
        seconds=run.seconds,
        reason=run.reason,
        records=() if damage else run.records,
        device=str(status.get("device", "")),
        condition=condition,
        label=label,
        facts={name: status[name] for name in FACTS if name in status},
        read_epochs=partial(read_epochs, folder, status),
    )
