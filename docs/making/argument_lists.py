"""Arguments in docstrings: a paragraph of lines `name: what it is` becomes a list in the reference, a line for each."""

import re
from typing import Any

PARAGRAPH = re.compile(r"<p>((?:[a-z_]+: [^\n]*(?:\n +[^\n]*)*\n?)+)</p>")
ARGUMENT = re.compile(r"^([a-z_]+): ", re.MULTILINE)


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """Called by mkdocs with the page as HTML."""
    if not page.file.src_uri.startswith("reference/"):
        return content
    return PARAGRAPH.sub(lambda found: "<ul>" + ARGUMENT.sub(r"<li><code>\1</code>: ", found[1]) + "</ul>", content)
