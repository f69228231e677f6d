"""Trace records on disk: Parquet, written in batches, so that memory stays bounded however long the run."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from vinecast.core.trace import FIELDS, TraceRecord, arrow_schema

BATCH_ROWS = 65_536


class TraceWriter:
    """A sink for trace records; call it with each, close it at the end."""

    def __init__(self, path: Path, run_id: str | None = None) -> None:
        """run_id: for records of many runs in one table, a first column that tells them apart"""
        self.rows = 0
        self._run_id = run_id
        self._schema = arrow_schema()
        if run_id is not None:
            self._schema = self._schema.insert(0, pa.field("run_id", pa.string(), nullable=False))
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd")
        self._columns: list[list[Any]] = [[] for _ in FIELDS]

    def __call__(self, record: TraceRecord) -> None:
        """Take one record."""
        columns = self._columns
        columns[0].append(record.time_us)
        columns[1].append(record.node)
        columns[2].append(record.kind)
        columns[3].append(record.peer)
        columns[4].append(record.message)
        columns[5].append(record.topic)
        columns[6].append(record.event)
        columns[7].append(record.hops)
        columns[8].append(record.reason)
        columns[9].append(record.size)
        if len(columns[0]) >= BATCH_ROWS:
            self._flush()

    def _flush(self) -> None:
        self.rows += len(self._columns[0])
        columns = self._columns
        if self._run_id is not None:
            columns = [[self._run_id] * len(columns[0]), *columns]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        self._columns = [[] for _ in FIELDS]

    def close(self) -> None:
        """Write what is left and finish the file."""
        self._flush()
        self._writer.close()


def write_rows(path: Path, rows: list[dict[str, Any]], types: dict[str, str]) -> None:
    """Write a small table, a dict a row, with the given Arrow types by column."""
    schema = pa.schema([pa.field(name, getattr(pa, kind)()) for name, kind in types.items()])
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, compression="zstd")


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read a small table back."""
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows
