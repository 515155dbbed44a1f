"""Where datasets lie: first the folder in $SUPPLE_DATA, then a cache folder."""

import os
from pathlib import Path

VARIABLE = "SUPPLE_DATA"


def use_folder(folder: Path) -> None:
    """Look here first, in this process and in those it starts: what --data DIR does."""
    os.environ[VARIABLE] = str(folder.expanduser().absolute())


def data_folders() -> list[Path]:
    """Where to look, in order."""
    return [*_chosen(), cache_folder()]


def target_folder() -> Path:
    """Where downloads go: the chosen folder, or else the cache folder."""
    return data_folders()[0]


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/supple, or ~/.cache/supple."""
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "supple"


def _chosen() -> list[Path]:
    chosen = os.environ.get(VARIABLE)
    return [Path(chosen).expanduser().absolute()] if chosen else []
