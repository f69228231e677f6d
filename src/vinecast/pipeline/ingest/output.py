"""Parquet files that tasks write: all of a file or nothing, however often a task is tried."""

import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


class ParquetOutput:
    """A file that takes its name when it is closed without an error; one without rows is not made."""

    def __init__(
        self, path: Path, schema: pa.Schema, compression: str = "lz4", dictionary: bool = True
    ) -> None:
        self.path = path
        self.schema = schema
        self.compression = compression
        self.dictionary = dictionary
        self.partial = path.with_name(f"_{path.stem}-{uuid.uuid4().hex}")
        self.writer: pq.ParquetWriter | None = None

    def __enter__(self) -> "ParquetOutput":
        return self

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        if not batch.num_rows:
            return
        if self.writer is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.writer = pq.ParquetWriter(
                self.partial, self.schema, compression=self.compression, use_dictionary=self.dictionary
            )
        self.writer.write_batch(batch, row_group_size=1 << 20)

    def __exit__(self, kind: object, *_: object) -> None:
        if self.writer is None:
            return
        try:
            self.writer.close()
            if kind is None:
                self.partial.replace(self.path)
        finally:
            self.partial.unlink(missing_ok=True)
