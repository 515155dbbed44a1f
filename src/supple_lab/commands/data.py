"""supple data: whether a dataset is here and whole, and getting it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from supple_lab import registry
from supple_lab.commands.base import DONE, FAILED, Command
from supple_lab.data.base import DataError, Dataset, Splits
from supple_lab.data.download import ShowProgress, obtain, whole
from supple_lab.data.files import OnDisk, data_folders, target_folder, use_folder
from supple_lab.data.tiny_imagenet import TinyImageNet


@dataclass(frozen=True, kw_only=True)
class Data(Command):
    """Check whether a dataset is here and whole, or get it from its official source."""

    name = "data"
    act: Literal["check", "get"] = field(metadata={"place": "check|get"})
    """check: say where it was looked for, what is there, and whether it is whole. get: download, verify, unpack."""
    dataset: str = field(metadata={"place": "NAME|all"})
    """Name of the dataset; `supple list datasets` shows them."""
    data: Path | None = None
    """Folder of the data. Default: $SUPPLE_DATA, then ~/.cache/supple."""
    allow_partial: bool = False
    """Accept a TinyImageNet that lacks images."""
    quiet: bool = False
    """Show no progress."""

    def run(self) -> int:
        classes: dict[str, type[Dataset]] = registry.known(Dataset)
        named = [registry.find(Dataset, self.dataset)] if self.dataset != "all" else list(classes.values())
        if self.data is not None:
            use_folder(self.data)
        good = [self.run_for(cls) for cls in named]  # all of them, also after one that is not
        return DONE if all(good) else FAILED

    def run_for(self, cls: type[Dataset]) -> bool:
        """Check or get one dataset; whether it is whole."""
        if not issubclass(cls, OnDisk):
            print(f"{cls.name}: needs no files of its own")
            return True
        if self.act == "get":
            return get(cls(), quiet=self.quiet)
        return check(TinyImageNet(allow_partial=self.allow_partial) if cls is TinyImageNet else cls())


def check(dataset: OnDisk) -> bool:
    """Print where a dataset was looked for, what is there, and whether it is whole."""
    for root in data_folders():
        found = "found" if dataset.is_in(root) else "no"
        print(f"{dataset.name}: looked in {root}: {found} {dataset.subfolder}")
    try:
        folder = dataset.find()
        for line in dataset.contents(folder):
            print(f"  {line}")
        print_whole(dataset, dataset.load(torch.device("cpu")), folder)
    except DataError as error:
        print(error)
        return False
    return True


def get(dataset: OnDisk, *, quiet: bool) -> bool:
    """Get a dataset unless it is there whole; if that fails, say which file to put where."""
    root = target_folder()
    splits = whole(dataset, root)
    try:
        if splits is None:
            with progress(quiet=quiet) as show:
                splits = obtain(dataset, root, show)
    except DataError as error:
        print(f"supple: {error}", file=sys.stderr)
        return False
    print_whole(dataset, splits, root / dataset.subfolder)
    return True


def print_whole(dataset: OnDisk, splits: Splits, folder: Path) -> None:
    """The last line: what there is, and how that is known."""
    state = "whole" if splits.facts == dataset.facts else "partial, as allowed"
    print(f"{dataset.name} in {folder} is {state}: {splits.facts}; verified by {dataset.verified_by}", flush=True)


@contextmanager
def progress(*, quiet: bool) -> Iterator[ShowProgress]:
    """Bars on a terminal, a line for each tenth of a file when piped, nothing when quiet."""
    if quiet:
        yield lambda *_: None
    elif not sys.stdout.isatty():
        tenths: dict[str, int] = {}

        def print_tenth(name: str, done: int, total: int) -> None:
            tenth = 10 * done // total
            if tenth > tenths.get(name, 0):
                tenths[name] = tenth
                print(f"{name}: {done:,} of {total:,} bytes", flush=True)

        yield print_tenth
    else:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        with Progress(*columns, TimeRemainingColumn()) as bars:
            tasks = {}

            def update(name: str, done: int, total: int) -> None:
                if name not in tasks:
                    tasks[name] = bars.add_task(name, total=total)
                bars.update(tasks[name], completed=done)

            yield update
