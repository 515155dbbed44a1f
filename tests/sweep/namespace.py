"""A place of one's own for a cluster: a network with nothing but loopback, and processes that end with the test."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import slurm_here

# Ray on Linux replaces 127.0.0.1 by the network's address; where there is no network, it stays.
UNSHARE = ("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
AS_ROOT = "--map-root-user"  # for those who are not; SLURM needs the real one
HERE = Path(__file__).parent
SECONDS_TO_HANG = 600.0  # far more than a quiet machine takes: a lost cluster must fail, not stall the suite


def why_not_ray() -> str | None:
    """Why Ray cannot be tried here, if it cannot."""
    if importlib.util.find_spec("ray") is None:
        return "ray is not installed"
    if " " in sys.executable:
        return "Ray cannot start workers under a path with spaces"
    return None


def why_not_slurm() -> str | None:
    """Why SLURM cannot be tried here, if it cannot."""
    if importlib.util.find_spec("submitit") is None:
        return "submitit is not installed"
    if missing := [name for name in slurm_here.PROGRAMS if shutil.which(name) is None]:
        return f"SLURM is not installed: no {', '.join(missing)}"
    return "SLURM's servers need root" if os.geteuid() else None


def why_no_namespace(*options: str) -> str | None:
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return "unshare and ip are needed to make a network namespace"
    if subprocess.run((*UNSHARE, *options, "ip", "link", "set", "lo", "up"), capture_output=True).returncode:
        return "network namespaces are not allowed here"
    return None


def run_in_namespace(
    script: str, *arguments: str, why_not: Callable[[], str | None] = why_not_ray, seconds: float = SECONDS_TO_HANG
) -> str:
    """Run one of the scripts beside this file where only loopback exists; return what it prints."""
    options = () if why_not is why_not_slurm else (AS_ROOT,)
    if (reason := why_not() or why_no_namespace(*options)) is not None:
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="here") as home:  # short: servers make sockets below it
        environment = {
            **os.environ,
            "HOME": home,
            "RAY_TMPDIR": home,
            "RAY_AUTH_MODE": "disabled",  # nobody else is on this network
            "PYTHONPATH": os.pathsep.join(filter(None, (str(HERE.parent), str(HERE), os.environ.get("PYTHONPATH")))),
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        }
        inside = 'ip link set lo up && exec "$@"'
        command = (*UNSHARE, *options, "sh", "-c", inside, "sh", sys.executable, str(HERE / script), *arguments)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout
