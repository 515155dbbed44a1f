"""Getting a dataset whole: what is there already, what must be downloaded or put there by hand, and unpacking."""

from pathlib import Path

from supple_lab.data.archive import Archive, unpack
from supple_lab.data.base import DataError, Splits
from supple_lab.data.download import Tell, download
from supple_lab.data.on_disk import OnDisk


def whole(dataset: OnDisk, root: Path) -> Splits | None:
    """The dataset in a data folder, if it is there and as it should be."""
    folder = root / dataset.subfolder
    try:
        return dataset.read(folder) if folder.is_dir() else None
    except DataError:
        return None


def obtain(dataset: OnDisk, root: Path, tell: Tell) -> Splits:
    """Download and unpack into the data folder; archives put there by hand are used and left there."""
    missing = [archive for archive in dataset.archives if not archive.is_whole(root / archive.path)]
    for archive in missing:
        try:
            download(archive, root / archive.path, tell)
        except DataError as error:
            raise DataError(f"{error}\n{by_hand(dataset, root)}") from error
    for archive in dataset.archives:
        if archive.unpacks:
            unpack(root / archive.path, root)
    splits = dataset.read(root / dataset.subfolder)
    for archive in missing:
        if archive.unpacks:
            (root / archive.path).unlink()
    return splits


def by_hand(dataset: OnDisk, root: Path) -> str:
    """Which file to put where on a machine without a network."""
    missing = [archive for archive in dataset.archives if not archive.is_whole(root / archive.path)]
    files = "\n".join(_instruction(archive, root) for archive in missing)
    return (
        f"To do it by hand, fetch on any machine:\n{files}\n"
        f"Then run the same command again. Or unpack it yourself to {root / dataset.subfolder}"
    )


def _instruction(archive: Archive, root: Path) -> str:
    file = root / archive.path
    told = f"  {archive.urls[0]}\n    to {file}\n    {archive.length:,} bytes, md5 {archive.md5}"
    return f"{told}\n    a file lies there, but it {archive.fault_of(file)}" if file.is_file() else told
