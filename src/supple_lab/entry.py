"""The `supple` script: the command line, or how to install it if the laboratory's packages are missing."""

import sys
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("supple", "supple_lab")  # of these a missing module is a broken installation, not a missing extra
BAD_USAGE = 2


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        print(f"supple {version()}")
        return
    try:
        from supple_lab import cli

        cli.main()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in PACKAGES:
            raise
        print(
            f"supple: the command line needs the laboratory, whose package {missing!r} is not installed. Install it "
            "with: pip install -e '.[lab]' in a checkout. The library itself, `import supple`, works without.",
            file=sys.stderr,
        )
        sys.exit(BAD_USAGE)


def version() -> str:
    """The library's version, read from its source: to import it would be to import torch."""
    spec = find_spec("supple")
    source = Path(str(spec and spec.origin)).with_name("version.py").read_text()
    return source.split('"')[-2]
