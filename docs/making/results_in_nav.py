"""Results in the navigation: every page of docs/results is listed under "Results", behind the verdicts."""

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Called by mkdocs once, before it reads the pages."""
    pages = sorted(
        path.relative_to(config.docs_dir).as_posix() for path in Path(config.docs_dir, "results").glob("*.md")
    )
    section = next(entry["Results"] for entry in config.nav if isinstance(entry, dict) and "Results" in entry)
    section.extend(page for page in pages if page not in section)
    return config
