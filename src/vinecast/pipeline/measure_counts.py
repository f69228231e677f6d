"""From deliveries to counts and distributions, as a run's own task adds them up (sim/deliveries.py)."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from vinecast.core.spread import MISSED
from vinecast.pipeline.runs_tables import RUN_COUNTS, RUN_HISTOGRAMS, RUN_PUBLICATIONS, conform
from vinecast.sim.deliveries import DIGITS
from vinecast.sim.metrics import COUNTED


def size_class(size: Column) -> Column:
    """The smallest size of the class that a size is in: 1, 2, 4, 8, … (sim/metrics.py).

    Half a unit more keeps the logarithm off whole numbers, where its last bit would decide.
    """
    return F.pow(F.lit(2.0), F.floor(F.log2(size + F.lit(0.5)))).cast("long")


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


def histograms_of(cells: DataFrame, latencies: DataFrame) -> DataFrame:
    """Distributions for the whole run and for its last publication. latencies: of ``latency_cells_of``"""
    got, away = F.col("hops") != MISSED, F.col("hops") > 0
    common = ["run_id", "cycle", "popularity", "subscriptions", "count"]
    told = (
        cells.where(away).select(*common, F.lit("hops").alias("what"), F.col("hops").alias("value"))
        .unionByName(
            cells.where(got).select(*common, F.lit("copies").alias("what"), F.col("copies").alias("value"))
        )
        .unionByName(latencies.select(*common, F.lit("latency_us").alias("what"), "value"))
    )  # fmt: skip
    last = cells.groupBy("run_id").agg(F.max("cycle").alias("last"))
    whens = F.when(F.col("cycle") == F.col("last"), F.array(F.lit("run"), F.lit("last"))).otherwise(
        F.array(F.lit("run"))
    )
    found = (
        _by_class(told.join(F.broadcast(last), "run_id", "inner"))
        .withColumn("when", F.explode(whens))
        .groupBy("run_id", "when", "by", "from", "what", "value")
        .agg(F.sum("count").alias("count"))
    )
    return conform(found, RUN_HISTOGRAMS)


def latency_cells_of(deliveries: DataFrame) -> DataFrame:
    """Latencies of deliveries other than the publisher's own, by their first digits."""
    latency = F.col("latency_us")
    digits = F.length(latency.cast("string"))
    unit = F.pow(F.lit(10.0), F.greatest(digits - DIGITS, F.lit(0))).cast("long")
    rounded = F.floor((latency + F.floor(unit / 2)) / unit).cast("long") * unit
    return (
        deliveries.where((F.col("hops") > 0) & latency.isNotNull())
        .groupBy(
            "run_id",
            "cycle",
            size_class(F.col("subscribers")).alias("popularity"),
            size_class(F.col("subscriptions")).alias("subscriptions"),
            rounded.alias("value"),
        )
        .agg(F.count("*").alias("count"))
    )


def publications_of(deliveries: DataFrame, cells: DataFrame, publications: DataFrame) -> DataFrame:
    """What cannot be added up from classes: topics whose event missed somebody, nodes that missed something.

    Who is held to events but subscribes to nothing appears in no delivery, so ``expected`` is the run's own.
    """
    key = ["run_id", "cycle"]
    reached = cells.groupBy(*key).agg(
        F.sum(F.when(F.col("hops") == 0, F.col("count"))).alias("published"),
        F.max("hops").alias("hops_max"),
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
