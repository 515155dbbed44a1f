"""What `import supple` loads beyond torch: little, so that it takes little time."""

import ast
import platform
import runpy
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

import supple
from supple import methods

# What is heavy in torch and in supple, and serves only those who use it.
NOT_LOADED = {"torch._dynamo", "torch._inductor", "triton", "sympy", "supple_lab"}
NOT_LOADED |= {
    f"supple.{name}" for name in ("convert.conversion", "integrations", "theory", "units.export", "units.follow")
}
NOT_LOADED |= {f"supple.{name}" for name in ("diagnosis", "gap", "methods.cbp", "metrics", "monitor")}


def test_import_of_supple_loads_nothing_that_only_some_use():
    code = "import torch, sys; before = set(sys.modules); import supple; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "supple.convert" in loaded
    assert not loaded & NOT_LOADED
    outside = {name for name in loaded if name.partition(".")[0] != "supple"}
    assert not {name for name in outside if name.partition(".")[0] not in sys.stdlib_module_names}


def imported_for_type_checkers(module: ModuleType) -> dict[str, str]:
    """Names under TYPE_CHECKING, and the file each comes from."""
    (block,) = (node for node in ast.parse(Path(module.__file__).read_text()).body if isinstance(node, ast.If))
    lines = (node for node in block.body if isinstance(node, ast.ImportFrom))
    return {alias.name: line.module.removeprefix(f"{module.__name__}.") for line in lines for alias in line.names}


@pytest.mark.parametrize("module", [supple, methods], ids=lambda module: module.__name__)
def test_every_name_imported_late_is_found_by_star_dir_and_type_checkers(module):
    assert imported_for_type_checkers(module) == module.FILE_OF
    code = f"import {module.__name__} as m; assert set(m.__all__) <= set(dir(m)); from {module.__name__} import *\n"
    code += "print(*(name for name in m.__all__ if getattr(m, name) is not globals()[name]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
    assert set(module.FILE_OF) <= set(module.__all__)
    with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'cpb'"):
        module.cpb  # noqa: B018


def test_a_name_imported_late_is_the_same_after_its_file_was_imported_by_itself():
    # Python puts a file's name into the package when it is imported, in place of a function of that name.
    order = "import supple.gap, supple.diagnosis, supple.monitor, supple.convert.saved, supple.attach, supple.inject"
    code = f"{order}; print(*(callable(getattr(supple, name)) for name in supple.__all__ if name[0] != '_'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split().count("False") == 2  # functional and kernels


def test_module_run_as_a_program_says_versions_kernels_and_devices(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["supple"])
    runpy.run_module("supple", run_name="__main__")
    first, *kernels, devices = capsys.readouterr().out.splitlines()
    versions = f"supple {supple.__version__}, torch {torch.__version__}, Python {platform.python_version()}, "
    assert first.startswith(versions)
    assert kernels == [f"kernel of {line}" for line in supple.kernels.describe().splitlines()]
    assert devices.startswith("devices: cpu (")


def test_module_run_as_a_program_explains_itself_and_refuses_other_words(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["supple", "--help"])
    runpy.run_module("supple", run_name="__main__")
    assert "`build`: make the C++ node" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["supple", "biuld", "now"])
    with pytest.raises(SystemExit, match=r"^python -m supple takes build or nothing; got 'biuld now'\.$"):
        runpy.run_module("supple", run_name="__main__")
