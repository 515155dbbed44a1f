"""A Python environment with nothing but what it is given, made without a download: other packages are linked in."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SOURCES = ("src", "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "Makefile")


@dataclass(frozen=True)
class Environment:
    """A virtual environment in a folder."""

    folder: Path

    @classmethod
    def create(cls, folder: Path, *packages: str) -> "Environment":
        """A new one, which sees these packages and all that they require of this one's, and no other."""
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        linked = folder / "linked"
        linked.mkdir()
        for package in required_by(packages):
            link_(package, linked)
        site = next(folder.glob("lib/python*/site-packages"))
        (site / "linked.pth").write_text(f"{linked}\n")
        return cls(folder)

    def install(self, wheel: Path) -> None:
        """Install a wheel or a source distribution, without what it requires."""
        pip = [sys.executable, "-m", "pip", "--python", self.folder / "bin" / "python", "install", "--quiet"]
        subprocess.run([*pip, "--no-deps", "--no-index", "--no-build-isolation", wheel], check=True)

    def run(self, *command: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment away from the checkout."""
        program = self.folder / "bin" / str(command[0])
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        environment = kept | {"OMP_NUM_THREADS": "1"}
        arguments = [str(program), *map(str, command[1:])]
        return subprocess.run(arguments, cwd=cwd or self.folder, env=environment, capture_output=True, text=True)

    def python(self, code: str) -> str:
        """What the code prints."""
        done = self.run("python", "-c", code)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


def required_by(packages: tuple[str, ...]) -> list[str]:
    """The packages, and what they require here, extras apart."""
    found: dict[str, None] = {}
    pending = list(packages)
    while pending:
        package = pending.pop()
        name = re.split(r"[^\w.-]", package)[0].lower().replace("_", "-")
        if name in found or "extra ==" in package or not is_installed(name):
            continue
        found[name] = None
        pending += importlib.metadata.requires(name) or []
    return list(found)


def is_installed(package: str) -> bool:
    """Whether the package is here: what a marker excludes is not."""
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def link_(package: str, folder: Path) -> None:
    """Link everything that the package has put into site-packages into the folder."""
    distribution = importlib.metadata.distribution(package)
    tops = {file.parts[0] for file in distribution.files or [] if file.parts[0] not in ("..", "__pycache__")}
    for top in tops:
        if not (folder / top).exists():
            (folder / top).symlink_to(Path(str(distribution.locate_file(top))))


def build_wheel(folder: Path, *, compiler: str | None = None) -> Path:
    """The wheel of the checkout, made from its source distribution, which so proves to be whole."""
    environment = {**os.environ, "CC": compiler} if compiler else None
    source = copied_checkout(folder / "checkout")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", source]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next((folder / "dist").glob("*.whl"))


def make_dist(folder: Path) -> list[Path]:
    """What `make dist` makes of the checkout with the tools of this environment."""
    source = copied_checkout(folder / "checkout")
    command = ["make", "--old-file=.venv/dist", "dist", f"BIN={Path(sys.executable).parent}"]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return list((source / "dist").iterdir())


def copied_checkout(folder: Path) -> Path:
    """The files that packages are made of, and nothing that was built before."""
    folder.mkdir(parents=True)
    for name in SOURCES:
        origin = ROOT / name
        if origin.is_dir():
            shutil.copytree(origin, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so"))
        else:
            shutil.copy(origin, folder / name)
    return folder
