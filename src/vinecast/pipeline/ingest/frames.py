"""From staged rows to tables: frames in, frames out, each ending in the columns of its table."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

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
    Table,
)


def _columns(frame: DataFrame, table: Table) -> DataFrame:
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
    """Events of an FTA trace, with the latest end before each among the available ones of its component."""
    before = (
        Window.partitionBy("name", "available")
        .orderBy("on_s", "off_s", "line")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    return staged.withColumn("busy_until_s", F.max("off_s").over(before))


_OVERLAPS = "available and busy_until_s > on_s"


def sessions_of_events(staged: DataFrame) -> DataFrame:
    """The sessions of an FTA trace, in seconds since its first event; overlapping ones are left out."""
    begin = staged.agg(F.min("on_s").alias("begin_s"))
    session = F.when(
        F.expr(f"available and not coalesce({_OVERLAPS}, false)"),
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
