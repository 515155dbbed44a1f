"""What of supple works on macOS and Windows, as far as a Linux machine can tell."""

import subprocess
import sys
from pathlib import Path

import pytest
from fresh_environment import ROOT

LIKE_WINDOWS = Path(__file__).with_name("like_windows.py")
SUPPLE = "from supple_lab.entry import main; main()"
# Packages of others, which have a Windows edition that is not here: imported before the machine becomes one.
LISTS = ("rich.console", "rich.table", "asyncio", "shutil")
REPORTS = (*LISTS, "torch", "rich.live", "rich.progress", "scipy.stats", "sklearn.datasets", "jinja2", "fsspec")
REPORTS += ("matplotlib.pyplot", "matplotlib.backends.backend_svg", "PIL.Image", "multiprocessing")


def on_windows(packages: tuple[str, ...], *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, LIKE_WINDOWS, *packages, "-c", SUPPLE, *words]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--help", "usage: supple"),
        ("list engines", "Runs one after the other"),
        ("data check mnits", "Did you mean 'mnist'?"),
    ],
)
def test_lists_and_refusals_come_on_windows(line, said):
    done = on_windows(LISTS, *line.split())
    assert said in done.stdout + done.stderr


@pytest.mark.slow
def test_windows_reports_runs_of_other_machines_and_refuses_to_start_one_in_a_sentence(tmp_path):
    order = ("run", "quickstart", "--scale", "smoke", "--out", tmp_path, "--quiet", "--engine", "inline")
    refused = on_windows(REPORTS, *order)
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1].startswith("supple: no run starts on Windows, which lacks flock; use ")
    subprocess.run(list(map(str, [sys.executable, "-c", SUPPLE, *order])), check=True, capture_output=True)
    (tmp_path / "report" / "index.html").unlink()
    reported = on_windows(REPORTS, "report", "quickstart", "--out", tmp_path)
    assert reported.returncode == 0, reported.stderr
    assert (tmp_path / "report" / "index.html").exists()
    assert "3 runs: 3 done" in on_windows(REPORTS, "list", "runs", "--out", tmp_path).stderr
    got = on_windows(REPORTS, "data", "get", "mnist", "--data", tmp_path / "data")
    assert "which Windows lacks\nTo do it by hand" in got.stderr


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_no_name_is_used_that_the_platform_lacks(platform, tmp_path):
    words = [sys.executable, "-m", "mypy", "--platform", platform, "--cache-dir", tmp_path]
    done = subprocess.run(list(map(str, words)), cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
