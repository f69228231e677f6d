"""The tree of errors: documented, public, and raised where it says."""

import ast
import asyncio
import builtins
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import vinecast
from support.paths import DOCS
from vinecast import BadNameError, ClosedError, InputError, Node, NotStartedError, SyncNode, VinecastError
from vinecast.core import errors
from vinecast.peer.topics import Pattern, check_topic

ALL = [found for found in vars(errors).values() if isinstance(found, type) and issubclass(found, Exception)]


@pytest.mark.parametrize("error", ALL, ids=lambda error: str(error.__name__))
def test_each_is_documented_public_and_in_the_tree(error: type[Exception]) -> None:
    assert error.__dict__["__doc__"]
    assert issubclass(error, VinecastError)
    assert error.__name__ in vinecast.__all__
    assert getattr(vinecast, error.__name__) is error
    page = (DOCS / "node.md").read_text(encoding="utf-8")
    assert f"\n| `{error.__name__}` |" in page, (
        f"describe {error.__name__} in the table of docs/node.md#errors"
    )


LINE_FAULTS = ("core/trace_lines", "pipeline/ingest/", "sim/engine/network", "sim/workload/", "cli/content")
"""Readers of lines: whoever calls them turns a ValueError into an InputError that names file and line."""
WITHOUT_A_SENTENCE = {
    *("NotImplementedError", "StopAsyncIteration", "StopIteration"),
    *("ArgumentTypeError", "AttributeError", "KeyError"),  # Python's own protocols ask for these
    *("BrokenPipeError", "Stopped", "TornError"),  # never leave the module that catches them
}


def raised() -> Iterator[tuple[str, ast.expr]]:
    """Whatever the package raises: where, and what."""
    package = Path(vinecast.__file__).parent
    for file in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and node.exc is not None:
                yield f"{file.relative_to(package).as_posix()}:{node.lineno}", node.exc


def test_nothing_is_raised_without_a_sentence() -> None:
    faults = []
    for where, what in raised():
        name = ast.unparse(what.func if isinstance(what, ast.Call) else what).rpartition(".")[2]
        if name in WITHOUT_A_SENTENCE or (name == "ValueError" and where.startswith(LINE_FAULTS)):
            continue
        if hasattr(builtins, name):
            faults.append(f"{where}: raise an error of core/errors.py instead of {name}")
        elif re.fullmatch(r"[A-Z]\w*", name) and not _says_something(what):
            faults.append(f"{where}: give {name} a sentence that names the thing, and says what to do")
    assert not faults, "\n" + "\n".join(faults)


def _says_something(what: ast.expr) -> bool:
    if not isinstance(what, ast.Call) or not what.args:
        return False
    texts = [str(node.value) for node in ast.walk(what.args[0]) if isinstance(node, ast.Constant)]
    return not isinstance(what.args[0], ast.Constant | ast.JoinedStr) or " " in "".join(texts)


@pytest.mark.parametrize("name", vinecast.__all__)
def test_what_is_public_can_be_imported(name: str) -> None:
    assert getattr(vinecast, name).__name__ == name


def test_a_caller_at_fault_is_told_with_an_input_error() -> None:
    wanted = ["BadName", "Closed", "Join", "MissingExtra", "NotStarted", "Refused", "Rights", "TimedOut"]
    assert all(issubclass(getattr(errors, f"{name}Error"), InputError) for name in wanted)
    assert issubclass(errors.TimedOutError, TimeoutError)
    assert errors.RefusedError("no room").reason == str(errors.RefusedError("no room")) == "no room"


@pytest.mark.parametrize("name", ["", "a//b", "a/#", "a\0"])
def test_a_bad_name_is_refused_as_one(name: str) -> None:
    with pytest.raises(BadNameError):
        check_topic(name)


def test_a_bad_pattern_is_refused_as_a_name() -> None:
    with pytest.raises(BadNameError, match="only at the end"):
        Pattern.parse("#/a")


def test_a_node_says_that_it_was_not_started() -> None:
    with pytest.raises(NotStartedError):
        Node().topics()
    with pytest.raises(NotStartedError):
        SyncNode().topics()


def test_a_node_says_that_it_was_closed() -> None:
    async def main() -> None:
        node = Node()
        await node.close()
        with pytest.raises(ClosedError):
            await node.start()

    asyncio.run(main())
