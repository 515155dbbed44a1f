"""A sweep on a disk too small for a checkpoint, and again when it has grown. test_disk_full runs it in a namespace."""

import subprocess
import sys
from pathlib import Path

from supple_lab.cli import supple

COMMAND = ("run", "quickstart", "--scale", "smoke", "--methods", "aid", "--engine", "inline", "--quiet")
ALWAYS = ("--checkpoint-seconds", "0.001")  # 2.4 MB: 151,000 weights, their first values, two moments


def files(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in out.glob("runs/*/*.jsonl")}


if __name__ == "__main__":
    disk, alone = Path(sys.argv[1]), Path(sys.argv[2])
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=2m", "none", str(disk)), check=True)
    assert supple([*COMMAND, *ALWAYS, "--out", str(disk / "out")]) == 1
    assert not list((disk / "out").rglob(".*.part"))
    print("grown", file=sys.stderr)
    subprocess.run(("mount", "-o", "remount,size=200m", str(disk)), check=True)
    assert supple([*COMMAND, "--out", str(disk / "out")]) == 0
    assert supple([*COMMAND, "--out", str(alone)]) == 0
    assert files(disk / "out") == files(alone)
    assert files(alone)
