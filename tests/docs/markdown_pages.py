"""The pages of docs/ as text: their code blocks, links and headings."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
FENCE = re.compile(r"^(```+)([^\n`]*)\n(.*?)^\1\s*$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^(#{1,6}) +(.+?)\s*$", re.MULTILINE)
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")


def pages():
    """Every page, by its path within docs/."""
    return {path.relative_to(DOCS).as_posix(): path.read_text() for path in sorted(DOCS.rglob("*.md"))}


def code_blocks(text, language, *, whole):
    """The code of a page in one language: the blocks of each heading of the second level, or of the whole page."""
    code = {}
    title = ""
    for line in re.finditer(rf"{FENCE.pattern}|{HEADING.pattern}", text, FENCE.flags):
        _, own, block, level, heading = line.groups()
        if level is not None and len(level) <= 2 and not whole:
            title = heading
        elif own is not None and own.strip() == language:
            code.setdefault(title, []).append(block)
    return code


def python_programs(text, *, whole):
    """The Python code of a page: one program for each heading of the second level, or one for the whole page."""
    return {title: "".join(blocks) for title, blocks in code_blocks(text, "python", whole=whole).items()}


def imported(code):
    """The packages that a program imports."""
    names = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
    return names


def used(code):
    """The names that a program uses: importing them is not enough."""
    nodes = list(ast.walk(ast.parse(code)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def described(text):
    """The names that a page of the reference describes: of its ::: lines, with the members that these list."""
    found = set()
    for path, options in re.findall(r"^::: (\S+)\n((?: +.*\n)*)", text, re.MULTILINE):
        *_, name = path.split(".")
        members = re.search(r"members: \[([^\]]+)\]", options)
        found |= set(members[1].split(", ")) if members else set()
        if "show_root_heading: false" not in options:
            found.add(name)
        elif not members:
            found |= functions_of(path)
    return found


def functions_of(path):
    """The functions of a module."""
    tree = ast.parse(ROOT.joinpath("src", *path.split(".")).with_suffix(".py").read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def links(text):
    """Where links and pictures outside of code lead to."""
    prose = re.sub(r"`[^`\n]*`", "`code`", FENCE.sub("", text))
    return LINK.findall(prose)


def anchors(text):
    """What a link to a heading of the page may say: the heading's own id, or its words with dashes."""
    found = set()
    for _, heading in HEADING.findall(FENCE.sub("", text)):
        given = re.search(r"\{ *#([\w-]+) *\}$", heading)
        found.add(given[1] if given else slug(heading))
    return found


def slug(heading):
    """A heading as an address, by the rule of Python-Markdown's table of contents."""
    words = re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading)
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", words).strip().lower())
