"""What tests about the source need to know of a file: it is parsed once a process, and no tree is kept."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

FUNCTIONS = ast.FunctionDef, ast.AsyncFunctionDef


class Definition(NamedTuple):
    """A class or a function."""

    owner: str
    """The class that it is in, with a dot; or nothing."""
    name: str
    is_class: bool
    line: int
    lines: int
    parameters: int
    """Without self and cls."""
    docstring: str | None


class Source(NamedTuple):
    """A file."""

    definitions: tuple[Definition, ...]
    imports: tuple[tuple[str, ...], ...]
    """What it takes from modules when it runs, as paths."""


@cache
def source_of(path: Path) -> Source:
    definitions, imports = [], []
    for owner, node in _statements(ast.parse(path.read_text("utf-8"), str(path)).body, ""):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            docstring, is_class = ast.get_docstring(node), isinstance(node, ast.ClassDef)
            found = Definition(owner, node.name, is_class, node.lineno, lines, _parameters(node), docstring)
            definitions.append(found)
        elif isinstance(node, ast.ImportFrom) and node.module:
            imports += [(*node.module.split("."), one.name) for one in node.names]
    return Source(tuple(definitions), tuple(imports))


def _parameters(node: ast.stmt) -> int:
    if not isinstance(node, FUNCTIONS):
        return 0
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return sum(one.arg not in ("self", "cls") for one in given)


def _statements(body: list[ast.stmt], owner: str) -> Iterator[tuple[str, ast.stmt]]:
    """All statements, but for those that only type checkers read; with the class that they are in."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield owner, node
        within = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        inner = [node, *getattr(node, "handlers", []), *getattr(node, "cases", [])]
        for part in inner:
            for field in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(part, field, []), within)
