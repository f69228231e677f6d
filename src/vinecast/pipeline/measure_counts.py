"""From deliveries to counts and distributions, as a run's own task adds them up
(sim/measure/deliveries.py)."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from vinecast.core.dissemination import MISSED
from vinecast.pipeline.runs_tables import RUN_COUNTS, RUN_HISTOGRAMS, RUN_PUBLICATIONS, conform
from vinecast.sim.measure.histograms import DIGITS
from vinecast.sim.measure.metrics import COUNTED

_DIGITS_MAX = 15  # of a latency in µs: thirty years


def size_class(size: Column) -> Column:
    """The smallest size of the class that a size is in: 1, 2, 4, 8, … (sim/measure/metrics.py).

    Its highest bit: all bits below are set, then cleared. A logarithm would cost ten times as much, for each
    of a hundred million rows.
    """
    filled = size
    for places in (1, 2, 4, 8, 16):
        filled = filled.bitwiseOR(F.shiftright(filled, places))
    return (filled - F.shiftright(filled, 1)).cast("long")


def cells_of(deliveries: DataFrame) -> DataFrame:
    """Deliveries that nothing tells apart, counted: one pass over many rows leaves few."""
    return deliveries.groupBy(
        "run_id",
        "cycle",
        size_class(F.col("subscribers")).alias("popularity"),
        size_class(F.col("subscriptions")).alias("subscriptions"),
        "due",
        "hops",
        "copies",
    ).agg(F.count("*").alias("count"))


def _by_class(frame: DataFrame) -> DataFrame:
    """Each row twice: by the class of its topic and by that of its node."""
    both = F.array(
        *(F.struct(F.lit(by).alias("by"), F.col(by).alias("from")) for by in ("popularity", "subscriptions"))
    )
    return frame.withColumn("class", F.explode(both)).select(
        "*", F.col("class.by").alias("by"), F.col("class.from").alias("from")
    )


def counts_of(cells: DataFrame) -> DataFrame:
    """What ``metrics.COUNTED`` says, for every publication and class."""
    got, away = F.col("hops") != MISSED, F.col("hops") > 0

    def total(condition: Column, weight: Column | None = None) -> Column:
        value = F.col("count") if weight is None else F.col("count") * weight
        return F.sum(F.when(condition, value).otherwise(0))

    counted = {
        "due": total(F.col("due")),
        "hits": total(F.col("due") & got),
        "have": total(got),
        "copies": total(F.lit(True), F.col("copies")),
        "received": total(away),
        "hops": total(away, F.col("hops")),
    }
    found = _by_class(cells).groupBy("run_id", "cycle", "by", "from").agg(
        *(counted[name].alias(name) for name in COUNTED)
    )  # fmt: skip
    return conform(found, RUN_COUNTS)


def histograms_of(cells: DataFrame, latencies: DataFrame, publications: DataFrame) -> DataFrame:
    """Distributions for the whole run and for its last publication. latencies: of ``latency_cells_of``"""
    got, away = F.col("hops") != MISSED, F.col("hops") > 0
    common = ["run_id", "when", "popularity", "subscriptions", "count"]
    run, last = F.lit("run"), F.lit("last")
    whens = F.when(F.col("is_last"), F.array(run, last)).otherwise(F.array(run))
    marked = with_last(cells, publications).withColumn("when", F.explode(whens))
    told = (
        marked.where(away).select(*common, F.lit("hops").alias("what"), F.col("hops").alias("value"))
        .unionByName(
            marked.where(got).select(*common, F.lit("copies").alias("what"), F.col("copies").alias("value"))
        )
        .unionByName(latencies.select(*common, F.lit("latency_us").alias("what"), "value"))
    )  # fmt: skip
    found = (
        _by_class(told)
        .groupBy("run_id", "when", "by", "from", "what", "value")
        .agg(F.sum("count").alias("count"))
    )
    return conform(found, RUN_HISTOGRAMS)


def with_last(frame: DataFrame, publications: DataFrame) -> DataFrame:
    """Whether a row is of its run's last publication, which may have had no events and so no rows here."""
    last = publications.groupBy("run_id").agg(F.max("cycle").alias("last"))
    is_last = (F.col("cycle") == F.col("last")).alias("is_last")
    return frame.join(F.broadcast(last), "run_id", "inner").select(*frame.columns, is_last)


def latency_cells_of(deliveries: DataFrame, publications: DataFrame) -> DataFrame:
    """Latencies of deliveries other than the publisher's own, by their first digits: of the whole run, and of
    its last publication once more.

    Marking every delivery first would be a join of all of them. What is no run's last publication is left out
    by its number instead, which Parquet keeps with its rows, so that most of them are not read again.
    """
    away = deliveries.where((F.col("hops") > 0) & F.col("latency_us").isNotNull())
    lasts = publications.groupBy("run_id").agg(F.max("cycle").alias("last"))
    first = lasts.agg(F.min("last")).collect()[0][0]  # one number
    late = with_last(away.where(F.col("cycle") >= F.lit(first)), publications).where("is_last")
    return _latency_cells(away, "run").unionByName(_latency_cells(late, "last"))


def _latency_cells(deliveries: DataFrame, when: str) -> DataFrame:
    latency = F.col("latency_us")
    unit = F.lit(10 ** (_DIGITS_MAX - DIGITS))
    for digits in range(_DIGITS_MAX - 1, DIGITS - 1, -1):
        unit = F.when(latency < 10**digits, F.lit(10 ** (digits - DIGITS))).otherwise(unit)
    rounded = F.floor((latency + F.floor(unit / 2)) / unit).cast("long") * unit
    return (
        deliveries.groupBy(
            "run_id",
            size_class(F.col("subscribers")).alias("popularity"),
            size_class(F.col("subscriptions")).alias("subscriptions"),
            rounded.alias("value"),
        )
        .agg(F.count("*").alias("count"))
        .withColumn("when", F.lit(when))
    )


def publications_of(deliveries: DataFrame, cells: DataFrame, publications: DataFrame) -> DataFrame:
    """What cannot be added up from classes: topics whose event missed somebody, nodes that missed something.

    Who is held to events but subscribes to nothing appears in no delivery, so ``expected`` is the run's own.
    """
    key = ["run_id", "cycle"]
    reached = cells.groupBy(*key).agg(
        F.sum(F.when(F.col("hops") == 0, F.col("count"))).alias("published"), F.max("hops").alias("hops_max")
    )
    missed = (
        deliveries.where(F.col("due") & (F.col("hops") == MISSED))
        .groupBy(*key)
        .agg(F.count_distinct("topic").alias("disconnected"), F.count_distinct("node").alias("missing"))
    )
    found = (
        publications.select(*key, "until_us", "topics", "expected")
        .join(reached, key, "left")
        .join(missed, key, "left")
        .fillna(0, ["published", "disconnected", "missing", "hops_max"])
        .withColumn("hops_max", F.greatest("hops_max", F.lit(0)))
    )
    return conform(found, RUN_PUBLICATIONS)
