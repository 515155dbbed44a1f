"""A place of one's own for a Ray cluster: a network with nothing but loopback, and processes that end with the test."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

# Ray on Linux replaces 127.0.0.1 by the network's address; where there is no network, it stays.
UNSHARE = ("unshare", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
HERE = Path(__file__).parent
SECONDS_TO_HANG = 600.0  # far more than a quiet machine takes: a lost cluster must fail, not stall the suite


def why_not() -> str | None:
    """Why Ray cannot be tried here, if it cannot."""
    if importlib.util.find_spec("ray") is None:
        return "ray is not installed"
    if " " in sys.executable:
        return "Ray cannot start workers under a path with spaces"
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return "unshare and ip are needed to make a network namespace"
    if subprocess.run((*UNSHARE, "ip", "link", "set", "lo", "up"), capture_output=True).returncode:
        return "network namespaces are not allowed here"
    return None


def run_in_namespace(script: str, *arguments: str, seconds: float = SECONDS_TO_HANG) -> None:
    """Run one of the scripts beside this file where only loopback exists; what it prints is shown where it fails."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="ray") as home:  # short: Ray makes sockets below it
        environment = {
            **os.environ,
            "HOME": home,
            "RAY_TMPDIR": home,
            "RAY_AUTH_MODE": "disabled",  # nobody else is on this network
            "PYTHONPATH": os.pathsep.join((str(HERE.parent), str(HERE))),
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        }
        inside = 'ip link set lo up && exec "$@"'
        command = (*UNSHARE, "sh", "-c", inside, "sh", sys.executable, str(HERE / script), *arguments)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
