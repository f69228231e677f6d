"""From trace records to deliveries, and to who carried what he did not want."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from vinecast.core.dissemination import MISSED
from vinecast.core.trace import TraceKind
from vinecast.pipeline.runs_tables import LOADS, RUN_DELIVERIES, conform

_COPIES = (int(TraceKind.RECEIVED_FIRST), int(TraceKind.RECEIVED_AGAIN))


def deliveries_of(
    records: DataFrame, subscriptions: DataFrame, presence: DataFrame, publications: DataFrame
) -> DataFrame:
    """What trace records tell of every subscription: whether it was due, hops, copies, latency.

    Topic t's event of a cycle is cycle × topics + t; what happens after the cycle counts no more.
    """
    about = publications.select("run_id", "cycle", "topics", "until_us")
    event = records.where(F.col("event") >= 0).withColumnRenamed("node", "at")
    timely = (
        event.join(F.broadcast(about), "run_id", "inner")
        .where(F.col("event") == F.col("cycle") * F.col("topics") + F.col("topic"))
        .where(F.col("time_us") < F.col("until_us"))
    )
    key = ["run_id", "cycle", "topic"]
    published = (
        timely.where(F.col("kind") == int(TraceKind.PUBLISHED))
        .groupBy(*key)
        .agg(F.min("time_us").alias("published_us"))
    )
    delivered = F.when(F.col("kind") == int(TraceKind.DELIVERED), F.col("time_us"))
    reached = (
        timely.withColumnRenamed("at", "node")
        .groupBy(*key, "node")
        .agg(
            F.min_by("hops", delivered).alias("hops"),
            F.min(delivered).alias("delivered_us"),
            F.sum(F.col("kind").isin(*_COPIES).cast("int")).alias("copies"),
        )
    )
    held = _with_sizes(subscriptions)
    audience = held.join(published, ["run_id", "topic"], "inner").join(
        presence.withColumn("due", F.lit(True)), ["run_id", "cycle", "node"], "left"
    )
    told = audience.join(reached, [*key, "node"], "left").select(
        *("run_id", "cycle", "topic", "node", "subscribers", "subscriptions"),
        F.coalesce("due", F.lit(False)).alias("due"),
        F.coalesce("hops", F.lit(MISSED)).alias("hops"),
        F.coalesce("copies", F.lit(0)).alias("copies"),
        (F.col("delivered_us") - F.col("published_us")).alias("latency_us"),
    )
    return conform(
        told.where(F.col("due") | (F.col("hops") != MISSED) | (F.col("copies") > 0)), RUN_DELIVERIES
    )


def _with_sizes(subscriptions: DataFrame) -> DataFrame:
    """Subscriptions with how many subscribe to the topic and how many topics the node has."""
    by_topic, by_node = Window.partitionBy("run_id", "topic"), Window.partitionBy("run_id", "node")
    return subscriptions.withColumn("subscribers", F.count("*").over(by_topic)).withColumn(
        "subscriptions", F.count("*").over(by_node)
    )


def traffic_of(records: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """Event messages that each node was sent, wanted or not, and the events it handled without wanting them.

    What is lost on the way counts as received, as in sim/measure/traffic.py.
    """
    sent = records.where((F.col("kind") == int(TraceKind.SENT)) & (F.col("event") >= 0)).select(
        "run_id", F.col("peer").alias("node"), "topic", "event"
    )
    wanted = subscriptions.select("run_id", "node", "topic", F.lit(True).alias("wanted"))
    told = sent.join(wanted, ["run_id", "node", "topic"], "left")
    unwanted = F.col("wanted").isNull()
    return told.groupBy("run_id", "node").agg(
        F.count("*").alias("received"),
        F.sum(unwanted.cast("long")).alias("unwanted"),
        F.count_distinct(F.when(unwanted, F.col("event"))).alias("relayed"),
    )


def loads_of(records: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """A node's traffic overhead, and its load: the share of all events that it handled as a relay."""
    published = records.where(F.col("kind") == int(TraceKind.PUBLISHED))
    events = published.groupBy("run_id").agg(F.count_distinct("event").alias("events"))
    found = (
        traffic_of(records, subscriptions)
        .join(events, "run_id", "inner")
        .withColumn("overhead", F.col("unwanted") / F.col("received"))
        .withColumn("load", F.col("relayed") / F.col("events"))
    )
    return conform(found, LOADS)
