"""The autograd node in C++ (`node.cpp`), optional: built by ``python -m supple build`` for the torch that is here."""

import functools
import hashlib
import importlib.machinery
import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import torch

SOURCE = Path(__file__).with_name("node.cpp")
NAME = "supple_node"


def library() -> Path:
    """Where it lies: one file for each source, torch and Python, since it holds all three."""
    made_of = SOURCE.read_bytes() + f"{torch.__version__} {importlib.machinery.EXTENSION_SUFFIXES[0]}".encode()
    return SOURCE.with_name(f"{NAME}-{hashlib.sha256(made_of).hexdigest()[:16]}.so")


@functools.cache
def load_node() -> tuple[Any, str]:
    """The module, or None, and why."""
    path = library()
    if not path.exists():
        return None, "`python -m supple build` makes its calls faster"
    loader = importlib.machinery.ExtensionFileLoader(NAME, str(path))
    spec = importlib.util.spec_from_file_location(NAME, path, loader=loader)
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        return None, f"the built node does not load: {error}"
    return module, "autograd node in C++"


def build_node() -> Path:
    """Compile it with the system's C++ compiler, and say where it lies."""
    from setuptools import Distribution  # type: ignore[import-untyped]
    from torch.utils.cpp_extension import BuildExtension, CppExtension

    extension = CppExtension(NAME, [str(SOURCE)], extra_compile_args=["-O2", "-g0"])
    path = library()
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:  # on the same disk, so that the move is one act
        command = BuildExtension(Distribution({"name": NAME, "ext_modules": [extension]}), use_ninja=False)
        command.build_lib = command.build_temp = folder
        command.ensure_finalized()
        command.run()
        Path(command.get_ext_fullpath(NAME)).replace(path)
    return path
