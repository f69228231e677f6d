"""From the staged lines of traces to tables: names become numbers.

Numbers follow the order of the names, so that they are the same however the lines were divided. One task sees
every name once, and nothing else.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from vinecast.core.trace import FIELDS
from vinecast.pipeline.tables import TRACE_NODES, TRACE_TOPICS, TRACES


def _numbered(names: DataFrame, name: str, number: str) -> DataFrame:
    order = F.row_number().over(Window.orderBy(name)) - 1
    return names.distinct().select(order.cast("int").alias(number), name)


def nodes(staged: DataFrame) -> DataFrame:
    """All nodes that are named, with what the headings of their own files say."""
    named = staged.select(F.explode(F.array("node", "peer")).alias("id")).where(F.col("id").isNotNull())
    told = staged.groupBy(F.col("node").alias("id")).agg(
        F.max("system").alias("system"), F.max("period_us").alias("period_us")
    )
    found = _numbered(named, "id", "node").join(told, on="id", how="left")
    return found.select(*TRACE_NODES.schema.fieldNames()).sort("node")


def topics(staged: DataFrame) -> DataFrame:
    """All topics that are named."""
    named = staged.select(F.col("topic").alias("name")).where(F.col("name").isNotNull())
    return _numbered(named, "name", "topic").select(*TRACE_TOPICS.schema.fieldNames()).sort("topic")


def traces(staged: DataFrame) -> DataFrame:
    """The records, in order of time, node and line."""
    by_id = nodes(staged).select("node", "id")
    records = staged.where(F.col("kind").isNotNull()).withColumnsRenamed(
        {"node": "node_id", "peer": "peer_id", "topic": "name"}
    )
    found = (
        records.join(_as(by_id, "node", "node_id"), on="node_id", how="inner")
        .join(_as(by_id.withColumnRenamed("node", "peer"), "peer", "peer_id"), on="peer_id", how="left")
        .join(F.broadcast(topics(staged)), on="name", how="left")
    )
    columns = [_or_none(name) if name in ("peer", "topic") else F.col(name) for name, _ in FIELDS]
    return (
        found.select("line", *columns)
        .sort("time_us", "node", "line", *TRACES.schema.fieldNames())
        .select(*TRACES.schema.fieldNames())
    )


def _as(names: DataFrame, number: str, name: str) -> DataFrame:
    return F.broadcast(names.select(number, F.col("id").alias(name)))


def _or_none(name: str) -> Column:
    return F.coalesce(name, F.lit(-1)).cast("int").alias(name)
