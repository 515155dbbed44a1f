"""Dark pictures: where an x-dark.svg lies beside a picture x.svg, the page shows the one or the other, as it is read.

Pages name the light one alone, so that they read well elsewhere too. `#only-light` and `#only-dark` are the theme's.
"""

import re
from pathlib import Path
from typing import Any

PICTURE = re.compile(r'<img ([^>]*?)src="([^"#]+)\.svg"([^>]*?)>')


def on_page_content(content: str, page: Any, config: Any, **_: Any) -> str:
    """Called by mkdocs with the page as HTML."""
    site_folder = Path(page.file.url).parent

    def both(found: re.Match[str]) -> str:
        before, stem, after = found.groups()
        if not Path(config.docs_dir, site_folder, f"{stem}-dark.svg").exists():
            return found[0]
        return (
            f'<img {before}src="{stem}.svg#only-light"{after}>'
            f'<img {before}src="{stem}-dark.svg#only-dark" loading="lazy"{after}>'
        )

    return PICTURE.sub(both, content)
