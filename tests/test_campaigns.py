"""Runs killed at random and stores damaged at random, each by a tool that can be asked for more."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
TOOLS = TESTS.parent / "tools"
SHARED = "SUPPLE_SHARED_FOLDER"


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [("kill_campaign.py", "--kills", "50", "--seed", "0"), ("fuzz.py", "--cases", "100", "--seed", "0")]
)
def test_no_kill_and_no_damage_changes_a_number(command):
    run_tool(*command)


@pytest.mark.slow
@pytest.mark.skipif(SHARED not in os.environ, reason=f"${SHARED} names no folder on a file system such as NFS")
def test_no_kill_changes_a_number_on_a_shared_file_system():
    folder = Path(os.environ[SHARED]) / f"kills-{os.getpid()}"
    run_tool("kill_campaign.py", "--kills", "20", "--seed", "1", "--out", str(folder))


def run_tool(name: str, *arguments: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    done = subprocess.run(
        [sys.executable, str(TOOLS / name), *arguments], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
