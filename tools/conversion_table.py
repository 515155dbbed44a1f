"""Renews the tables of docs/conversion.md, what `supple.convert` does to other libraries' models."""

import importlib.metadata
import re
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import torch

import model_zoo
from model_zoo import ACTIVATIONS, ZooModel
from supple import AID, conversion_report, convert
from supple.convert.report import Entry

PAGE = Path("docs/conversion.md")
LIBRARIES = ("timm", "torchvision", "transformers")
COLUMNS = ("model", "unasked", "if named", "left", "class changed")


def main() -> None:
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    page = PAGE.read_text()
    for library in LIBRARIES:
        rows = table(row(model) for model in model_zoo.MODELS if model.library == library)
        page = put(rows, page, rf"(?<=\n## {library}\n)((?:[^|\n].*\n|\n)*)(?:\|.*\n)+")
    versions = ", ".join(f"{library} {importlib.metadata.version(library)}" for library in ("torch", *LIBRARIES))
    PAGE.write_text(put(f"Made by `make conversion-table` with {versions}.\n", page, r"()Made by `make .*\n"))


def put(new: str, page: str, place: str) -> str:
    """The page with the new text where the place is, after what its group keeps."""
    changed, found = re.subn(place, lambda match: match[1] + new, page)
    if found != 1:
        raise SystemExit(f"{PAGE} has {found} places like {place}, not one.")
    return changed


def table(rows: Iterable[tuple[str, ...]]) -> str:
    lines = [COLUMNS, ("---",) * len(COLUMNS), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def row(model: ZooModel) -> tuple[str, ...]:
    library = model_zoo.import_library(model.library)
    unasked = conversion_report(convert(model.make(library), AID(p=0.9)))
    asked = conversion_report(convert(model.make(library), AID(p=0.9), replace=ACTIVATIONS))
    besides = kinds(asked.swapped) - kinds(unasked.swapped)
    counts = (kinds(unasked.swapped), besides, kinds(asked.left), kinds(asked.retyped))
    return model.name, *map(counted, counts)


def kinds(entries: Iterable[Entry]) -> Counter[str]:
    """How many there are of each kind, whatever the line of code."""
    return Counter(entry.what.partition(",")[0] for entry in entries)


def counted(numbers: Counter[str]) -> str:
    """The kinds and how many there are of each, in words."""
    return ", ".join(f"{number} {name}" for name, number in sorted(numbers.items())) or "–"


if __name__ == "__main__":
    main()
