"""What the commands print: tables, JSON, progress."""

import json
import math
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from vinecast.core.errors import MissingExtraError

if TYPE_CHECKING:
    from rich.console import Console

SLOW_S = 1.5
"""Seconds after which a command says what it is doing."""


class ResultLike(Protocol):
    """What a benchmark measured: those of live nodes and of simulations are alike."""

    @property
    def what(self) -> str: ...

    @property
    def measured(self) -> str: ...

    @property
    def target(self) -> str: ...

    @property
    def verdict(self) -> str: ...

    def as_dict(self) -> dict[str, Any]: ...


def make_console() -> "Console":
    from rich.console import Console

    class Piped(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Piped(width=None if sys.stdout.isatty() else 140)


def print_json(value: object) -> None:
    value = _without_nan(value)
    print(json.dumps(value, allow_nan=False, indent=2, sort_keys=True, ensure_ascii=False))  # noqa: T201


def _without_nan(value: object) -> object:
    """A number that is none becomes null: JSON knows no NaN."""
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    title: str,
    markdown: bool = False,
    lines: bool = True,
) -> None:
    """A table for the terminal, or the same in Markdown for the documentation. lines: between its rows"""
    if markdown:
        text = [f"`{title}`", "", _row(headings), _row("---" for _ in headings), *map(_row, rows)]
        print("\n".join(text))  # noqa: T201
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(*headings, title=Text(title), show_lines=lines)
    colours = {"yes": "green", "no": "red"}
    for row in rows:
        table.add_row(*(Text(cell, style=colours.get(cell, ""), overflow="fold") for cell in row))
    make_console().print(table)


def print_results(results: Sequence[ResultLike], title: str, as_json: bool, markdown: bool) -> None:
    """What a benchmark measured, next to its targets."""
    if as_json:
        print_json([result.as_dict() for result in results])
        return
    rows = [(result.what, result.measured, result.target, result.verdict) for result in results]
    print_table(("what", "measured", "target", "meets it"), rows, title, markdown)


def print_below(
    headings: Sequence[str], rows: Sequence[Sequence[str]], title: str, markdown: bool = False
) -> None:
    """One more table, of many short rows."""
    print()  # noqa: T201
    print_table(headings, rows, title, markdown, lines=False)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


@contextmanager
def need(what: str, extra: str) -> Iterator[None]:
    """Turn a missing package into a sentence that says which extra brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("vinecast"):
            raise
        raise MissingExtraError(what, extra, error.name or "a package") from None


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[..., None]]:
    """A progress bar on standard error; silent where that is not a terminal.

    It is told how much is done, in words too, and, where that was not known before, of how much.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(label, total=total)

        def tell(done: int, text: str, of: int = total) -> None:
            bar.update(task, completed=done, description=text, total=of)

        yield tell


def plain(text: str) -> str:
    """A stranger's text; quoted and escaped if it holds anything that a terminal might obey."""
    return text if text.isprintable() else json.dumps(text, ensure_ascii=True)


def complain(sentence: str) -> None:
    """A sentence on standard error."""
    print(f"vinecast: {' '.join(sentence.split())}", file=sys.stderr, flush=True)  # noqa: T201


@contextmanager
def patience(text: str) -> Iterator[None]:
    """Say what takes so long, if it does."""
    timer = threading.Timer(SLOW_S, complain, (text,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
