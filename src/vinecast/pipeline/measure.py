"""Measures: from deliveries or trace records to the metrics of sim/measure/metrics.py, by the same
definitions.

    records ─→ deliveries ─→ cells ─→ counts, histograms ─→ measures, series, distributions

A run's task has already added up its deliveries (sim/measure/deliveries.py); then only the last step is left.
Starting from deliveries, or from trace records of the event engine, comes to the same numbers, to the last
bit: everything up to the ratios is a whole number.

Percentiles are read from histograms: the smallest value that so many of a hundred do not exceed. For hops and
copies that is exact. Latencies are counted by their first three digits, so theirs are off by 0.5 % at most;
Spark's ``percentile_approx`` was not used because its result changes with the number of partitions.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from vinecast.core.errors import InputError
from vinecast.pipeline.lake import Lake
from vinecast.pipeline.measure_counts import (
    cells_of,
    counts_of,
    histograms_of,
    latency_cells_of,
    publications_of,
    with_last,
)
from vinecast.pipeline.measure_records import deliveries_of, loads_of
from vinecast.pipeline.runs_tables import (
    DISTRIBUTIONS,
    KEPT,
    LOADS,
    MEASURES,
    PER_CYCLE,
    PERCENTILES,
    RUN_COUNTS,
    RUN_CYCLES,
    RUN_DELIVERIES,
    RUN_HISTOGRAMS,
    RUN_PRESENCE,
    RUN_PUBLICATIONS,
    RUN_RECORDS,
    RUN_SUBSCRIPTIONS,
    RUNS,
    SERIES,
    conform,
)
from vinecast.pipeline.sweep import results_of
from vinecast.pipeline.tables import LakeTable
from vinecast.sim.measure.metrics import COUNTED

SOURCES = ("counts", *KEPT)
"""What measures can start from; all come to the same."""

_CODE = 1  # raise it when the same runs would have other measures
_CLASS = ["run_id", "when", "by", "from"]


def series_of(counts: DataFrame, publications: DataFrame) -> DataFrame:
    """The metrics of every publication, as the simulator has them in its cycles."""
    added = counts.where(F.col("by") == "popularity").groupBy("run_id", "cycle").agg(
        *(F.sum(name).alias(name) for name in COUNTED)
    )  # fmt: skip
    told = publications.join(added, ["run_id", "cycle"], "left").fillna(0, list(COUNTED))
    found = told.select(
        *("run_id", "cycle", *COUNTED, "published", "hops_max"),
        _share("hits", "due", F.lit(1.0)).alias("hit_ratio"),
        _share("hops", "received", F.lit(0.0)).alias("hops_mean"),
        (F.col("copies") / F.greatest("have", F.lit(1))).alias("duplication"),
        (F.col("disconnected") / F.greatest("published", F.lit(1))).alias("disconnected_topics"),
        (F.col("missing") / F.greatest("expected", F.lit(1))).alias("nodes_missing"),
    )
    return conform(found, SERIES)


def _share(part: str, whole: str, otherwise: Column | None = None) -> Column:
    share = F.when(F.col(whole) > 0, F.col(part) / F.col(whole))
    return share if otherwise is None else share.otherwise(otherwise)


def measures_of(
    counts: DataFrame, histograms: DataFrame, publications: DataFrame, cycles: DataFrame
) -> DataFrame:
    """The metrics of every run: over everything and by class, all in all and at the end."""
    added = _when(with_last(_with_all(counts), publications), [*COUNTED])
    published = _when(
        with_last(publications.select("run_id", "cycle", "published"), publications), ["published"]
    )
    percentiles = _percentiles(_with_all(histograms))
    found = (
        _overlay(cycles, list(PER_CYCLE))
        .join(added, _CLASS, "full")  # a system without topics has an overlay and nothing else
        .join(published, ["run_id", "when"], "left")
        .join(percentiles, _CLASS, "left")
        .fillna(0, [*COUNTED, "published"])
    )
    told = (
        found.withColumn("to", F.when(F.col("by") == "all", F.lit(0)).otherwise(F.col("from") * 2 - 1))
        .withColumn("hit_ratio", _share("hits", "due"))
        .withColumn("miss_ratio", F.when(F.col("due") > 0, (F.col("due") - F.col("hits")) / F.col("due")))
        .withColumn("hops_mean", _share("hops", "received"))
        .withColumn("duplication", _share("copies", "have"))
    )
    return conform(told, MEASURES)


# Rows that count more than once are exploded: a union would read and plan everything before it twice.


def _when(frame: DataFrame, added: list[str]) -> DataFrame:
    """Added up over the run, and its last publication alone. frame: of ``with_last``"""
    key = [name for name in frame.columns if name not in (*added, "cycle", "is_last")]
    run, last = F.lit("run"), F.lit("last")
    whens = frame.withColumn("when", F.when(F.col("is_last"), F.array(run, last)).otherwise(F.array(run)))
    exploded = whens.withColumn("when", F.explode("when"))
    return exploded.groupBy(*key, "when").agg(*(F.sum(name).alias(name) for name in added))


def _with_all(frame: DataFrame) -> DataFrame:
    """Rows by class, and once more as rows of everything: every subscription is in one class of popularity.

    Those of everything are not added up yet.
    """
    own = F.struct("by", "from")
    everything = F.struct(F.lit("all").alias("by"), F.lit(0).cast("long").alias("from"))
    classes = F.when(F.col("by") == "popularity", F.array(own, everything)).otherwise(F.array(own))
    others = [name for name in frame.columns if name not in ("by", "from")]
    exploded = frame.select(*others, F.explode(classes).alias("class"))
    return exploded.select(*others, "class.by", "class.from")


def _overlay(cycles: DataFrame, columns: list[str]) -> DataFrame:
    """Columns of the cycles, averaged over the run, and of its last cycle alone; for everything.

    A sum of fractions depends on its order in the last bits, so they are added in order of the cycle.
    """
    values = [F.col(name).cast("double").alias(name) for name in columns]
    rows = F.array_sort(F.collect_list(F.struct("cycle", *values)))

    def mean(name: str) -> Column:
        there = F.filter(F.transform(F.col("rows"), lambda row: row[name]), lambda value: value.isNotNull())
        total = F.aggregate(there, F.lit(0.0), lambda sum_, value: sum_ + value)
        return F.when(F.size(there) > 0, total / F.size(there)).alias(name)

    last = F.element_at("rows", -1)
    whens = F.array(
        F.struct(F.lit("run").alias("when"), *(mean(name) for name in columns)),
        F.struct(F.lit("last").alias("when"), *(last[name].alias(name) for name in columns)),
    )
    told = cycles.groupBy("run_id").agg(rows.alias("rows")).select("run_id", F.inline(whens))
    return told.withColumns({"by": F.lit("all"), "from": F.lit(0).cast("long")})


def _percentiles(histograms: DataFrame) -> DataFrame:
    """A row a class with percentiles and the largest of everything, and the mean latency."""
    group = [*_CLASS, "what"]
    upto = Window.partitionBy(*group).orderBy("value").rowsBetween(Window.unboundedPreceding, 0)
    whole = Window.partitionBy(*group)
    added = histograms.groupBy(*group, "value").agg(F.sum("count").alias("count"))
    ranked = added.withColumns({"upto": F.sum("count").over(upto), "total": F.sum("count").over(whole)})
    columns = []
    for what, name, unit in (
        ("hops", "hops", 1),
        ("copies", "copies", 1),
        ("latency_us", "latency_ms", 1000),
    ):
        of_what = F.col("what") == what
        for percent in PERCENTILES:
            reached = of_what & (F.col("upto") * 100 >= F.col("total") * percent)
            columns.append((F.min(F.when(reached, F.col("value"))) / unit).alias(f"{name}_p{percent}"))
        columns.append((F.max(F.when(of_what, F.col("value"))) / unit).alias(f"{name}_max"))
    latency = F.col("what") == "latency_us"
    total = F.sum(F.when(latency, F.col("value") * F.col("count")))
    count = F.sum(F.when(latency, F.col("count")))
    columns.append((total / count / 1000).alias("latency_ms_mean"))
    return ranked.groupBy(*_CLASS).agg(*columns)


def distributions_of(histograms: DataFrame) -> DataFrame:
    """Distributions over everything, with shares."""
    added = histograms.where(F.col("by") == "popularity").groupBy("run_id", "when", "what", "value").agg(
        F.sum("count").alias("count")
    )  # fmt: skip
    whole = Window.partitionBy("run_id", "when", "what")
    upto = whole.orderBy("value").rowsBetween(Window.unboundedPreceding, 0)
    total = F.sum("count").over(whole)
    found = added.withColumn("share", F.col("count") / total).withColumn(
        "at_most", F.sum("count").over(upto) / total
    )
    return conform(found, DISTRIBUTIONS)


# --- the job ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MeasureResult:
    """What was measured."""

    dataset: str
    source: str
    runs: int
    measures: int
    """Rows of the table of measures."""
    deliveries: int
    """Deliveries that were due or made, all runs together."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Deliveries, added up: by a run's task, or here."""

    publications: DataFrame
    counts: DataFrame
    histograms: DataFrame


