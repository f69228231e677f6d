"""From staged rows to tables: frames in, frames out, each ending in the columns of its table."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from vinecast.core.rule import rule
from vinecast.pipeline.ingest.lines import TEXT_MAX
from vinecast.pipeline.tables import (
    ACTIVITY,
    LATENCIES,
    PINGS,
    PUBLICATIONS,
    QUARANTINE,
    SESSIONS,
    SUBSCRIPTIONS,
    TOPICS,
    LakeTable,
)


def _columns(frame: DataFrame, table: LakeTable) -> DataFrame:
    return frame.select(*table.schema.fieldNames())


def _in_order(nodes: DataFrame) -> DataFrame:
    """Numbers from 0, in the order of ``line``. One task sees a line number a node, and nothing else."""
    return nodes.select("line", (F.row_number().over(Window.orderBy("line")) - 1).cast("long").alias("node"))


def _first_lines(staged: DataFrame) -> DataFrame:
    return staged.groupBy("name").agg(F.min("line").alias("line"))


def sessions(staged: DataFrame) -> DataFrame:
    """The sessions of an AVT trace; of a node that stands there twice, the first line counts."""
    nodes = _in_order(_first_lines(staged))
    return _columns(staged.join(nodes, on="line", how="inner").sort("node"), SESSIONS)


def repeated_nodes(staged: DataFrame, file: str) -> DataFrame:
    """The lines of an AVT trace whose node stood there already, for the quarantine."""
    first = _first_lines(staged).withColumnRenamed("line", "first")
    repeated = staged.select("line", "name").join(first, on="name", how="inner").where("line > first")
    reason = F.format_string("node %s stands in line %d already", "name", "first")
    return _set_aside(repeated, file, reason, F.col("name"))


def _set_aside(frame: DataFrame, file: str, reason: Column, text: Column) -> DataFrame:
    return frame.select(
        F.lit(file).alias("file"),
        "line",
        reason.alias("reason"),
        F.substring(text, 1, TEXT_MAX).alias("text"),
    ).select(*QUARANTINE.schema.fieldNames())


def _checked_events(staged: DataFrame) -> DataFrame:
    """Events of an FTA trace, each available one with the end of the session before it in its component.

    An event that starts before that end is left out and ends nothing: one slip does not take the good ones
    after it along. So the end depends on what became of all events before, which no window can say.
    """

    def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        name, busy = "", np.full(1, NEVER)
        for batch in batches:
            if not batch.num_rows:
                continue
            names = np.array(batch.column("name").to_pylist(), dtype=np.object_)
            first = np.append(names[0] != name, names[1:] != names[:-1])
            ends = np.empty(names.size)
            times = [batch.column(column).to_numpy() for column in ("on_s", "off_s")]
            available = batch.column("available").to_numpy(zero_copy_only=False)
            ends_before(first, available, times[0], times[1], busy, ends)
            name = names[-1]
            yield batch.append_column("busy_until_s", pa.array(ends))

    ordered = staged.repartition("name").sortWithinPartitions("name", "on_s", "off_s", "line")
    return ordered.mapInArrow(check, staged.withColumn("busy_until_s", F.lit(0.0)).schema)


NEVER = -1.0  # before the first event of all; no time is negative


@rule
def ends_before(
    first: NDArray[np.bool_],
    available: NDArray[np.bool_],
    on_s: NDArray[np.float64],
    off_s: NDArray[np.float64],
    busy: NDArray[np.float64],
    ends: NDArray[np.float64],
) -> None:
    """The end of the session before each event of a component, in order of time; NEVER before the first.

    first: whether a component begins; busy: [1], kept from one call to the next; all others: [event]
    """
    for event in range(on_s.size):
        if first[event]:
            busy[0] = NEVER
        ends[event] = busy[0]
        if available[event] and on_s[event] >= busy[0]:
            busy[0] = off_s[event]


_OVERLAPS = "available and busy_until_s > on_s"


def sessions_of_events(staged: DataFrame) -> DataFrame:
    """The sessions of an FTA trace, in seconds since its first event; overlapping ones are left out."""
    begin = staged.agg(F.min("on_s").alias("begin_s"))
    session = F.when(
        F.expr(f"available and not ({_OVERLAPS})"),
        F.struct(
            (F.col("on_s") - F.col("begin_s")).alias("on_s"),
            (F.col("off_s") - F.col("begin_s")).alias("off_s"),
        ),
    )
    nodes = (
        _checked_events(staged)
        .crossJoin(F.broadcast(begin))
        .groupBy("name")
        .agg(F.min("line").alias("line"), F.array_sort(F.collect_list(session)).alias("sessions"))
    )
    numbered = nodes.join(_in_order(nodes.select("line")), on="line", how="inner").select(
        "node", "name", F.col("sessions.on_s").alias("on_s"), F.col("sessions.off_s").alias("off_s")
    )
    return _columns(numbered.sort("node"), SESSIONS)


def overlapping_events(staged: DataFrame, file: str) -> DataFrame:
    """The available events of an FTA trace that overlap an earlier one, for the quarantine."""
    reason = F.format_string(
        "the session starts (%s) before an earlier one ends (%s)", "on_s", "busy_until_s"
    )
    return _set_aside(_checked_events(staged).where(_OVERLAPS), file, reason, F.col("name"))


def latencies(staged: DataFrame) -> DataFrame:
    """A matrix, one row a cell."""
    cells = staged.select("source", F.posexplode("rtt_ms").alias("target", "rtt_ms"))
    return _columns(cells.sort("source", "target"), LATENCIES)


def pings(staged: DataFrame) -> DataFrame:
    """Pings between places, in the order of the file."""
    return _columns(staged.sort("line"), PINGS)


def activity(staged: DataFrame) -> DataFrame:
    """Timed acts, in the order of the file."""
    return _columns(staged.sort("line"), ACTIVITY)


def topics(staged: DataFrame) -> DataFrame:
    """The topics of PulsarCast's workload, in the order of the file."""
    found = staged.where("type = 'topic'").sort("line").withColumnRenamed("name", "topic")
    return _columns(found, TOPICS)


def subscriptions(staged: DataFrame) -> DataFrame:
    """Who subscribes to what in PulsarCast's workload."""
    found = staged.where("type = 'user'").select(
        "node", F.col("name").alias("user"), F.explode("subscriptions").alias("topic")
    )
    return _columns(found.sort("node", "user", "topic"), SUBSCRIPTIONS)


def publications(staged: DataFrame) -> DataFrame:
    """Who publishes what in PulsarCast's workload, in the order of its events."""
    found = staged.where("type = 'user'").select(
        "node", F.col("name").alias("user"), F.explode("published").alias("act")
    )
    return _columns(found.select("node", "user", "act.*").sort("event", "node", "topic"), PUBLICATIONS)
