"""From the lines of a block to rows: line by line, by the definition, or edges in one compiled pass.

``TakenLines`` holds what became of every line: a row, a reason why not, or nothing (blank lines, comments and
headings). Edge lists are large, so lines of the plain shape ``digits separator digits`` go through a compiled
loop; every other line is looked at by ``vinecast.sim.workload.edges.edge_of``, which is the definition of
both.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vinecast.core.rule import rule
from vinecast.pipeline.ingest.splits import Block
from vinecast.sim.workload.edges import COMMENTS, edge_of

TEXT_MAX = 200
"""How many characters of a bad line are kept."""

_NEWLINE, _RETURN, _TAB, _BLANK, _COMMA, _ZERO, _NINE = 10, 13, 9, 32, 44, 48, 57
_DIGITS_MAX = 18  # always fit 64 bits; as in vinecast.sim.workload.edges


@dataclass(frozen=True, slots=True)
class Bad:
    """A line that could not be taken."""

    line: int
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class TakenLines:
    """What became of some lines: rows, bad lines, and how many hold no data."""

    rows: pa.RecordBatch
    bad: list[Bad]
    skipped: int
    loops: int = 0
    """Of edges: how many rows are self-loops."""


RowOf = Callable[[str, int], tuple[Any, ...] | None]
"""From a stripped line and its number to a row, None for a heading; a ValueError says what is wrong."""


def take_lines(
    lines: Iterable[tuple[int, bytes]], comments: tuple[str, ...], schema: pa.Schema, row_of: RowOf
) -> TakenLines:
    """Numbered lines, one by one."""
    rows: list[tuple[Any, ...]] = []
    bad: list[Bad] = []
    skipped = 0
    for number, raw in lines:
        try:
            line = raw.decode().strip()
        except UnicodeDecodeError:
            bad.append(Bad(number, "not UTF-8 text", _printable(raw[:TEXT_MAX].decode(errors="replace"))))
            continue
        if not line or line.startswith(comments):
            skipped += 1
            continue
        try:
            row = row_of(line, number)
        except ValueError as error:
            bad.append(Bad(number, str(error), line[:TEXT_MAX]))
            continue
        if row is None:
            skipped += 1
        else:
            rows.append(row)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
    return TakenLines(pa.RecordBatch.from_arrays(arrays, schema=schema), bad, skipped)


def take_block(block: Block, comments: tuple[str, ...], schema: pa.Schema, row_of: RowOf) -> TakenLines:
    """All lines of a block, one by one."""
    return take_lines(enumerate(block.lines(), start=block.first_line), comments, schema, row_of)


def take_edges(block: Block, schema: pa.Schema) -> TakenLines:
    """The edges of a block: the compiled pass, and the definition for the lines that it leaves."""
    data = block.data
    if data and not data.endswith(b"\n"):
        data += b"\n"
    lines = data.count(b"\n")
    users = np.empty((2, lines), dtype=np.int64)
    left_begin, left_line = np.empty(lines, dtype=np.int64), np.empty(lines, dtype=np.int64)
    edges, left = plain_edges(np.frombuffer(data, dtype=np.uint8), users, left_begin, left_line)
    others = (
        (block.first_line + line, data[begin : data.index(b"\n", begin)])
        for begin, line in zip(left_begin[:left].tolist(), left_line[:left].tolist(), strict=True)
    )
    slow = take_lines(others, COMMENTS, schema, lambda line, number: edge_of(line))
    columns = [np.concatenate([users[i, :edges], slow.rows.column(i).to_numpy()]) for i in range(2)]
    rows = pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=schema)
    return TakenLines(rows, slow.bad, slow.skipped, int(np.count_nonzero(columns[0] == columns[1])))


@rule
def plain_edges(
    data: NDArray[np.uint8],
    users: NDArray[np.int64],
    left_begin: NDArray[np.int64],
    left_line: NDArray[np.int64],
) -> tuple[int, int]:
    """Read lines of the plain shape; how many there were, and how many others were left.

    data: [byte], its last one a newline; users: [end, edge]; left_begin, left_line: [line] where a line that
    was left begins, and its number from 0.
    """
    edges = left = line = position = 0
    while position < data.size:
        begin = position
        source, position = _digits(data, position)
        gap = position
        position, commas = _separator(data, position)
        plain = source >= 0 and position > gap and commas <= 1
        target, position = _digits(data, position)
        while data[position] == _BLANK or data[position] == _TAB or data[position] == _RETURN:
            position += 1
        if plain and target >= 0 and data[position] == _NEWLINE:
            users[0, edges] = source
            users[1, edges] = target
            edges += 1
        else:
            left_begin[left] = begin
            left_line[left] = line
            left += 1
            while data[position] != _NEWLINE:
                position += 1
        position += 1
        line += 1
    return edges, left


@rule
def _digits(data: NDArray[np.uint8], position: int) -> tuple[int, int]:
    """The number that stands at a position, −1 when there is none of at most 18 digits; where it ends."""
    begin, value = position, 0
    while _ZERO <= data[position] <= _NINE and position - begin <= _DIGITS_MAX:
        if position - begin < _DIGITS_MAX:
            value = value * 10 + int(data[position]) - _ZERO
        position += 1
    if position == begin or position - begin > _DIGITS_MAX:
        value = -1
    return value, position


@rule
def _separator(data: NDArray[np.uint8], position: int) -> tuple[int, int]:
    """Where blanks, tabs and commas end, and how many commas there were."""
    commas = 0
    while data[position] == _BLANK or data[position] == _TAB or data[position] == _COMMA:
        if data[position] == _COMMA:
            commas += 1
        position += 1
    return position, commas


def _printable(text: str) -> str:
    """Without what a table cannot hold."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")
