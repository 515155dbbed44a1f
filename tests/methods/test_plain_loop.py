"""The example of a plain PyTorch loop runs as it stands, and learns."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "plain_loop.py"


@pytest.mark.parametrize("name", ["redo", "cbp"])
def test_network_learns_its_random_labels_in_every_stage(name):
    accuracies = runpy.run_path(str(EXAMPLE))["main"](name, num_stages=2, num_epochs=15)
    assert len(accuracies) == 2
    assert min(accuracies) > 0.8  # chance is 0.1


@pytest.mark.slow
def test_example_runs_from_the_command_line():
    code = f"import runpy, sys; sys.argv = ['x', 'redo', 1, 1]; runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("redo, stage 0: accuracy ")