def count(deliveries: DataFrame, cells: DataFrame, publications: DataFrame) -> Counted:
    """Add up deliveries. cells: of ``cells_of``"""
    return Counted(
        publications_of(deliveries, cells, publications),
        counts_of(cells),
        histograms_of(cells, latency_cells_of(deliveries, publications), publications),
    )


def made_from(lake: Lake, dataset: str, source: str) -> dict[str, object]:
    """What measures are made from."""
    return {"stage": "measure", "code": _CODE, **results_of(lake, dataset), "source": source}


def measure_runs(spark: SparkSession, lake: Lake, dataset: str, source: str = "counts") -> MeasureResult:
    """Measure the runs of a sweep and publish measures, series and distributions."""
    if source not in SOURCES:
        raise InputError(f"measures start from {', '.join(SOURCES)}, not {source!r}")

    def read(table: LakeTable) -> DataFrame:
        return _read(spark, lake, table, dataset)

    with _counted(read, source) as counted:
        frames = {
            MEASURES: measures_of(counted.counts, counted.histograms, counted.publications, read(RUN_CYCLES)),
            SERIES: series_of(counted.counts, counted.publications),
            DISTRIBUTIONS: distributions_of(counted.histograms),
        }
        if source == "records":
            frames[LOADS] = loads_of(read(RUN_RECORDS), read(RUN_SUBSCRIPTIONS))
        origin = made_from(lake, dataset, source)
        published = {}
        for table, frame in frames.items():
            order = [field.name for field in table.schema][:5]
            published[table.name] = lake.publish(
                table, dataset, frame.repartition(1).sortWithinPartitions(*order), origin
            )
    told = lake.read(spark, SERIES, dataset).agg(F.sum("due")).first()
    due = int(told[0] or 0) if told is not None else 0
    return MeasureResult(dataset, source, lake.current(RUNS, dataset).rows, published["measures"].rows, due)


