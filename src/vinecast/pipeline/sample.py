"""Samples of social graphs that are too large to simulate, by joins level by level.

*Breadth first* (S0 §6.1): from a few users a search goes along edges, in either direction, until enough users
are found; all edges among them are kept. *Followees* (S2 §3.6.5): random users, each with everyone whom it
follows, until there are enough; again with all relations among them. Both are exact: the order is that of a
plain queue, since the users of a level, ordered by their first parent's rank and then by their own number,
stand as a queue would have taken them. The same seed starts from the same users as sim/sample.py and gives
the same sample, on any number of tasks.

What a level found is written down before the next begins, in a scratch folder of the lake: a plan that grew
with every level would soon take longer to make than to run, and files outlive the executor that wrote them.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from vinecast.core.config import check, limited
from vinecast.core.draws import SEED_MAX
from vinecast.core.errors import InputError
from vinecast.pipeline.degrees import ORIGINAL, SAMPLE, ccdf, degrees, statistics
from vinecast.pipeline.lake import Lake, Published, abandoned, own_folder, sentences_for
from vinecast.pipeline.tables import (
    CCDF,
    DEGREE_STATISTICS,
    DEGREES,
    EDGES,
    SAMPLE_EDGES,
    SAMPLES,
    USERS,
    Table,
)
from vinecast.sim.sample import random_numbers, start_order

METHODS = ("breadth-first", "followees")
STARTS = 5
"""Random users that a breadth-first search starts from, as in sim/sample.py (S0: "a few")."""
_CODE = 1  # raise it when the same graph would give another sample
_RESTARTS = 64  # ours: candidates looked at together when a search has run out of users
_SCRATCH = "_scratch-"
_FOUND = "user long, rank long, level long"

Keep = Callable[[DataFrame], DataFrame]
"""Writes a frame down and gives back the same rows without their history."""


@contextmanager
def scratch(folder: Path) -> Iterator[Keep]:
    """Keeps frames as Parquet files in a folder of their own, which is removed at the end; with it go those
    of processes that died."""
    with sentences_for(folder), own_folder(folder, _SCRATCH) as place:
        numbers = count()

        def keep(frame: DataFrame) -> DataFrame:
            path = str(place.absolute() / str(next(numbers)))
            frame.write.parquet(path)
            return frame.sparkSession.read.schema(frame.schema).parquet(path)

        try:
            for left in abandoned(folder, _SCRATCH):
                shutil.rmtree(left, ignore_errors=True)
            yield keep
        finally:
            shutil.rmtree(place, ignore_errors=True)


class Users:
    """The users of a graph and the keyed random order in which a search starts from them."""

    def __init__(self, users: DataFrame, seed: int, keep: Keep) -> None:
        placed = keep(users.repartitionByRange("user").select("user", F.spark_partition_id().alias("part")))
        sizes = {row["part"]: row["count"] for row in placed.groupBy("part").count().collect()}
        parts = sorted(sizes)
        before = np.cumsum([0, *(sizes[part] for part in parts)]).tolist()
        self.count: int = before[-1]
        self._order: NDArray[np.int64] = start_order(seed, self.count)
        in_part = F.row_number().over(Window.partitionBy("part").orderBy("user"))
        rows = list(zip(parts, before, strict=False))
        offsets = placed.sparkSession.createDataFrame(rows, "part int, before long")
        numbered = placed.join(F.broadcast(offsets), "part", "inner")
        self._numbered = numbered.select("user", (F.col("before") + in_part - 1).alias("number"))

    def in_turn(self, first: int, last: int) -> DataFrame:
        """The users from one place to another of the random order: ``user``, ``turn``."""
        chosen = pa.table(
            {"number": self._order[first:last], "turn": np.arange(first, min(last, self.count))}
        )
        turns = self._numbered.sparkSession.createDataFrame(chosen)
        return self._numbered.join(F.broadcast(turns), "number", "inner").select("user", "turn")

    def check(self, given: Sequence[int]) -> None:
        """InputError unless all of these are users of the graph."""
        if len(set(given)) < len(given):
            raise InputError("a user to start from is named twice")
        known = {row["user"] for row in self._numbered.where(F.col("user").isin(list(given))).collect()}
        if unknown := [user for user in given if user not in known]:
            raise InputError(f"the graph has no user {unknown[0]} to start from")


def breadth_first(
    edges: DataFrame, users: Users, nodes: int, starts: Sequence[int] | int, keep: Keep
) -> DataFrame:
    """The first ``nodes`` users that a search finds: ``user``, ``rank``.

    It starts from the users given, or from so many random ones. When whole components are exhausted, one more
    random user is taken; each such restart costs a few Spark jobs, so that a sample of thousands of tiny
    components is not what this is for.
    """
    friends = edges.select("source", "target").union(edges.select(F.col("target"), F.col("source")))
    found = keep(_first_level(users, starts).where(F.col("rank") < nodes))
    size, level, tried = found.count(), 0, 0
    while size < nodes:
        fresh = _next_level(found, friends, level, nodes - size)
        more = keep(found.unionByName(_ranked(fresh, size, level + 1)))
        grown = more.count()
        if grown == size:
            user, tried = _restart(users, found, tried)
            restart = found.sparkSession.createDataFrame([(user, size, level + 1)], _FOUND)
            more, grown = keep(found.unionByName(restart)), size + 1
        found, size, level = more, grown, level + 1
    return found.select("user", "rank")


def _first_level(users: Users, starts: Sequence[int] | int) -> DataFrame:
    if isinstance(starts, int):
        if starts < 1:
            raise InputError(f"a search needs at least one user to start from, not {starts}")
        return users.in_turn(0, starts).select(
            "user", F.col("turn").alias("rank"), F.lit(0).cast("long").alias("level")
        )
    rows = [(user, rank, 0) for rank, user in enumerate(starts)]
    return users.in_turn(0, 0).sparkSession.createDataFrame(rows, _FOUND)


def _next_level(found: DataFrame, friends: DataFrame, level: int, room: int) -> DataFrame:
    """Whom the last level knows and nobody has met, in the order of a queue, at most ``room``."""
    frontier = found.where(F.col("level") == level).select(F.col("user").alias("source"), "rank")
    met = frontier.join(friends, "source", "inner").groupBy("target").agg(F.min("rank").alias("parent"))
    known = found.select(F.col("user").alias("target"))
    return met.join(known, "target", "left_anti").orderBy("parent", "target").limit(room)


def _ranked(fresh: DataFrame, size: int, level: int) -> DataFrame:
    """Their ranks; one window over all of them is no larger than the sample."""
    rank = F.row_number().over(Window.orderBy("parent", "target")) + F.lit(size - 1)
    return fresh.select(
        F.col("target").alias("user"),
        rank.cast("long").alias("rank"),
        F.lit(level).cast("long").alias("level"),
    )


def _restart(users: Users, found: DataFrame, tried: int) -> tuple[int, int]:
    """The first user in the random order that is not found yet, and its place there."""
    while True:
        candidates = users.in_turn(tried, tried + _RESTARTS)
        fresh = candidates.join(found.select("user"), "user", "left_anti").orderBy("turn").first()
        if fresh is not None:
            return fresh["user"], fresh["turn"]
        tried += _RESTARTS


def followees(edges: DataFrame, users: Users, nodes: int, given: Sequence[int], keep: Keep) -> DataFrame:
    """Users in random order (the given ones first), each with all whom it follows, until there are ``nodes``.

    A user stands where it is met first: itself before those whom it follows, and these by their numbers. Of
    the last user's followees only as many are taken as are needed. How many users are tried together does not
    change the result, only the work.
    """
    tried = nodes * users.count // (edges.count() + users.count) + 1
    while True:
        turns = _turns(users, given, tried)
        itself = turns.select("user", "turn", F.lit(0).alias("step"))
        follows = edges.join(F.broadcast(turns.withColumnRenamed("user", "source")), "source", "inner")
        met = itself.union(follows.select("target", "turn", F.lit(1))).groupBy("user")
        first = met.agg(F.min(F.struct("turn", "step")).alias("place"))
        found = keep(first.orderBy("place", "user").limit(nodes))
        if found.count() == nodes:
            rank = F.row_number().over(Window.orderBy("place", "user")) - 1
            return found.select("user", rank.cast("long").alias("rank"))
        tried *= 2


def _turns(users: Users, given: Sequence[int], tried: int) -> DataFrame:
    """The users to try, with their turns; a given one counts with its first."""
    random = users.in_turn(0, tried)
    if not given:
        return random
    rows = [(user, turn - len(given)) for turn, user in enumerate(given)]
    first = random.sparkSession.createDataFrame(rows, "user long, turn long")
    return first.union(random).groupBy("user").agg(F.min("turn").alias("turn"))


def numbered(found: DataFrame, seed: int, nodes: int) -> DataFrame:
    """The table ``samples``: users with the numbers that they have in a simulation (sim/sample.py)."""

    def number(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = random_numbers(seed, nodes)
        for batch in batches:
            own = pa.array(numbers[batch.column("rank").to_numpy()])
            columns: list[Any] = [batch.column("user"), batch.column("rank"), own]
            yield pa.RecordBatch.from_arrays(columns, SAMPLES.schema.fieldNames())

    ordered = found.select("user", "rank").mapInArrow(number, SAMPLES.schema).orderBy("rank")
    return ordered.select(*SAMPLES.schema.fieldNames())


def edges_among(edges: DataFrame, samples: DataFrame) -> DataFrame:
    """The table ``sample_edges``: all edges whose both ends are in the sample."""
    source = samples.select(F.col("user").alias("source"), F.col("number").alias("node"))
    target = samples.select(F.col("user").alias("target"), F.col("number").alias("topic"))
    inside = edges.join(source, "source", "inner").join(target, "target", "inner")
    return inside.orderBy("node", "topic").select(*SAMPLE_EDGES.schema.fieldNames())


@dataclass(frozen=True, slots=True)
class SamplePlan:
    """What to sample."""

    users: int
    """How many users."""
    seed: int = limited(1, at_least=0, at_most=SEED_MAX)
    method: str = "breadth-first"
    """One of ``METHODS``."""
    start: tuple[int, ...] = ()
    """Users to start from; none: random ones."""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InputError(f'a sample is taken {" or ".join(METHODS)}, not "{self.method}"')
        if self.users < 1:
            raise InputError(f"a sample has at least one user, not {self.users}")
        check(self)


@dataclass(frozen=True, slots=True)
class SampleResult:
    """A sample in figures."""

    users: int
    edges: int
    statistics: list[dict[str, Any]]
    """Rows of the table ``degree_statistics``."""
    was_there: bool
    """Whether the lake had this very sample already."""


MADE = (SAMPLES, SAMPLE_EDGES, DEGREES, CCDF, DEGREE_STATISTICS)
"""What a sample consists of."""


def find_graph(lake: Lake, dataset: str) -> tuple[Published, Published]:
    """A graph's edges and users, which must be of one and the same."""
    edges, users = lake.current(EDGES, dataset), lake.current(USERS, dataset)
    if edges.fingerprint != users.fingerprint:
        raise InputError(f"{lake.folder}: edges and users of {dataset!r} are of two graphs: ingest it again")
    return edges, users


