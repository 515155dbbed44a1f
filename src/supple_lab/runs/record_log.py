"""A log of records, one JSON object a line. Only its last line can be torn, and only by a kill.

A writer adds each line where its last one ended, so that a second writer of the same run, which there should never be,
writes the same bytes to the same place or is found out.
"""

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any, BinaryIO

from supple_lab.atomic_write import StorageError, atomic_write, storage_error

Record = dict[str, Any]


class RecordLog:
    """Records of one kind, oldest first."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size: int | None = None  # bytes up to the last line this writer knows of

    def read(self) -> list[Record]:
        """The whole records, up to the first line that is torn or damaged."""
        records = []
        for line in self._lines():
            if (record := whole_record(line)) is None:
                break
            records.append(record)
        return records

    def append(self, record: Record) -> None:
        """Add one line. It reaches the disk with the next sync: what a kill takes before is computed again."""
        try:
            with open(self.path, "ab" if self._size is None else "r+b") as file:
                if self._size is not None:
                    self._seek_end(file, self._size)
                file.write(line_of(record))
                self._size = file.tell()
        except OSError as error:
            raise storage_error(error, self.path) from error

    def _seek_end(self, file: BinaryIO, size: int) -> None:
        if file.seek(0, os.SEEK_END) < size:
            raise StorageError(f"{self.path} was cut by another process. The same command continues the run.")
        file.seek(size)
        file.truncate()

    def sync(self) -> None:
        """Have the disk hold all that was appended, or a checkpoint could stand on records that a power cut took."""
        if not self.path.exists():
            return
        try:
            with open(self.path, "ab") as file:
                os.fsync(file.fileno())
        except OSError as error:
            raise storage_error(error, self.path) from error

    def keep(self, number: int) -> None:
        """Forget all but the first records: what came after the checkpoint is about to be computed again."""
        content = b"".join(line_of(record) for record in self.read()[:number])
        atomic_write(self.path, content)
        self._size = len(content)

    def digest(self, number: int) -> str:
        """What the first records are, in short: a checkpoint stands on them."""
        return hashlib.sha256(b"\n".join(self._lines()[:number])).hexdigest()

    def _lines(self) -> list[bytes]:
        try:
            return self.path.read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return []


def line_of(record: Record) -> bytes:
    """The record as it stands in the file: without values that are no numbers, which JSON does not know."""
    known = {name: value for name, value in record.items() if not isinstance(value, float) or math.isfinite(value)}
    return json.dumps(known, sort_keys=True, allow_nan=False).encode() + b"\n"


def whole_record(line: bytes) -> Record | None:
    """The record that a line holds, or None."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
