"""Samples of social graphs that are too large to simulate, by joins level by level.

*Breadth first* (S0 §6.1): from a few users a search goes along edges, in either direction, until enough users
are found; all edges among them are kept. *Followees* (S2 §3.6.5): random users, each with everyone whom it
follows, until there are enough; again with all relations among them. Both are exact: the order is that of a
plain queue, since the users of a level, ordered by their first parent's rank and then by their own number,
stand as a queue would have taken them. The same seed starts from the same users as sim/workload/sample.py and
gives the same sample, on any number of tasks.

Edges stay in Spark. The driver holds one number a user, for the keyed random order of all of them, and the
sample, which a simulation must hold anyway; so a level of the search is one job and leaves nothing to keep.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from vinecast.core.config import check, limited
from vinecast.core.draws import SEED_MAX
from vinecast.core.errors import InputError
from vinecast.pipeline.degrees import ORIGINAL, SAMPLE, ccdf, degrees, statistics
from vinecast.pipeline.lake import DatasetPointer, Lake
from vinecast.pipeline.tables import (
    CCDF,
    DEGREE_STATISTICS,
    DEGREES,
    EDGES,
    SAMPLE_EDGES,
    SAMPLES,
    USERS,
    LakeTable,
)
from vinecast.sim.workload.sample import random_numbers, start_order

METHODS = ("breadth-first", "followees")
STARTS = 5
"""Random users that a breadth-first search starts from, as in sim/workload/sample.py (S0: "a few")."""
_CODE = 1  # raise it when the same graph would give another sample
_RESTARTS = 64  # ours: candidates looked at together when a search has run out of users


class Users:
    """The users of a graph and the keyed random order in which a search starts from them."""

    def __init__(self, users: DataFrame, seed: int) -> None:
        self._users: NDArray[np.int64] = np.sort(users.select("user").toArrow()["user"].to_numpy())
        self._order: NDArray[np.int64] = start_order(seed, self.count)

    @property
    def count(self) -> int:
        """How many there are."""
        return self._users.size

    def in_turn(self, first: int, last: int) -> NDArray[np.int64]:
        """The users from one place to another of the random order."""
        return self._users[self._order[first:last]]

    def check(self, given: Sequence[int]) -> None:
        """InputError unless all of these are users of the graph."""
        if len(set(given)) < len(given):
            raise InputError("a user to start from is named twice")
        known = np.isin(np.array(given, dtype=np.int64), self._users)
        if unknown := [user for user, there in zip(given, known, strict=True) if not there]:
            raise InputError(f"the graph has no user {unknown[0]} to start from")


def breadth_first(
    edges: DataFrame, users: Users, nodes: int, starts: Sequence[int] | int
) -> NDArray[np.int64]:
    """The first ``nodes`` users that a search finds, in the order found.

    It starts from the users given, or from so many random ones. When whole components are exhausted, one more
    random user is taken; each such restart costs a Spark job, so that a sample of thousands of tiny
    components is not what this is for.
    """
    friends = edges.select("source", "target").union(edges.select(F.col("target"), F.col("source")))
    found = _first_level(users, starts)[:nodes]
    level, tried = 0, 0
    while found.size < nodes:
        fresh = _next_level(friends, found, level, nodes - found.size)
        if not fresh.size:
            fresh, tried = _restart(users, found, tried)
        level, found = found.size, np.concatenate([found, fresh])
    return found


def _first_level(users: Users, starts: Sequence[int] | int) -> NDArray[np.int64]:
    if not isinstance(starts, int):
        return np.array(starts, dtype=np.int64)
    if starts < 1:
        raise InputError(f"a search needs at least one user to start from, not {starts}")
    return users.in_turn(0, starts)


def _next_level(friends: DataFrame, found: NDArray[np.int64], level: int, room: int) -> NDArray[np.int64]:
    """Whom the last level knows and nobody has met, in the order of a queue, at most ``room``.

    found: [rank]; level: the rank of the last level's first user
    """
    spark = friends.sparkSession
    ranks = np.arange(level, found.size)
    frontier = spark.createDataFrame(pa.table({"source": found[level:], "rank": ranks}))
    known = spark.createDataFrame(pa.table({"target": found}))
    met = friends.join(F.broadcast(frontier), "source", "inner").groupBy("target").agg(
        F.min("rank").alias("parent")
    )  # fmt: skip
    fresh = met.join(F.broadcast(known), "target", "left_anti").orderBy("parent", "target").limit(room)
    return _in_order(fresh, "parent", "target")


def _in_order(frame: DataFrame, *columns: str) -> NDArray[np.int64]:
    """The last of these columns, in the order of all of them."""
    table = frame.select(*columns).toArrow().sort_by([(column, "ascending") for column in columns])
    numbers: NDArray[np.int64] = table[columns[-1]].to_numpy()
    return numbers


def _restart(users: Users, found: NDArray[np.int64], tried: int) -> tuple[NDArray[np.int64], int]:
    """The first user in the random order that is not found yet, and its place there."""
    while True:
        fresh = np.flatnonzero(~np.isin(users.in_turn(tried, tried + _RESTARTS), found))
        if fresh.size:
            place = tried + int(fresh[0])
            return users.in_turn(place, place + 1), place
        tried += _RESTARTS


def followees(edges: DataFrame, users: Users, nodes: int, given: Sequence[int]) -> NDArray[np.int64]:
    """Users in random order (the given ones first), each with all whom it follows, until there are ``nodes``.

    A user stands where it is met first: itself before those whom it follows, and these by their numbers. Of
    the last user's followees only as many are taken as are needed. How many users are tried together does not
    change the result, only the work.
    """
    tried = nodes * users.count // (edges.count() + users.count) + 1
    while True:
        turns = edges.sparkSession.createDataFrame(_turns(users, given, tried))
        itself = turns.select("user", "turn", F.lit(0).alias("step"))
        follows = edges.join(F.broadcast(turns.withColumnRenamed("user", "source")), "source", "inner")
        met = itself.union(follows.select("target", "turn", F.lit(1))).groupBy("user")
        first = met.agg(F.min(F.struct("turn", "step")).alias("place")).select("place.*", "user")
        found = _in_order(first.orderBy("turn", "step", "user").limit(nodes), "turn", "step", "user")
        if found.size == nodes:
            return found
        tried *= 2


def _turns(users: Users, given: Sequence[int], tried: int) -> pa.Table:
    """The users to try, with their turns; a given one counts with its first."""
    random = users.in_turn(0, tried)
    first = np.array(given, dtype=np.int64)
    order = np.concatenate([first, random[~np.isin(random, first)]])
    return pa.table({"user": order, "turn": np.arange(order.size)})


def numbered(found: NDArray[np.int64], seed: int) -> pa.Table:
    """The table ``samples``: users with the numbers that they have in a simulation (sim/workload/sample.py).

    found: [rank]
    """
    columns = (found, np.arange(found.size), random_numbers(seed, found.size))
    return pa.table(dict(zip(SAMPLES.schema.fieldNames(), columns, strict=True)))


def edges_among(edges: DataFrame, samples: DataFrame) -> DataFrame:
    """The table ``sample_edges``: all edges whose both ends are in the sample, in order.

    One task sorts them, as one task simulates them; a sort by several would go over all edges once more.
    """
    source = samples.select(F.col("user").alias("source"), F.col("number").alias("node"))
    target = samples.select(F.col("user").alias("target"), F.col("number").alias("topic"))
    inside = edges.join(F.broadcast(source), "source", "inner").join(F.broadcast(target), "target", "inner")
    ordered = inside.repartition(1).sortWithinPartitions("node", "topic")
    return ordered.select(*SAMPLE_EDGES.schema.fieldNames())


@dataclass(frozen=True, slots=True)
class SamplePlan:
    """How many users a sample has, and where it begins."""

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


def find_graph(lake: Lake, dataset: str) -> tuple[DatasetPointer, DatasetPointer]:
    """A graph's edges and users, which must be of one and the same."""
    edges, users = lake.current(EDGES, dataset), lake.current(USERS, dataset)
    if edges.fingerprint != users.fingerprint:
        raise InputError(f"{lake.folder}: edges and users of {dataset!r} are of two graphs: ingest it again")
    return edges, users


def sample_made_from(lake: Lake, dataset: str, plan: SamplePlan) -> dict[str, Any]:
    """What a sample depends on."""
    return _made_from(find_graph(lake, dataset), plan)


def _made_from(graph: tuple[DatasetPointer, DatasetPointer], plan: SamplePlan) -> dict[str, Any]:
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

        def published(table: LakeTable, frame: DataFrame) -> DataFrame:
            return lake.read_published(spark, table, lake.publish(table, name, frame, made_from))

        found = numbered(find_users(edges, users, plan), plan.seed)
        samples = published(SAMPLES, spark.createDataFrame(found).coalesce(1))
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


def find_users(edges: DataFrame, users: DataFrame, plan: SamplePlan) -> NDArray[np.int64]:
    """The users of a sample in the order found. [rank]"""
    everyone = Users(users, plan.seed)
    if plan.users > everyone.count:
        raise InputError(f"the graph has {everyone.count:,} users, not {plan.users:,}")
    everyone.check(plan.start)
    if plan.method == "followees":
        return followees(edges, everyone, plan.users, plan.start)
    return breadth_first(edges, everyone, plan.users, plan.start or STARTS)
