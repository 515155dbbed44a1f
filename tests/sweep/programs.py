"""Python programs that stand in for others: called by their name, wherever this Python lies."""

import sys
from pathlib import Path

# To the shell the second line starts Python on this very file; to Python it is a text, and so is the third.
HEAD = """#!/bin/sh
'''exec' "{python}" "$0" "$@"
' '''
"""


def write_program(path: Path, source: str) -> None:
    """A file that can be executed; a first line that names Python would end at a space in its path."""
    path.write_text(HEAD.format(python=sys.executable) + source)
    path.chmod(0o755)
