"""Builds the optional CPU kernel: plain C, loaded by ctypes, so that it needs no Python headers and no torch.

With SUPPLE_PURE=1 it is left out, and the wheel fits every platform.
"""

import hashlib
import os
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

SOURCES = [f"src/supple/kernels/{name}" for name in ("cpu.c", "held.c", "pool.h", "renewal.c")]


class BuildLibrary(build_ext):
    """Builds anew each time, and names the library without a Python version, since it holds no Python."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.force = True  # a build is skipped by dates, which a checkout or a copy may turn round

    def get_ext_filename(self, fullname: str) -> str:
        return fullname.replace(".", "/") + ".so"

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return []


class LibraryWheel(bdist_wheel):
    """Tags the wheel with any Python 3, and with its platform if the library was built."""

    def get_tag(self) -> tuple[str, str, str]:
        library = self.get_finalized_command("build_ext").get_ext_fullpath(LIBRARY.name)
        return "py3", "none", super().get_tag()[2] if Path(library).exists() else "any"


def source_hash() -> str:
    """Built into the library, so that one built from other sources is told apart when it is loaded."""
    return hashlib.sha256(b"".join((Path(__file__).parent / name).read_bytes() for name in SOURCES)).hexdigest()[:16]


LIBRARY = Extension(
    "supple.kernels.libsupple",
    sources=[name for name in SOURCES if name.endswith(".c")],
    depends=SOURCES,
    define_macros=[("SUPPLE_SOURCE", f'"{source_hash()}"')],
    # No contraction: a product must round alike on every instruction set.
    extra_compile_args=["-std=c11", "-O3", "-g0", "-fvisibility=hidden", "-ffp-contract=off", "-Wno-psabi"],
    libraries=["m"],
    # Without a compiler the installation goes on, and the kernel in plain torch serves.
    optional=True,
)

setup(
    ext_modules=[] if os.environ.get("SUPPLE_PURE") else [LIBRARY],
    cmdclass={"build_ext": BuildLibrary, "bdist_wheel": LibraryWheel},
)
