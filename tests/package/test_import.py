"""What `import supple` loads beyond torch: little, so that it takes little time."""

import platform
import runpy
import subprocess
import sys

import torch

import supple

# What is heavy in torch and in supple, and serves only those who use it.
NOT_LOADED = {"torch._dynamo", "torch._inductor", "triton", "sympy", "supple_lab"}
NOT_LOADED |= {
    f"supple.{name}" for name in ("convert.conversion", "integrations", "theory", "units.export", "units.follow")
}


def test_import_of_supple_loads_nothing_that_only_some_use():
    code = "import torch, sys; before = set(sys.modules); import supple; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "supple.convert" in loaded
    assert not loaded & NOT_LOADED
    outside = {name for name in loaded if name.partition(".")[0] != "supple"}
    assert not {name for name in outside if name.partition(".")[0] not in sys.stdlib_module_names}


def test_module_run_as_a_program_says_versions_kernels_and_devices(capsys):
    runpy.run_module("supple", run_name="__main__")
    first, *kernels, devices = capsys.readouterr().out.splitlines()
    versions = f"supple {supple.__version__}, torch {torch.__version__}, Python {platform.python_version()}, "
    assert first.startswith(versions)
    assert kernels == [f"kernel of {line}" for line in supple.kernels.describe().splitlines()]
    assert devices.startswith("devices: cpu (")
