"""Index: what a store's runs are and how they stand, in one file for fast queries. Rebuilt from the folders at will.

An entry is believed as long as the files it was read from have the same inode, size and time of change; otherwise the
folder is read anew. So an index that is old, damaged or missing costs time and never tells a falsehood.
"""

import os
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from supple_lab.spec import is_seed
from supple_lab.store import lock
from supple_lab.store.run_folder import RunFolder, State, is_spec_of, read_object
from supple_lab.store.store import Store

FILES = ("spec.json", "status.json", "records.jsonl", "epochs.jsonl")
SECONDS_TO_SETTLE = 2.0  # a file younger than this could change again without its time of change telling


@dataclass(frozen=True)
class Entry:
    """One run: its identity, and how it stands."""

    run: str
    method: str
    scenario: str
    dataset: str
    seed: int
    state: State
    progress: float
    seconds: float
    accuracy: float | None  # online, of the last epoch
    reason: str
    is_damaged: bool  # its spec cannot be read

    @property
    def seconds_left(self) -> float | None:
        """At the rate so far; None where there is no telling."""
        under_way = self.state in ("running", "interrupted") and self.progress > 0
        return self.seconds * (1 - self.progress) / self.progress if under_way else None


COLUMNS = tuple(field.name for field in fields(Entry))
MARKS = ", ".join("?" * (len(COLUMNS) + 1))


def entries(store: Store) -> list[Entry]:
    """Every run of the store, by its id, as it stands now."""
    try:
        return _refreshed(store, str(store.root / "index.sqlite"))
    except sqlite3.DatabaseError:  # damaged, of another version, locked, or on a disk that cannot be written
        with suppress(OSError):
            (store.root / "index.sqlite").unlink(missing_ok=True)
    try:
        return _refreshed(store, str(store.root / "index.sqlite"))
    except sqlite3.DatabaseError:
        return _refreshed(store, ":memory:")


def _refreshed(store: Store, database: str) -> list[Entry]:
    with closing(sqlite3.connect(database, timeout=1.0)) as connection, connection:
        connection.execute("pragma synchronous = off")  # what a power cut takes is read again
        connection.execute(f"create table if not exists runs (signature, {', '.join(COLUMNS)}, primary key (run))")
        known = {row[1]: row for row in connection.execute(f"select signature, {', '.join(COLUMNS)} from runs")}
        found, changed = [], []
        for path in _run_folders(store):
            signature = signature_of(path)
            row = known.pop(path.name, None)
            if row is not None and row[0] == signature:
                found.append(_as_of_now(path, Entry(*row[1:])))
                continue
            found.append(read_entry(RunFolder(path)))
            changed.append((signature if _is_settled(path) else "", *astuple(found[-1])))
        connection.executemany(f"insert or replace into runs values ({MARKS})", changed)
        connection.executemany("delete from runs where run = ?", [(run,) for run in known])
    return found


def read_entry(folder: RunFolder) -> Entry:
    """Read one folder, whatever state its files are in."""
    spec, status = read_object(folder.path / "spec.json"), folder.status()
    problem = _part(spec, "problem")
    return Entry(
        run=folder.path.name,
        method=_kind(spec, "method"),
        scenario=_kind(problem, "scenario") or str(problem.get("kind", "")),
        dataset=_dataset(_part(problem, "dataset")) or _game(_part(problem, "game")),
        seed=seed if is_seed(seed := spec.get("seed")) else 0,
        state=folder.state(),
        progress=float(status.get("progress", 0.0)),
        seconds=float(status.get("seconds", 0.0)),
        accuracy=status.get("accuracy"),
        reason=str(status.get("reason", "")),
        is_damaged=not is_spec_of(folder.path / "spec.json", folder.path.name),
    )


def signature_of(path: Path) -> str:
    """Changes whenever a file of the run does."""
    return " ".join(_stamp(path / name) for name in FILES)


def _as_of_now(path: Path, entry: Entry) -> Entry:
    # A lease comes and goes without the other files changing.
    if entry.state not in ("running", "interrupted") or read_object(path / FILES[1]).get("state") != "running":
        return entry
    state: State = "running" if lock.is_live(path) else "interrupted"
    return Entry(**{**{name: getattr(entry, name) for name in COLUMNS}, "state": state})


def _run_folders(store: Store) -> Iterable[Path]:
    try:
        with os.scandir(store.root / "runs") as found:
            return [Path(item.path) for item in sorted(found, key=lambda item: item.name) if item.is_dir()]
    except FileNotFoundError:  # somebody removed all runs at once
        return []


def _stamp(path: Path) -> str:
    try:
        stat = path.stat()
    except OSError:
        return "-"
    return f"{stat.st_ino}:{stat.st_size}:{stat.st_mtime_ns}"


def _is_settled(path: Path) -> bool:
    times = [(path / name).stat().st_mtime for name in FILES if (path / name).exists()]
    return all(time.time() - moment > SECONDS_TO_SETTLE for moment in times)


def _part(whole: dict[str, Any], name: str) -> dict[str, Any]:
    part = whole.get(name)
    return part if isinstance(part, dict) else {}


def _kind(whole: dict[str, Any], name: str) -> str:
    return str(_part(whole, name).get("kind", ""))


def _dataset(dataset: dict[str, Any]) -> str:
    inner = _part(dataset, "of")  # a slice of another dataset
    return f"{dataset['kind']} of {_dataset(inner)}" if inner else str(dataset.get("kind", ""))


def _game(game: dict[str, Any]) -> str:
    inner = _part(game, "game")  # a game with other rewards
    return f"{game['kind']} {_game(inner)}" if inner else str(game.get("title") or game.get("kind", ""))
