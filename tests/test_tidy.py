"""Tidiness: sizes, folders that need each other one way only, one version, documented public names."""

import re
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import vinecast
from support.paths import DOCS, ROOT, TESTS
from support.source import Definition, source_of

PACKAGE = Path(vinecast.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
FILES = [*MODULES, *sorted(TESTS.rglob("*.py"))]
"""Modules and tests."""
pytestmark = pytest.mark.xdist_group("source")  # so that files are parsed once

FOLDER_MODULES_MAX = 25
MODULE_LINES_MAX = 450
FUNCTION_LINES_MAX = 70
PARAMETERS_MAX = 8


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else TESTS.parent).as_posix()


def functions(files: list[Path]) -> Iterator[tuple[str, Definition]]:
    """Every function, with its file and its name."""
    for path in files:
        for one in source_of(path).definitions:
            if not one.is_class:
                yield f"{name_of(path)}:{one.line} {one.owner}{one.name}", one


def test_folders_are_small() -> None:
    counts: dict[Path, int] = defaultdict(int)
    for path in FILES:
        counts[path.parent] += 1
    large = [
        f"{name_of(folder)} has {count}" for folder, count in counts.items() if count > FOLDER_MODULES_MAX
    ]
    assert not large, f"more than {FOLDER_MODULES_MAX} modules: make folders by subject: {', '.join(large)}"


def test_modules_are_small() -> None:
    sizes = {name_of(path): len(path.read_text("utf-8").splitlines()) for path in FILES}
    large = [f"{name} has {lines}" for name, lines in sizes.items() if lines > MODULE_LINES_MAX]
    assert not large, f"more than {MODULE_LINES_MAX} lines: split by concept: {', '.join(large)}"


def test_functions_are_small() -> None:
    large = [f"{name} has {one.lines}" for name, one in functions(FILES) if one.lines > FUNCTION_LINES_MAX]
    assert not large, f"more than {FUNCTION_LINES_MAX} lines: name its parts: {', '.join(large)}"


def test_functions_take_few_parameters() -> None:
    found = functions(MODULES)
    large = [f"{name} takes {one.parameters}" for name, one in found if one.parameters > PARAMETERS_MAX]
    assert not large, (
        f"more than {PARAMETERS_MAX} parameters: hand in what belongs together as one: {', '.join(large)}"
    )


def test_folders_do_not_need_each_other_both_ways() -> None:
    needs: dict[Path, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for path in MODULES:
        own = path.relative_to(PACKAGE).parts[:-1]
        for top, *other in source_of(path).imports:
            if top != "vinecast":
                continue
            depth = next((i for i, (a, b) in enumerate(zip(own, other, strict=False)) if a != b), None)
            if depth is not None and PACKAGE.joinpath(*other[: depth + 1]).is_dir():
                needs[PACKAGE.joinpath(*own[:depth])][own[depth]].add(other[depth])
    for folder, graph in needs.items():
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            ring = " → ".join(error.args[1])
            pytest.fail(f"in vinecast/{name_of(folder)}: {ring}: move what both need below them")


def test_the_version_stands_once() -> None:
    from vinecast.core.version import VERSION

    assert vinecast.__version__ == VERSION
    found = [name_of(path) for path in MODULES if f'"{VERSION}"' in path.read_text("utf-8")]
    assert found == ["core/version.py"], f"take the version from core/version.py: {found}"
    assert f'"{VERSION}"' not in (ROOT / "pyproject.toml").read_text("utf-8"), (
        "pyproject.toml reads core/version.py"
    )


def test_public_names_are_documented() -> None:
    pages = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    words = set(re.findall(r"\w+", "\n".join(page.read_text("utf-8") for page in pages)))
    missing = [name for name in vinecast.__all__ if name not in words]
    assert not missing, f"describe these in the README or in docs/: {', '.join(missing)}"
