"""Shared GPU: NVIDIA's Multi-Process Service, with which kernels of several processes run on a GPU side by side.

Without it processes take turns: eight DQN runs on an H200 took 880 steps a second in all, with it 3,900. A GPU serves
at most 60 processes so. One that commits an illegal access ends all that share its GPU; their runs are taken up again.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DAEMON = "nvidia-cuda-mps-control"  # comes with the driver
PIPES = "CUDA_MPS_PIPE_DIRECTORY"  # where a process finds the service
LOGS = "CUDA_MPS_LOG_DIRECTORY"
DEFAULT_PIPES = "/tmp/nvidia-mps"
SECONDS_TO_START, SECONDS_TO_END = 20.0, 20.0
# Waits until the process that holds its standard input lets go of it, by intent or by death, then ends the service.
WATCH = f'cat > /dev/null; echo quit -t 5 | {DAEMON} > /dev/null 2>&1; rm -rf "${PIPES}"'


class SharedGPU:
    """The service, started here if there is none; processes with this environment take part in it."""

    def __init__(self) -> None:
        self.environment: dict[str, str] = {}
        self._watch: subprocess.Popen[bytes] | None = None  # over a service of our own
        if PIPES in os.environ or Path(DEFAULT_PIPES, "control").exists():
            return  # this machine has such a service, or this process was told of one
        if shutil.which(DAEMON) is None:
            print_slower(f"{DAEMON} was not found")
            return
        self._start(tempfile.mkdtemp(prefix="supple-mps-"))

    def _start(self, folder: str) -> None:
        self.environment = {PIPES: folder, LOGS: folder}
        try:
            subprocess.run([DAEMON, "-d"], env=self._daemons, check=True, capture_output=True, timeout=SECONDS_TO_START)
        except (OSError, subprocess.SubprocessError) as error:
            print_slower(f"{DAEMON} did not start ({error})")
            shutil.rmtree(folder, ignore_errors=True)
            self.environment = {}
            return
        self._watch = subprocess.Popen(
            ["sh", "-c", WATCH], stdin=subprocess.PIPE, env=self._daemons, start_new_session=True
        )

    def stop(self) -> None:
        """End a service of our own; the processes that use it have ended."""
        if self._watch is None:
            return
        assert self._watch.stdin is not None
        self._watch.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it goes on without us
            self._watch.wait(SECONDS_TO_END)
        self._watch, self.environment = None, {}

    @property
    def _daemons(self) -> dict[str, str]:
        """The service counts all GPUs, so that the processes' own choices among them mean what they say."""
        return {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"} | self.environment


def print_slower(reason: str) -> None:
    print(f"note: {reason}: processes on a GPU take turns. `--engine packed` shares it without.", file=sys.stderr)
