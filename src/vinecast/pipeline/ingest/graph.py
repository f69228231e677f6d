"""Edges in order and once, without a shuffle: spread over buckets by some tasks, sorted by others.

A sort of tens of millions of pairs of numbers costs Spark several times what it costs NumPy, and a graph has
no other columns. So the tasks that read the text (``spread``) write every edge into the bucket of its source,
and every user into a bucket of its own; a bucket is small enough for one task to sort it in memory and to
write it as one file of the table (``settle``). How many buckets there are depends on the file alone.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from vinecast.pipeline.ingest.output import ParquetOutput
from vinecast.pipeline.ingest.splits import TextFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUCKET_BYTES = 32 << 20  # ours: of text; some three million edges
BUCKETS_MAX = 256  # ours: every task of a split may write as many files
_ZIPPED = 4  # how much longer the text is than its gzipped file, about
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ divided by the golden ratio: spreads neighbours
_EDGES = pa.schema({"source": pa.int64(), "target": pa.int64()})
_USERS = pa.schema({"user": pa.int64()})


def buckets_for(text: TextFile) -> int:
    """How many buckets a file's edges are spread over."""
    size = text.splits[-1].end * (_ZIPPED if text.splits[-1].zipped else 1)
    return min(BUCKETS_MAX, -(-size // BUCKET_BYTES))


def bucket_of(user: NDArray[np.int64], buckets: int) -> NDArray[np.uint16]:
    """The bucket of every user; in 16 bits, which NumPy sorts by counting. [user]"""
    mixed = (user.astype(np.uint64) * _GOLDEN) >> np.uint64(32)
    return ((mixed * np.uint64(buckets)) >> np.uint64(32)).astype(np.uint16)


def distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Every number once, in order (``np.unique`` goes through a hash table, which is slower). [number]"""
    ordered = np.sort(numbers)
    return ordered[np.diff(ordered, prepend=-1) > 0]  # none is negative


class BucketFiles:
    """The staged files of one split: edges and users, by bucket."""

    def __init__(self, folder: Path, split: str, buckets: int, directed: bool) -> None:
        self.directed = directed
        self.edges = [_numbers(_file(folder, "edges", i, split), _EDGES, "lz4") for i in range(buckets)]
        self.users = [_numbers(_file(folder, "users", i, split), _USERS, "lz4") for i in range(buckets)]

    def outputs(self) -> list[ParquetOutput]:
        """All files, to be closed together."""
        return self.edges + self.users

    def write(self, rows: pa.RecordBatch) -> None:
        """Spread some edges, loops left out; both ways if the graph is undirected."""
        source, target = rows.column(0).to_numpy(), rows.column(1).to_numpy()
        users = distinct(np.concatenate([source, target]))
        self._spread(self.users, bucket_of(users, len(self.users)), [users])
        real = source != target
        source, target = source[real], target[real]
        if not self.directed:
            source, target = np.concatenate([source, target]), np.concatenate([target, source])
        self._spread(self.edges, bucket_of(source, len(self.edges)), [source, target])

    @staticmethod
    def _spread(
        outputs: list[ParquetOutput], bucket: NDArray[np.uint16], columns: list[NDArray[np.int64]]
    ) -> None:
        order = np.argsort(bucket, kind="stable")
        ends = np.cumsum(np.bincount(bucket, minlength=len(outputs)))
        for i, output in enumerate(outputs):
            part = order[ends[i - 1] if i else 0 : ends[i]]
            arrays = [pa.array(column[part]) for column in columns]
            output.write(pa.RecordBatch.from_arrays(arrays, schema=output.schema))


def settle(spark: "SparkSession", staged: Path, buckets: int, edges: Path, users: Path) -> None:
    """Make the two tables from what was spread, a task a bucket."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for i in batch.column(0).to_pylist():
                _settle_bucket(staged, i, edges, users)
            yield batch

    spark.range(0, buckets, 1, numPartitions=buckets).mapInArrow(run, "id long").count()


def _settle_bucket(staged: Path, bucket: int, edges: Path, users: Path) -> None:
    name = f"bucket-{bucket:05}.parquet"
    pairs = _staged(staged, "edges", bucket, _EDGES)
    with _numbers(edges / name, _EDGES, "zstd") as output:
        columns = distinct_pairs(pairs["source"].to_numpy(), pairs["target"].to_numpy())
        output.write(pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=_EDGES))
    everybody = distinct(_staged(staged, "users", bucket, _USERS)["user"].to_numpy())
    with _numbers(users / name, _USERS, "zstd") as output:
        output.write(pa.RecordBatch.from_arrays([pa.array(everybody)], schema=_USERS))


def distinct_pairs(
    source: NDArray[np.int64], target: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every pair once, in order of source and target. [pair]"""
    if source.size == 0:
        return source, target
    span = int(target.max()) + 1
    if (int(source.max()) + 1) * span < 2**63:  # a pair fits one number, which sorts much faster
        return np.divmod(distinct(source * span + target), span)
    order = np.lexsort((target, source))
    source, target = source[order], target[order]
    first = np.ones(source.size, dtype=np.bool_)
    first[1:] = (source[1:] != source[:-1]) | (target[1:] != target[:-1])
    return source[first], target[first]


def _numbers(path: Path, schema: pa.Schema, compression: str) -> ParquetOutput:
    """A file of users' numbers, which are too many for a dictionary to be worth its time."""
    return ParquetOutput(path, schema, compression, dictionary=False)


def _file(folder: Path, what: str, bucket: int, split: str) -> Path:
    return folder / f"{what}-{bucket:05}" / split


def _staged(folder: Path, what: str, bucket: int, schema: pa.Schema) -> pa.Table:
    files = sorted((folder / f"{what}-{bucket:05}").glob("*.parquet"))
    return pa.concat_tables([pq.read_table(file) for file in files] or [schema.empty_table()])