def sample_made_from(lake: Lake, dataset: str, plan: SamplePlan) -> dict[str, Any]:
    """What a sample depends on."""
    return _made_from(find_graph(lake, dataset), plan)


def _made_from(graph: tuple[Published, Published], plan: SamplePlan) -> dict[str, Any]:
    sources = {told.table: told.fingerprint for told in graph}
    return {"stage": "sample", "code": _CODE, "dataset": graph[0].dataset, **sources, **asdict(plan)}


def take_sample(spark: SparkSession, lake: Lake, dataset: str, name: str, plan: SamplePlan) -> SampleResult:
    """The job: sample the graph ``dataset`` and publish the sample as ``name``, unless it is there."""
    graph = find_graph(lake, dataset)
    made_from = _made_from(graph, plan)
    was_there = all(lake.is_fresh(table, name, made_from) for table in MADE)
    if not was_there:
        edges = lake.read_published(spark, EDGES, graph[0])
        users = lake.read_published(spark, USERS, graph[1])

        def published(table: Table, frame: DataFrame) -> DataFrame:
            return lake.read_published(spark, table, lake.publish(table, name, frame, made_from))

        with scratch(lake.folder) as keep:
            found = find_users(edges, users, plan, keep)
            samples = published(SAMPLES, numbered(found, plan.seed, plan.users))
        kept_edges = published(SAMPLE_EDGES, edges_among(edges, samples))
        both = degrees(users, edges, ORIGINAL).unionByName(degrees(samples, kept_edges, SAMPLE))
        shares = published(CCDF, ccdf(published(DEGREES, both)))
        published(DEGREE_STATISTICS, statistics(shares))
    rows = lake.read(spark, DEGREE_STATISTICS, name).orderBy("kind", "graph").collect()
    return SampleResult(
        users=lake.current(SAMPLES, name).rows,
        edges=lake.current(SAMPLE_EDGES, name).rows,
        statistics=[row.asDict() for row in rows],
        was_there=was_there,
    )


def find_users(edges: DataFrame, users: DataFrame, plan: SamplePlan, keep: Keep) -> DataFrame:
    """The users of a sample in the order found: ``user``, ``rank``."""
    everyone = Users(users, plan.seed, keep)
    if plan.users > everyone.count:
        raise InputError(f"the graph has {everyone.count:,} users, not {plan.users:,}")
    everyone.check(plan.start)
    if plan.method == "followees":
        return followees(edges, everyone, plan.users, plan.start, keep)
    return breadth_first(edges, everyone, plan.users, plan.start or STARTS, keep)
