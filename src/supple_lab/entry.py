"""The `supple` script: the command line, or how to install it where the laboratory's packages are missing."""

import sys

from supple.version import __version__
from supple_lab.commands.base import BAD_USAGE

PACKAGES = ("supple", "supple_lab")  # of these a missing module is a broken installation, not a missing extra


def main() -> None:
    """Entry point of the script."""
    if sys.argv[1:] == ["--version"]:
        print(f"supple {__version__}")
        return
    try:
        from supple_lab import cli
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in PACKAGES:
            raise
        print(f"supple: {how_to_install(missing)}", file=sys.stderr)
        sys.exit(BAD_USAGE)
    cli.main()


def how_to_install(missing: str) -> str:
    """What to do about a missing package."""
    return (
        f"the command line needs the laboratory, whose package {missing!r} is not installed. Install it with: "
        "pip install -e '.[lab]' in a checkout. The library itself, `import supple`, works without."
    )
