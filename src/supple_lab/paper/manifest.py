"""Manifest: what a study was asked to run in an output folder, so that the report can be made from the store alone."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supple_lab.codec import decode, encode
from supple_lab.files import StorageError, atomic_write, writing
from supple_lab.flock import flock
from supple_lab.paper.study import StudyOptions
from supple_lab.spec import RunSpec


class NoOrder(StorageError):
    """A study was not ordered in that folder, or its order cannot be read; ordering it mends that."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a study's report is about: the whole grid, the commands that ran parts of it, the runs they asked for."""

    study: str
    order: StudyOptions
    commands: tuple[str, ...]
    specs: tuple[dict[str, Any], ...]  # as they were written: another version may not know their parts


def add_to_manifest(
    out: Path, study: str, *, order: StudyOptions, command: str, specs: Sequence[RunSpec]
) -> StudyOptions | None:
    """Note what is asked for beside what was: a grid may be filled part by part, and the report is about all of it.

    An order of another kind takes the place of the one before, which is returned.
    """
    (out / "studies").mkdir(exist_ok=True)
    with alone(path_of(out, study)):
        try:
            before = read_manifest(out, study)
        except NoOrder:
            before = None
        replaced = before.order if before and before.order.differences(order) else None
        kept = before if replaced is None else None
        written = [*(kept.specs if kept else ()), *(spec.to_dict() for spec in specs)]
        manifest = Manifest(
            study=study,
            order=order.whole(kept.order if kept else None),
            commands=tuple(dict.fromkeys([*(kept.commands if kept else ()), command])),
            specs=tuple({json.dumps(spec, sort_keys=True): spec for spec in written}.values()),
        )
        atomic_write(path_of(out, study), json.dumps(encode(manifest), indent=1).encode())
        return replaced


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """While no other driver reads the file to write it: what the two add must both be in it."""
    beside = path.with_name(f".{path.stem}.lock")
    with writing(beside):
        file = open(beside, "ab")  # noqa: SIM115  (closed below)
    with file:
        with suppress(OSError):  # a disk without flock: then two drivers had better not start at once
            flock(file.fileno(), wait=True)
        yield


def read_manifest(out: Path, study: str) -> Manifest:
    path = path_of(out, study)
    try:
        manifest: Manifest = decode(Manifest, json.loads(path.read_bytes()))
        return manifest
    except FileNotFoundError:
        raise NoOrder(
            f"{out} has no order of {study}: {path} is not there, and a report is about what was ordered. Order it: "
            f"supple run {study} --out {out}. Runs that lie there are kept, and those that are done are not run again."
        ) from None
    except (ValueError, TypeError, RecursionError) as error:
        raise NoOrder(
            f"{path} is damaged or of another version ({error}). Write it again, at the scale of the runs there: "
            f"supple run {study} --scale SCALE --out {out}"
        ) from None


def studies_in(out: Path) -> list[str]:
    try:
        names = os.listdir(out / "studies")  # Path.glob finds nothing in a folder that may not be read
    except FileNotFoundError:
        return []
    return sorted(name.removesuffix(".json") for name in names if name.endswith(".json") and name[0] != ".")


def path_of(out: Path, study: str) -> Path:
    return out / "studies" / f"{study}.json"
