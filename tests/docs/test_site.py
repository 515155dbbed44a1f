"""The built site: strict, whole, and nothing on it from elsewhere. Where mkdocs is not installed, skipped."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from browser import CHROMIUM, browser

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
# Attributes by which a browser fetches something on its own; a link that a reader may follow is another matter.
FETCHED = {"link": "href"} | dict.fromkeys(("script", "img", "iframe", "source", "video", "audio"), "src")
NOT_FETCHED = {"canonical", "prev", "next"}  # kinds of <link> that are only read


class Page(HTMLParser):
    """What a page fetches, what it links to, and the names of its places."""

    def __init__(self, text):
        super().__init__()
        self.fetched, self.links, self.places = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        own = dict(attributes)
        self.places |= {own[key] for key in ("id", "name") if own.get(key)}
        if tag == "a" and own.get("href"):
            self.links.append(own["href"])
        if own.get(FETCHED.get(tag, "")) and own.get("rel") not in NOT_FETCHED:
            self.fetched.append(own[FETCHED[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site in a folder of its own, built as `make docs` builds it."""
    for package in ("material", "mkdocstrings_handlers.python", "latex2mathml"):
        pytest.importorskip(package)
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True)
    build(config)
    return folder


@pytest.fixture(scope="module")
def site_pages(site):
    return {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}


def is_elsewhere(address):
    return bool(re.match(r"(https?:)?//", address))


def test_nothing_is_fetched_from_elsewhere(site, site_pages):
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    fetched = re.findall(r"(?:url\(|@import )[\"']?([^\"')]+)", styles)
    fetched += [address for page in site_pages.values() for address in page.fetched]
    assert not list(filter(is_elsewhere, fetched))


def test_every_link_leads_to_a_page_and_a_place(site, site_pages):
    lost = []
    for path, page in site_pages.items():
        if path.name == "404.html":
            continue  # it stands for any address, so its links are from the root
        for link in (*page.links, *page.fetched):
            target, _, place = unquote(link).partition("#")
            if is_elsewhere(target) or target.startswith(("mailto:", "data:")):
                continue
            other = (path.parent / target).resolve() if target else path
            has_place = other not in site_pages or not place or place in site_pages[other].places
            if not other.exists() or not has_place:
                lost.append(f"{path.name}: {link}")
    assert not lost


def test_equations_are_drawn_by_the_browser_alone_and_pictures_have_a_dark_twin(site):
    text = (site / "methods.html").read_text()
    assert text.count("<math ") > 20
    assert "\\frac" not in re.sub(r'alttext="[^"]*"', "", text)
    assert "arithmatex" not in text
    text = (site / "plasticity.html").read_text()
    assert 'src="images/aid.svg#only-light"' in text
    assert 'src="images/aid-dark.svg#only-dark"' in text


def test_reference_has_what_the_docstrings_say(site):
    text = (site / "reference" / "library.html").read_text()
    assert "ReLU with probability p, else negative ReLU" in text
    assert 'id="supple.convert.convert"' in text


@pytest.fixture(scope="module")
def tab():
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with browser() as tab:
        yield tab


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)], ids=["desktop", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_start_page_has_picture_line_and_verdicts_in_one_screen(tab, site, width, height, dark):
    tab.open((site / "index.html").as_uri(), width=width, height=height, dark=dark)
    tab.ask("localStorage.clear()")  # the shade of the page before
    tab.open((site / "index.html").as_uri(), width=width, height=height, dark=dark)
    shade = "dark" if dark else "light"
    tab.ask(f"document.querySelector('.start img[src$=only-{shade}]').decode()")  # the dark one is loaded when seen
    shown = "[...document.querySelectorAll('.start img, .start pre, .verdict')].filter(e => e.offsetHeight)"
    boxes = tab.ask(f"{shown}.map(e => e.getBoundingClientRect()).map(b => [b.left, b.top, b.right, b.bottom])")
    assert len(boxes) == 6  # one picture of the two shades, one program, four verdicts
    assert all(left >= 0 and top >= 0 and right <= width and bottom <= height for left, top, right, bottom in boxes)
    assert tab.ask("document.documentElement.scrollWidth") == width
    assert tab.complaints == []


@pytest.mark.parametrize(("words", "page"), [("dormant", "metrics.html"), ("attach", "reference/library.html")])
def test_search_finds_pages_without_a_server_or_a_network(tab, site, words, page):
    tab.open((site / "index.html").as_uri())
    found = tab.ask(f"""new Promise(done => {{
        const box = document.querySelector(".md-search__input")
        box.focus()
        box.value = {words!r}
        box.dispatchEvent(new Event("keyup", {{bubbles: true}}))
        const look = () => {{
            const links = [...document.querySelectorAll("a.md-search-result__link")].map(a => a.href)
            links.length ? done(links) : setTimeout(look, 50)
        }}
        look()
    }})""")
    assert any(page in link for link in found)
    assert all(request.startswith(("file:", "data:")) for request in tab.requests)
