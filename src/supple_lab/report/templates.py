"""Templates: the HTML files beside this one. All that is filled in is escaped."""

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

HERE = Path(__file__).parent


@cache
def template(name: str) -> Template:
    """One of the files."""
    return _environment().get_template(name)


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
