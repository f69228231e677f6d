"""A live run measured from its traces in the lake: by the definitions of sim/measure/peer_runs.py, and so
with the numbers that ``vinecast net`` told of the run.

Every event is a publication of its own; for the series, events of one cycle are added up. A run has no
overlay here, so that of the columns of cycles only those about traffic are filled, for the whole run at once.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from vinecast.core.dissemination import FETCHED, MISSED
from vinecast.core.errors import InputError
from vinecast.core.machine import SECOND_US
from vinecast.core.trace import TraceKind
from vinecast.pipeline.lake import Lake
from vinecast.pipeline.measure import Counted, MeasureResult, distributions_of, measures_of, series_of
from vinecast.pipeline.measure_counts import cells_of, counts_of, histograms_of, latency_cells_of
from vinecast.pipeline.measure_records import loads_of
from vinecast.pipeline.runs_tables import (
    DISTRIBUTIONS,
    LOADS,
    MEASURES,
    PER_CYCLE,
    RUN_DELIVERIES,
    RUN_PUBLICATIONS,
    SERIES,
    conform,
)
from vinecast.pipeline.tables import TRACE_NODES, TRACES

PATIENCE_S, PATIENCE_CYCLES = 3.0, 5
"""How long after its publication an event is judged, if nothing else is said: the longer of the two, as in
``vinecast net``."""
SOURCE = "traces"
Kept = Callable[[DataFrame], DataFrame]
"""Keeps a frame at hand for as long as a run is measured."""

_CODE = 1  # raise it when the same traces would have other measures
_PAIR = ["topic", "node"]
_TRAFFIC = ("traffic_overhead", "control_messages", "control_bytes")


@dataclass(frozen=True, slots=True)
class TraceTimes:
    """What measures of traces depend on besides."""

    patience_us: int
    period_us: int


def _of(traces: DataFrame, *kinds: TraceKind) -> DataFrame:
    return traces.where(F.col("kind").isin(*map(int, kinds)))


def events_of(traces: DataFrame, times: TraceTimes) -> DataFrame:
    """The events that were published: topic, when, in which cycle, and until when they are judged."""
    found = (
        _of(traces, TraceKind.PUBLISHED)
        .groupBy("event")
        .agg(F.min("time_us").alias("at_us"), F.min("topic").alias("topic"))
    )
    begin = found.agg(F.min("at_us").alias("begin_us"))
    cycle = F.floor((F.col("at_us") - F.col("begin_us")) / times.period_us).cast("int")
    return found.crossJoin(F.broadcast(begin)).select(
        *("event", "topic", "at_us", cycle.alias("cycle")),
        (F.col("at_us") + times.patience_us).alias("until_us"),
    )


def reached_of(traces: DataFrame, events: DataFrame) -> DataFrame:
    """What nodes had of events before these were judged: the first delivery, and copies."""
    about = events.select("event", F.col("topic").alias("on"), "until_us")
    kinds = (TraceKind.DELIVERED, TraceKind.RECEIVED_FIRST, TraceKind.RECEIVED_AGAIN)
    delivered = F.col("kind") == int(TraceKind.DELIVERED)
    first = F.min(F.when(delivered, F.struct("time_us", "hops")))
    return (
        _of(traces, *kinds)
        .join(about, on="event", how="inner")
        .where("time_us < until_us")
        .groupBy("event", "node")
        .agg(F.min("on").alias("topic"), first.alias("first"), F.count(F.when(~delivered, 1)).alias("copies"))
    )


def subscribers_of(traces: DataFrame, reached: DataFrame) -> DataFrame:
    """Who subscribes to what: since when, how many others do, how many topics it has, and the times that it
    was in the topic (``stays``). Who leaves without naming a topic leaves all of them."""
    joined = _of(traces, TraceKind.JOINED).where("topic >= 0").select(*_PAIR, "time_us", "time_us")
    handed = reached.where("first is not null").select(*_PAIR, "first.time_us", F.lit(None).cast("long"))
    found = (
        joined.union(handed)
        .toDF(*_PAIR, "at_us", "begin_us")
        .groupBy(*_PAIR)
        .agg(F.min("at_us").alias("since_us"), F.collect_set("begin_us").alias("begins"))
    )
    left = (
        _of(traces, TraceKind.LEFT)
        .groupBy("node")
        .agg(F.collect_list(F.struct("topic", "time_us")).alias("lefts"))
    )

    def stay(begin_us: Column) -> Column:
        ends = F.filter(
            F.col("lefts"),
            lambda one: (one["time_us"] >= begin_us) & one["topic"].isin(F.col("topic"), F.lit(-1)),
        )
        end_us = F.array_min(F.transform(ends, lambda one: one["time_us"]))
        return F.struct(begin_us.alias("begin_us"), end_us.alias("end_us"))

    by_topic, by_node = Window.partitionBy("topic"), Window.partitionBy("node")
    return found.join(left, on="node", how="left").select(
        *_PAIR,
        "since_us",
        F.transform("begins", stay).alias("stays"),
        F.count("*").over(by_topic).alias("subscribers"),
        F.count("*").over(by_node).alias("subscriptions"),
    )


def deliveries_of_traces(events: DataFrame, subscribers: DataFrame, reached: DataFrame) -> DataFrame:
    """What became of every event at every node that subscribes to its topic."""
    audience = events.join(subscribers, on="topic", how="inner").where("since_us < until_us")
    told = audience.join(reached.drop("topic"), ["event", "node"], "left")
    due = F.exists(
        "stays",
        lambda stay: (
            (stay["begin_us"] <= F.col("at_us"))
            & (stay["end_us"].isNull() | (stay["end_us"] >= F.col("until_us")))
        ),
    )
    known = F.when(F.col("first.hops") < 0, F.lit(FETCHED)).otherwise(F.col("first.hops"))
    hops: Column = F.when(F.col("first").isNull(), F.lit(MISSED)).otherwise(known)
    return told.withColumns(
        {
            "due": due,
            "hops": hops,
            "copies": F.coalesce("copies", F.lit(0)),
            "latency_us": F.col("first.time_us") - F.col("at_us"),
        }
    ).where(F.col("due") | (F.col("hops") != MISSED) | (F.col("copies") > 0))


def publications_of_traces(deliveries: DataFrame, events: DataFrame) -> DataFrame:
    """The events of every cycle: how many there were, how many missed somebody, who was held to them. The
    run's topics are all on which something was published."""
    missed = F.col("due") & (F.col("hops") == MISSED)
    reached = deliveries.groupBy("event").agg(
        F.max("hops").alias("hops_max"), F.max(missed.cast("int")).alias("disconnected")
    )
    lacking = F.count_distinct(F.when(missed, F.col("node")))
    held = deliveries.where("due").groupBy("cycle").agg(
        F.count_distinct("node").alias("expected"), lacking.alias("missing")
    )  # fmt: skip
    topics = events.agg(F.count_distinct("topic").alias("topics"))
    found = (
        events.join(reached, on="event", how="left")
        .groupBy("cycle")
        .agg(
            F.count("*").alias("published"),
            F.max("until_us").alias("until_us"),
            F.sum(F.coalesce("disconnected", F.lit(0))).alias("disconnected"),
            F.greatest(F.max(F.coalesce("hops_max", F.lit(0))), F.lit(0)).alias("hops_max"),
        )
        .join(held, on="cycle", how="left")
        .fillna(0, ["expected", "missing"])
        .crossJoin(F.broadcast(topics))
    )
    return found


