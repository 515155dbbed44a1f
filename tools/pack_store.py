"""Packs a store into an archive for the way to another machine: what ended, and small checkpoints of what did not.

python tools/pack_store.py out/queue store.tar.xz
"""

import sys
import tarfile
from pathlib import Path

from supple_lab.commands.base import BAD_USAGE
from supple_lab.store.checkpoint import checkpoint_files
from supple_lab.store.reading import LOGS, SETTLED, read_status

USAGE = "usage: python tools/pack_store.py FOLDER ARCHIVE, the folder of the runs and the file to write."
MAX_CHECKPOINT = 4 * 2**20  # the CNN's; those of larger networks stay, and their runs begin again elsewhere


def main() -> None:
    """Pack the store that the first argument names into the file that the second does."""
    if len(sys.argv) != 3:
        print(USAGE, file=sys.stderr)
        sys.exit(BAD_USAGE)
    store, archive = Path(sys.argv[1]), Path(sys.argv[2])
    with tarfile.open(archive, "w:xz") as tar:
        for path in files_of(store):
            tar.add(path, arcname=f"{store.name}/{path.relative_to(store)}")
    print(f"{archive}: {archive.stat().st_size / 2**20:.1f} MiB")


def files_of(store: Path) -> list[Path]:
    files = [store / "format.json", *sorted(store.glob("studies/*.json"))]
    for run in sorted(path.parent for path in store.glob("runs/*/spec.json")):
        files += [path for name in ("spec.json", "status.json", *LOGS) if (path := run / name).exists()]
        if read_status(run)["state"] not in SETTLED:
            files += [path for path in checkpoint_files(run)[-1:] if path.stat().st_size <= MAX_CHECKPOINT]
    return files


if __name__ == "__main__":
    main()
