"""Downloads that can break off at any moment: resumed, from several mirrors, accepted only with the right checksum."""

import http.client
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO

from supple.version import __version__
from supple_lab.data.base import DataError, Splits
from supple_lab.data.files import Archive, OnDisk, md5_of, unpack
from supple_lab.flock import flock

SECONDS_OF_SILENCE = 30  # then the connection counts as broken
ATTEMPTS = 10  # at one mirror; each must bring it further
PIECE = 1 << 18

ShowProgress = Callable[[str, int, int], None]  # name of the archive, bytes so far, bytes in all


class MirrorFailed(Exception):
    """A mirror does not answer, or has something else under the name."""


def download(archive: Archive, target: Path, show: ShowProgress) -> None:
    """Put the archive at the target, whole or not at all. What was received stays in TARGET.part for the next try."""
    if sys.platform == "win32":
        raise DataError("downloads need flock, which Windows lacks")
    problems = []
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.with_name(f"{target.name}.part")) as part:
            for url in archive.urls:
                try:
                    _fetch(url, part, archive=archive, show=show)
                except MirrorFailed as failure:
                    problems.append(f"{url}: {failure}")
                    continue
                os.fsync(part.fileno())
                os.replace(part.name, target)
                return
    except OSError as error:
        raise DataError(f"cannot write {target}: {error.strerror}. Another folder: --data DIR") from error
    raise DataError("\n  ".join([f"could not download {target.name}:", *problems]))


def _fetch(url: str, part: BinaryIO, *, archive: Archive, show: ShowProgress) -> None:
    """Fill the part from one mirror until it is the archive."""
    has_older_bytes = _size(part) > 0  # of an earlier try or another mirror: not this one's fault
    for _ in range(ATTEMPTS):
        before = _size(part)
        to_its_end = _receive(url, part, archive=archive, show=show)
        size = _size(part)
        if before < size < archive.length:
            continue  # broken off: go on from here
        if size < archive.length and not to_its_end:
            raise MirrorFailed(f"broke off; {size:,} of {archive.length:,} bytes are kept")
        found = md5_of(Path(part.name))
        if found == archive.md5:
            return
        part.truncate(0)
        if not has_older_bytes:
            raise MirrorFailed(f"not the official file: {size:,} bytes, md5 {found}")
        has_older_bytes = False
    raise MirrorFailed(f"broke off {ATTEMPTS} times; {_size(part):,} of {archive.length:,} bytes are kept")


def _receive(url: str, part: BinaryIO, *, archive: Archive, show: ShowProgress) -> bool:
    """Append what one answer brings; whether it came to its end, by what the server says of it."""
    size = _size(part)
    answer = _ask(url, size)
    if answer is None:
        return True
    with answer:
        part.seek(_start_of(answer, size))
        part.truncate()
        while part.tell() <= archive.length:
            try:
                piece = answer.read1(PIECE)  # what is there: a later silence does not take it back
            except (OSError, http.client.HTTPException):  # broken off, or silent for too long
                break
            if not piece:
                break
            part.write(piece)
            show(Path(archive.path).name, part.tell(), archive.length)
        return not answer.length  # what it still owes


def _ask(url: str, size: int) -> http.client.HTTPResponse | None:
    """Ask for the file from a byte on; None if the mirror has no more than that."""
    headers = {"User-Agent": f"supple/{__version__}"}
    if size:
        headers["Range"] = f"bytes={size}-"
    try:
        return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=SECONDS_OF_SILENCE)
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError) and error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return None
        raise MirrorFailed(str(error) or type(error).__name__) from error


def _start_of(answer: http.client.HTTPResponse, size: int) -> int:
    """Where in the file the answer begins: 0 from a server that ignores Range."""
    if answer.status != HTTPStatus.PARTIAL_CONTENT:
        return 0
    sent = answer.headers.get("Content-Range", "")
    found = re.match(r"bytes (\d+)-", sent)
    if found is None or int(found[1]) > size:
        raise MirrorFailed(f"was asked for the bytes from {size} on and sent {sent!r}")
    return int(found[1])


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """The part file, ours alone; an empty one is not left behind."""
    with open(path, "a+b") as part:
        try:
            flock(part.fileno())
        except BlockingIOError:
            raise DataError(f"another process is downloading {path}; wait for it, or end it") from None
        try:
            yield part
        finally:
            if path.exists() and not _size(part):
                path.unlink()


def _size(part: BinaryIO) -> int:
    part.flush()
    return os.fstat(part.fileno()).st_size


def whole(dataset: OnDisk, root: Path) -> Splits | None:
    """The dataset in a data folder, if it is there and as it should be."""
    folder = root / dataset.subfolder
    try:
        return dataset.read(folder) if folder.is_dir() else None
    except DataError:
        return None


def obtain(dataset: OnDisk, root: Path, show: ShowProgress) -> Splits:
    """Download and unpack into the data folder; archives put there by hand are used and left there."""
    missing = [archive for archive in dataset.archives if not archive.is_whole(root / archive.path)]
    for archive in missing:
        try:
            download(archive, root / archive.path, show)
        except DataError as error:
            raise DataError(f"{error}\n{by_hand(dataset, root)}") from error
    to_unpack = [archive for archive in dataset.archives if archive.path.endswith((".tar.gz", ".zip"))]
    for archive in to_unpack:
        unpack(root / archive.path, root)
    splits = dataset.read(root / dataset.subfolder)
    for archive in to_unpack:
        if archive in missing:
            (root / archive.path).unlink()
    return splits


def by_hand(dataset: OnDisk, root: Path) -> str:
    """Which file to put where on a machine without a network."""
    lines = ["To do it by hand, fetch on any machine:"]
    for archive in dataset.archives:
        if archive.is_whole(file := root / archive.path):
            continue
        lines += [f"  {archive.urls[0]}", f"    to {file}", f"    {archive.length:,} bytes, md5 {archive.md5}"]
        if file.is_file():
            lines.append(f"    a file lies there, but it {archive.fault_of(file)}")
    lines.append(f"Then run the same command again. Or unpack it yourself to {root / dataset.subfolder}")
    return "\n".join(lines)
