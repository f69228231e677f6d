"""The tasks of ingest: one a split, which writes its rows and its bad lines and returns its counts.

A task writes Parquet itself (twice as fast as through Spark) under a name of its own, which becomes the
split's name only when all is written: a task that is tried again, or twice at a time, changes nothing.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from vinecast.core.errors import InputError
from vinecast.pipeline.ingest.graph import BucketFiles
from vinecast.pipeline.ingest.kinds import KINDS
from vinecast.pipeline.ingest.lines import Bad
from vinecast.pipeline.ingest.output import ParquetOutput
from vinecast.pipeline.ingest.splits import Split, blocks_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS, TASK_BYTES = 16, 1 << 20
"""Of many small files a task reads several, about so many bytes (ours), unless there are few tasks."""
_BAD = pa.schema({"file": pa.string(), "line": pa.int64(), "reason": pa.string(), "text": pa.string()})


@dataclass(frozen=True, slots=True)
class SplitTally:
    """What became of the lines of a split."""

    split: int
    good: int = 0
    bad: int = 0
    skipped: int = 0
    loops: int = 0
    first_bad: str | None = None
    """The first bad line and its reason."""
    fault: str | None = None
    """Why the file cannot be taken at all."""


_TALLY = "split long, good long, bad long, skipped long, loops long, first_bad string, fault string"


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the tasks write."""

    good: Path
    """The folder of rows; of edges, with a folder a bucket in it."""
    bad: Path
    """The folder of bad lines."""
    buckets: int
    """Over how many buckets edges are spread; 0 for other formats."""
    directed: bool


def stage_split(kind: str, split: Split, to: Destination) -> SplitTally:
    """Read a split; its rows go to one folder, its bad lines to the other."""
    reader = KINDS[kind].reader()
    name, file = f"split-{split.number:05}.parquet", Path(split.path).name
    good_rows = bad_rows = skipped = loops = 0
    first_bad = None
    try:
        with ExitStack() as outputs:
            rows: ParquetOutput | BucketFiles
            if to.buckets:
                rows = BucketFiles(to.good, name, to.buckets, to.directed)
                for output in rows.outputs():
                    outputs.enter_context(output)
            else:
                rows = outputs.enter_context(ParquetOutput(to.good / name, reader.schema))
            faulty = outputs.enter_context(ParquetOutput(to.bad / name, _BAD))
            for block in blocks_of(split):
                taken = reader.take(block)
                rows.write(taken.rows)
                faulty.write(bad_lines(file, taken.bad))
                good_rows += taken.rows.num_rows
                bad_rows += len(taken.bad)
                skipped += taken.skipped
                loops += taken.loops
                if first_bad is None and taken.bad:
                    first_bad = f"line {taken.bad[0].line}: {taken.bad[0].reason}"
            if not bad_rows:  # else the lines say what is wrong
                reader.finish()
    except InputError as error:
        return SplitTally(split.number, fault=str(error))
    return SplitTally(split.number, good_rows, bad_rows, skipped, loops, first_bad)


def bad_lines(file: str, bad: list[Bad]) -> pa.RecordBatch:
    """Bad lines as rows of the quarantine."""
    columns = [
        [file] * len(bad),
        [one.line for one in bad],
        [one.reason for one in bad],
        [one.text for one in bad],
    ]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, _BAD.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_BAD)


def stage(spark: "SparkSession", kind: str, splits: Sequence[Split], to: Destination) -> list[SplitTally]:
    """Read all splits, a task each unless they are small; the counts in order."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            tallies = [stage_split(kind, splits[i], to) for i in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pylist([asdict(tally) for tally in tallies], schema=arrow)

    long, text = pa.int64(), pa.string()
    arrow = pa.schema(
        {field.name: text if field.name in ("first_bad", "fault") else long for field in fields(SplitTally)}
    )
    to.good.mkdir(parents=True, exist_ok=True)
    tasks = min(len(splits), max(TASKS, sum(split.end - split.begin for split in splits) // TASK_BYTES))
    numbers = spark.range(0, len(splits), 1, numPartitions=tasks)
    rows = numbers.mapInArrow(run, _TALLY).collect()  # one row a split
    return sorted((SplitTally(**row.asDict()) for row in rows), key=lambda tally: tally.split)
