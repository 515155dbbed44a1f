"""Runs killed at random and stores damaged at random, each by a tool that can be asked for more."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
TOOLS = TESTS.parent / "tools"


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [("kill_campaign.py", "--kills", "50", "--seed", "0"), ("fuzz.py", "--cases", "100", "--seed", "0")]
)
def test_no_kill_and_no_damage_changes_a_number(command):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    done = subprocess.run(
        [sys.executable, str(TOOLS / command[0]), *command[1:]], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
