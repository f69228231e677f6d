"""Degrees: what a sample keeps of its graph.

S0 (Fig. 4) shows the complementary distributions of followers and followees of a graph and of its sample side
by side, S2 (Fig. 3.7) means, variances and maxima. Beside these there is a number: the Kolmogorov–Smirnov
distance, the largest difference between the two distributions. All of it is computed from whole numbers, so
that the order in which Spark adds them up does not show.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from vinecast.pipeline.tables import CCDF, DEGREE_STATISTICS, DEGREES
from vinecast.sim.measure.figures import Figure, Panel, Series

ORIGINAL, SAMPLE = "original", "sample"
KINDS = ("followers", "followees")


def degrees(users: DataFrame, edges: DataFrame, graph: str) -> DataFrame:
    """The table ``degrees``: of every user of one graph, also of those without any."""
    followers = edges.groupBy(F.col("target").alias("user")).agg(F.count("*").alias("followers"))
    followees = edges.groupBy(F.col("source").alias("user")).agg(F.count("*").alias("followees"))
    return (
        users.select("user")
        .join(followers, "user", "left")
        .join(followees, "user", "left")
        .select(
            F.lit(graph).alias("graph"),
            "user",
            *(F.coalesce(F.col(kind), F.lit(0)).alias(kind) for kind in KINDS),
        )
        .select(*DEGREES.schema.fieldNames())
    )


def ccdf(degrees: DataFrame) -> DataFrame:
    """The table ``ccdf``: the users of every degree that occurs, and the share that has as much."""
    counted = (
        degrees.unpivot(["graph", "user"], list(KINDS), "kind", "degree")
        .groupBy("graph", "kind", "degree")
        .agg(F.count("*").alias("users"))
    )
    here = Window.partitionBy("graph", "kind")
    downwards = here.orderBy(F.desc("degree"))
    return counted.select(
        "graph",
        "kind",
        "degree",
        "users",
        (F.sum("users").over(downwards) / F.sum("users").over(here)).alias("at_least"),
    ).select(*CCDF.schema.fieldNames())


def distances(distributions: DataFrame) -> DataFrame:
    """The Kolmogorov–Smirnov distance of each graph from the original: ``graph``, ``kind``, ``distance``."""
    original = distributions.where(F.col("graph") == ORIGINAL)
    graphs = distributions.select(F.col("graph").alias("other"), "kind").distinct()
    upwards = Window.partitionBy("other", "kind").orderBy("degree")
    every = Window.partitionBy("other", "kind")
    share = {
        name: F.sum(name).over(upwards) / F.sum(name).over(every)
        for name in ("original_users", "other_users")
    }
    mine = original.join(graphs, "kind", "inner").select(
        "other",
        "kind",
        "degree",
        F.col("users").alias("original_users"),
        F.lit(0).cast("long").alias("other_users"),
    )
    theirs = distributions.select(
        F.col("graph").alias("other"), "kind", "degree", F.lit(0).cast("long"), F.col("users")
    )
    return (
        mine.union(theirs)
        .groupBy("other", "kind", "degree")
        .agg(F.sum("original_users").alias("original_users"), F.sum("other_users").alias("other_users"))
        .select("other", "kind", F.abs(share["original_users"] - share["other_users"]).alias("difference"))
        .groupBy("other", "kind")
        .agg(F.max("difference").alias("distance"))
        .select(F.col("other").alias("graph"), "kind", "distance")
    )


def statistics(distributions: DataFrame) -> DataFrame:
    """The table ``degree_statistics``, from the table ``ccdf``."""
    users, degree = F.col("users"), F.col("degree")
    summed = distributions.groupBy("graph", "kind").agg(
        F.sum("users").alias("users"),
        F.sum(users * degree).alias("total"),
        F.sum(users * degree * degree).alias("squares"),
        F.max("degree").alias("max"),
    )
    mean = F.col("total") / F.col("users")
    variance = F.col("squares") / F.col("users") - mean * mean
    return (
        summed.join(distances(distributions), ["graph", "kind"], "inner")
        .select(
            "graph",
            "kind",
            "users",
            mean.alias("mean"),
            variance.alias("variance"),
            F.sqrt(variance).alias("std"),
            "max",
            "distance",
        )
        .select(*DEGREE_STATISTICS.schema.fieldNames())
    )


def figure(distributions: DataFrame, name: str) -> Figure:
    """S0 Fig. 4: both distributions of original and sample; a graph has few different degrees."""
    rows = distributions.where("degree > 0").orderBy("degree").collect()

    def curve(graph: str, kind: str) -> Series:
        points = [
            (row["degree"], row["at_least"]) for row in rows if (row["graph"], row["kind"]) == (graph, kind)
        ]
        return Series(graph, [x for x, _ in points], [y for _, y in points], "steps")

    panels = tuple(
        Panel(
            kind,
            kind,
            "share of users with as many",
            (curve(ORIGINAL, kind), curve(SAMPLE, kind)),
            (),
            True,
            True,
        )
        for kind in KINDS
    )
    return Figure(
        f"ccdf-{name}", f"Followers and followees of {name} and of its original (S0 Fig. 4)", panels
    )
