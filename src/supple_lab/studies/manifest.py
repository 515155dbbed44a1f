"""Manifest: what a study was asked to run in an output folder, so that the report can be made from the store alone."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from supple_lab.atomic_write import StorageError, atomic_write
from supple_lab.runs.spec import RunSpec
from supple_lab.studies.order import Order


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """One study's order, the command that gave it, and its runs."""

    study: str
    order: Order
    command: str
    specs: tuple[dict[str, Any], ...]

    def run_specs(self) -> list[RunSpec]:
        """The runs, in the order they were asked for."""
        return [RunSpec.from_json(json.dumps(spec)) for spec in self.specs]


def write_manifest(out: Path, manifest: Manifest) -> None:
    """Keep the order beside the runs."""
    (out / "studies").mkdir(exist_ok=True)
    atomic_write(path_of(out, manifest.study), json.dumps(asdict(manifest), indent=1).encode())


def read_manifest(out: Path, study: str) -> Manifest:
    """The order as it was written."""
    path = path_of(out, study)
    try:
        content = json.loads(path.read_bytes())
        order = content.pop("order")
        return Manifest(order=Order(**{**order, "methods": tuple(order["methods"])}), **content)
    except FileNotFoundError:
        raise StorageError(f"{out} holds no runs of {study}. Make them: supple run {study} --out {out}") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StorageError(f"{path} is damaged ({error}). Write it anew: supple run {study} --out {out}") from None


def studies_in(out: Path) -> list[str]:
    """The studies that were run into the folder."""
    return sorted(path.stem for path in (out / "studies").glob("*.json"))


def path_of(out: Path, study: str) -> Path:
    """Where a study's order is kept."""
    return out / "studies" / f"{study}.json"