def _read(spark: SparkSession, lake: Lake, table: LakeTable, dataset: str) -> DataFrame:
    """A table of a sweep, which must be of the same runs as its manifest."""
    if results_of(lake, dataset, table) != results_of(lake, dataset):
        raise InputError(
            f"{lake.folder}: {table.name} of {dataset!r} is of other runs: sweep again with keep"
        )
    return lake.read(spark, table, dataset)


@contextmanager
def _counted(read: Callable[[LakeTable], DataFrame], source: str) -> Iterator[Counted]:
    """What to measure from, for as long as it is needed."""
    if source == "counts":
        yield Counted(read(RUN_PUBLICATIONS), read(RUN_COUNTS), read(RUN_HISTOGRAMS))
        return
    publications = read(RUN_PUBLICATIONS)
    if source == "deliveries":
        deliveries = read(RUN_DELIVERIES)
    else:
        deliveries = deliveries_of(
            read(RUN_RECORDS), read(RUN_SUBSCRIPTIONS), read(RUN_PRESENCE), publications
        ).persist()
    cells = cells_of(deliveries).persist()
    counted = count(deliveries, cells, publications)
    frames = (counted.publications, counted.counts, counted.histograms)  # small, and used several times each
    try:
        yield Counted(*(frame.persist() for frame in frames))
    finally:
        for frame in (*frames, cells, deliveries):
            frame.unpersist()
