"""Equations of the site: TeX between dollar signs becomes MathML when the site is built, so that no script draws it."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

# What pymdownx.arithmatex leaves: a span around \(...\), a div around \[...\].
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Called by mkdocs with the page as HTML."""
    content = INLINE.sub(lambda found: mathml(found[1], display="inline"), content)
    return BLOCK.sub(lambda found: f'<div class="equation">{mathml(found[1], display="block")}</div>', content)


def mathml(tex: str, *, display: str) -> str:
    """One equation; its TeX stays as what a screen reader may say."""
    plain = " ".join(html.unescape(tex).split())
    return convert(plain, display=display).replace("<math ", f'<math alttext="{html.escape(plain)}" ', 1)
