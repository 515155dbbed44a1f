"""Provenance: the commit, the versions and the machine that made a run or a report."""

import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import supple_lab
from supple.version import __version__

PACKAGES = ("numpy", "scikit-learn", "matplotlib", "gymnasium", "mujoco", "minatar", "ale-py")
SECONDS_FOR_GIT = 10


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What must be known to make the same report again."""

    commit: str | None  # None for an installation without its repository
    versions: dict[str, str]
    machine: dict[str, str | int | float | list[str]]


@cache
def gather_provenance() -> Provenance:
    """What can be said of this process. SUPPLE_COMMIT names the commit of sources without repository."""
    commit = os.environ.get("SUPPLE_COMMIT") or commit_of(Path(supple_lab.__file__))
    return Provenance(commit=commit, versions=versions(), machine=machine())


def hardware_of(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name()


def commit_of(file: Path) -> str | None:
    """The commit of the repository that tracks the file, with "-dirty" if its sources differ from it.

    A package installed into another repository is not tracked there, and has no commit.
    """
    if _git(file.parent, "ls-files", "--error-unmatch", file.name) is None:
        return None
    commit = _git(file.parent, "rev-parse", "HEAD")
    changes = _git(file.parent, "status", "--porcelain", "--", "..")
    return f"{commit}-dirty" if changes else commit


def _git(folder: Path, *words: str) -> str | None:
    try:
        answer = subprocess.run(
            ("git", "-C", str(folder), *words), capture_output=True, text=True, timeout=SECONDS_FOR_GIT, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()


def versions() -> dict[str, str]:
    """Python and the packages that decide the numbers and the pictures."""
    found = {"python": platform.python_version(), "supple": __version__, "torch": str(torch.__version__)}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, str | int | float | list[str]]:
    """The processor, the memory and the accelerators, but not the machine's name."""
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "system": f"{platform.system()} {platform.release()}",
        "cpu": cpu_name(),
        "cores": os.cpu_count() or 1,
        **memory(),
        "gpus": gpus,
    }


def memory() -> dict[str, float]:
    """The memory in GiB; nothing on Windows, which does not say it."""
    if sys.platform == "win32":
        return {}
    return {"memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)}


def cpu_name() -> str:
    """What the processor calls itself, if Linux says it; else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