def traffic_of_traces(traces: DataFrame, loads: DataFrame, times: TraceTimes) -> DataFrame:
    """One row: the share of messages with events that were not wanted, and all other messages and their bytes
    for a node on line and a cycle. A node is on line from when it joins to its last record."""
    before = F.lag("time_us").over(Window.partitionBy("node").orderBy("time_us"))
    begins = (F.col("kind") == int(TraceKind.JOINED)) & (F.col("topic") < 0)
    passed = traces.select("kind", "topic", (F.col("time_us") - before).alias("passed_us")).where(~begins)
    online = passed.agg((F.sum("passed_us") / times.period_us).alias("node_cycles"))
    control = _of(traces, TraceKind.SENT).where("event < 0").agg(
        F.count("*").alias("messages"), F.sum("size").alias("bytes")
    )  # fmt: skip
    overhead = loads.agg((F.sum("unwanted") / F.sum("received")).alias("traffic_overhead"))
    share = [(F.col(name) / F.col("node_cycles")).alias(f"control_{name}") for name in ("messages", "bytes")]
    return overhead.crossJoin(control).crossJoin(online).select("traffic_overhead", *share)


def loads_of_traces(traces: DataFrame, subscribers: DataFrame, run: Column) -> DataFrame:
    """What every node was sent, of those whose traces are there."""
    known = traces.select("node").distinct()
    records = traces.withColumn("run_id", run)
    found = loads_of(records, subscribers.select(run.alias("run_id"), "node", "topic"))
    return found.join(known, on="node", how="left_semi").select(*LOADS.schema.fieldNames())


