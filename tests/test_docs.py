"""Docs: links lead somewhere, and modules that pages and docstrings name are there."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from support.paths import DOCS, ROOT

PACKAGE = ROOT / "src/vinecast"
FENCE = re.compile(r"^( *)```.*?^\1```$", flags=re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
MODULE = re.compile(
    r"(?:src/vinecast/)?(core|protocols|systems|peer|node|sim|pipeline|lab|cli)/[\w/]+(\.py)?"
)
DOTTED = re.compile(r"vinecast(?:\.[a-z]\w*)+|(core|protocols|systems|peer|sim|lab)\.[a-z]\w*(?:\.\w+)*")
TEST = re.compile(r"tests/[\w/]+(\.py)?")
FILE = re.compile(r"\w+\.py")
QUOTED = re.compile(r"``([^`\n]+)``")
PAGE = re.compile(r"docs/[\w/.-]+\.md(?:#[\w-]+)?")


def pages() -> list[Path]:
    """All pages but those that commands print (docs/measured)."""
    docs = (path for path in DOCS.rglob("*.md") if "measured" not in path.parts)
    return [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")), *sorted(docs)]


def prose() -> Iterator[tuple[Path, str]]:
    """Pages without their blocks of code."""
    return ((page, FENCE.sub("", page.read_text())) for page in pages())


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ +(.+?) *$", FENCE.sub("", page.read_text()), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def is_module(path: str) -> bool:
    """Whether a path below the package is a module, with or without ``.py``, or a folder."""
    return (PACKAGE / path).exists() or (PACKAGE / f"{path}.py").exists()


def has_name(dotted: str) -> bool:
    """Whether dots lead to a module or folder below a room, and at most one name behind it is in there."""
    parts = dotted.removeprefix("vinecast.").split(".")
    for count in range(len(parts), 0, -1):
        path = PACKAGE.joinpath(*parts[:count])
        source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if source.is_file():
            return all(re.search(rf"\b{name}\b", source.read_text()) for name in parts[count:])
    return False


@cache
def files() -> set[str]:
    """The names of all modules and tests."""
    return {path.name for folder in (PACKAGE, ROOT / "tests") for path in folder.rglob("*.py")}


def is_there(code: str) -> bool:
    """Whether what stands in backticks is no path of ours, or one that exists."""
    if MODULE.fullmatch(code):
        return is_module(code.removeprefix("src/vinecast/"))
    if DOTTED.fullmatch(code):
        return has_name(code)
    if TEST.fullmatch(code):
        return (ROOT / code).exists()
    return not FILE.fullmatch(code) or code in files()


def told(page: Path, what: str) -> str:
    return f"{page.relative_to(ROOT)}: {what}"


def leads_somewhere(target: str, page: Path) -> bool:
    """Whether a link from a page leads to a file and, in another page, to a heading."""
    path, _, anchor = target.partition("#")
    to = (page.parent / path).resolve() if path else page
    return to.exists() and (not anchor or to.suffix != ".md" or anchor in anchors(to))


def test_every_link_leads_to_a_file() -> None:
    dead = [
        told(page, target)
        for page, text in prose()
        for _, target in LINK.findall(text)
        if "://" not in target and not leads_somewhere(target, page)
    ]
    assert not dead, "point these links to where the file or the heading is now:\n" + "\n".join(dead)


def test_links_are_called_as_their_files_are() -> None:
    wrong = [
        told(page, f"[{name}]({target})")
        for page, text in prose()
        for name, target in LINK.findall(text)
        if name.endswith(".py") and not f"/{target}".endswith(f"/{name}")
    ]
    assert not wrong, "call each of these links as the file that it points to:\n" + "\n".join(wrong)


def test_modules_in_backticks_are_there() -> None:
    gone = [
        told(page, f"`{code}`") for page, text in prose() for code in CODE.findall(text) if not is_there(code)
    ]
    assert not gone, "name the module as it is called now, or leave it out:\n" + "\n".join(gone)


def test_examples_import_what_is_there() -> None:
    imports = re.compile(r"^ *(?:from|import) (vinecast\.[\w.]+)(?: import (\w+))?", flags=re.MULTILINE)
    gone = [
        told(page, f"from {module} import {name}")
        for page in pages()
        for module, name in imports.findall(page.read_text())
        if not has_name(f"{module}.{name}" if name else module)
    ]
    assert not gone, "let these examples import from where the module is now:\n" + "\n".join(gone)


def test_what_docstrings_name_is_there() -> None:
    gone = []
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        gone += [told(path, f"``{code}``") for code in QUOTED.findall(text) if not is_there(code)]
        gone += [told(path, to) for to in PAGE.findall(text) if not leads_somewhere(to, ROOT / "README.md")]
    assert not gone, "name the module or the page as it is called now, or leave it out:\n" + "\n".join(gone)


def test_what_is_checked_can_fail() -> None:
    assert is_there("peer/codecs/codec.py")
    assert is_there("core/log/streams")
    assert is_there("vinecast.core.arrays.regularity")
    assert is_there("core.log.name_record.NameChecker")
    assert is_there("node.db")
    assert not is_there("peer/wire/codex.py")
    assert not is_there("core.names.NameChecker")
    assert not is_there("tests/test_nothing.py")
    assert leads_somewhere("docs/node.md#bounds", ROOT / "README.md")
    assert not leads_somewhere("docs/node.md#no-bounds", ROOT / "README.md")
    assert not leads_somewhere("docs/nowhere.md", ROOT / "README.md")
