"""A disk that is full in the middle of a run: said in a sentence, and nothing lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
UNSHARE = ("unshare", "--map-root-user", "--mount")


@pytest.mark.slow
def test_sweep_on_a_full_disk_fails_with_a_sentence_and_the_same_command_continues_when_there_is_space(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    try:
        subprocess.run((*UNSHARE, "mount", "-t", "tmpfs", "none", str(disk)), check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mount namespaces are not allowed here")
    command = (*UNSHARE, sys.executable, str(HERE / "disk_full.py"), str(disk), str(tmp_path / "alone"))
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    told, _, later = done.stderr.partition("grown")
    assert "failed: aid, seed 0" in told
    assert "no space left to write" in told
    assert "failed" not in later