# --- the job ---------------------------------------------------------------------------------------------


def measure_traces(
    spark: SparkSession, lake: Lake, dataset: str, patience_s: float | None = None
) -> MeasureResult:
    """Measure a live run and publish measures, series, distributions and loads."""
    times = _times_of(spark, lake, dataset, patience_s)
    run, traces = F.lit(dataset), lake.read(spark, TRACES, dataset)
    origin = {
        "stage": "measure",
        "code": _CODE,
        "source": SOURCE,
        "traces": lake.current(TRACES, dataset).fingerprint,
        "patience_us": times.patience_us,
    }
    with ExitStack() as cached:

        def kept(frame: DataFrame) -> DataFrame:
            """A frame that is used several times."""
            found = frame.persist()
            cached.callback(found.unpersist)
            return found

        events = kept(events_of(traces, times))
        reached = kept(reached_of(traces, events))
        subscribers = kept(subscribers_of(traces, reached))
        found = kept(deliveries_of_traces(events, subscribers, reached).withColumn("run_id", run))
        loads = kept(loads_of_traces(traces, subscribers, run))
        counted = _count(found, events, run, kept)
        cycles = _as_cycle(traffic_of_traces(traces, loads, times), run)
        frames = {
            MEASURES: measures_of(counted.counts, counted.histograms, counted.publications, cycles),
            SERIES: series_of(counted.counts, counted.publications),
            DISTRIBUTIONS: distributions_of(counted.histograms),
            LOADS: loads,
        }
        published = {}
        for table, frame in frames.items():
            order = [field.name for field in table.schema][:5]
            ordered = frame.repartition(1).sortWithinPartitions(*order)
            published[table.name] = lake.publish(table, dataset, ordered, origin)
        due = found.where("due").count()
    return MeasureResult(dataset, SOURCE, 1, published["measures"].rows, due)


def _times_of(spark: SparkSession, lake: Lake, dataset: str, patience_s: float | None) -> TraceTimes:
    periods = lake.read(spark, TRACE_NODES, dataset).agg(F.max("period_us")).first()  # one number
    if periods is None or periods[0] is None:
        raise InputError(
            f"{lake.folder}: no trace of {dataset!r} says how long a cycle is: take files with headings"
        )
    period_us = int(periods[0])
    if patience_s is None:
        patience_s = max(PATIENCE_S, PATIENCE_CYCLES * period_us / SECOND_US)
    return TraceTimes(round(patience_s * SECOND_US), period_us)


def _count(found: DataFrame, events: DataFrame, run: Column, kept: Kept) -> Counted:
    """Deliveries, added up."""
    deliveries = conform(found, RUN_DELIVERIES)
    publications = publications_of_traces(found, events).withColumn("run_id", run)
    told = kept(conform(publications, RUN_PUBLICATIONS))
    cells = kept(cells_of(deliveries))
    histograms = kept(histograms_of(cells, latency_cells_of(deliveries, told), told))
    return Counted(told, kept(counts_of(cells)), histograms)


def _as_cycle(traffic: DataFrame, run: Column) -> DataFrame:
    """The traffic of a run in a row as cycles have them."""
    others = [F.lit(None).cast("double").alias(name) for name in PER_CYCLE if name not in _TRAFFIC]
    return traffic.select(run.alias("run_id"), F.lit(0).alias("cycle"), *_TRAFFIC, *others)
