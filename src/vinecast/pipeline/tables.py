"""The tables of the lake: every schema, declared once.

A change of a schema raises its table's version, and the version is part of the path in the lake: old data is
never read with new eyes. A table is written once per *dataset*, which is the name that the user gives to what
was ingested (``slashdot``), sampled (``slashdot-10k``) or run.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from vinecast.core.trace import FIELDS

LONG, INTEGER, DOUBLE = LongType(), IntegerType(), DoubleType()
STRING, BOOLEAN, DOUBLES = StringType(), BooleanType(), ArrayType(DoubleType(), containsNull=False)


@dataclass(frozen=True, slots=True)
class LakeTable:
    """One table: its name and version are its place in the lake."""

    name: str
    version: int
    schema: StructType
    partition_by: tuple[str, ...] = ()


TABLES: dict[str, LakeTable] = {}
"""All tables, by name."""


def declare(
    name: str,
    version: int,
    /,
    partition_by: Iterable[str] = (),
    nullable: Iterable[str] = (),
    **fields: DataType,
) -> LakeTable:
    """Add a table; only the fields named in ``nullable`` may be empty."""
    may_be_empty = frozenset(nullable)
    schema = StructType([StructField(field, kind, field in may_be_empty) for field, kind in fields.items()])
    table = TABLES[name] = LakeTable(name, version, schema, tuple(partition_by))
    return table


# --- ingest ----------------------------------------------------------------------------------------------

EDGES = declare("edges", 1, source=LONG, target=LONG)
"""Who follows whom (source subscribes to the topic of target), each once, no loops; all edges of a source lie
in one file, which is in order of source and target. An undirected graph has both directions of every edge."""

USERS = declare("users", 1, user=LONG)
"""Everyone whom a graph's file names, each file in ascending order; also who has nothing but a self-loop."""

SESSIONS = declare("sessions", 1, node=LONG, name=STRING, on_s=DOUBLES, off_s=DOUBLES)
"""One row a node, in the order of the file: when it comes on line and when it leaves, in seconds since the
start of the measurement; in order, without overlap; both empty for a node that was never on line."""

LATENCIES = declare("latencies", 1, source=INTEGER, target=INTEGER, rtt_ms=DOUBLE)
"""Round-trip times of a full square matrix, row by row, its diagonal included."""

PINGS = declare(
    "pings",
    1,
    nullable=["distance_km", "mdev_ms"],
    source=STRING,
    target=STRING,
    distance_km=DOUBLE,
    avg_ms=DOUBLE,
    min_ms=DOUBLE,
    max_ms=DOUBLE,
    mdev_ms=DOUBLE,
)
"""Round-trip times between named places."""

ACTIVITY = declare("activity", 1, line=LONG, source=LONG, target=LONG, at_s=LONG, kind=STRING)
"""Who did what to whom when (Unix seconds), in the order of the file: RT retweet, MT mention, RE reply."""

TOPICS = declare("topics", 1, topic=STRING, node=STRING, author=STRING, events=LONG)
"""The topics of a workload, the node and the user that made each, and how many events it says it has."""

SUBSCRIPTIONS = declare("subscriptions", 1, node=STRING, user=STRING, topic=STRING)
"""Who subscribes to what in a workload that says so itself."""

PUBLICATIONS = declare("publications", 1, event=LONG, node=STRING, user=STRING, topic=STRING)
"""Who publishes what; ``event`` is the workload's own number of it."""

QUARANTINE = declare("quarantine", 1, file=STRING, line=LONG, reason=STRING, text=STRING)
"""Lines that could not be taken, with the reason and how the line begins."""

_TRACE_TYPES: dict[str, DataType] = {
    "int8": ByteType(),
    "int16": ShortType(),
    "int32": INTEGER,
    "int64": LONG,
    "dictionary": STRING,
}

TRACES = declare("traces", 1, (), (), **{name: _TRACE_TYPES[kind] for name, kind in FIELDS})
"""The trace records of live nodes (core/trace.py), in order of time, node and line. Nodes and topics are
numbered by the next two tables, −1 where there is none; ``event`` is the event's own number."""

TRACE_NODES = declare(
    "trace_nodes", 1, nullable=["system", "period_us"], node=INTEGER, id=STRING, system=STRING, period_us=LONG
)
"""All nodes that traces name, numbered in the order of their ids, which are in hex; the system and the cycle
of those whose own traces are there."""

TRACE_TOPICS = declare("trace_topics", 1, topic=INTEGER, name=STRING)
"""All topics that traces name, numbered in the order of their names."""

# --- sample ----------------------------------------------------------------------------------------------

SAMPLES = declare("samples", 1, user=LONG, rank=LONG, number=LONG)
"""The users of a sample: their place in the order in which they were found, and the node that each becomes in
a simulation, a number that tells nothing about the place in the graph."""

SAMPLE_EDGES = declare("sample_edges", 1, source=LONG, target=LONG, node=LONG, topic=LONG)
"""All edges among the users of a sample; ``node`` and ``topic`` are the numbers of source and target."""

DEGREES = declare("degrees", 1, ["graph"], graph=STRING, user=LONG, followers=LONG, followees=LONG)
"""How many follow a user and how many it follows, in the graphs ``original`` and ``sample``."""

CCDF = declare("ccdf", 1, graph=STRING, kind=STRING, degree=LONG, users=LONG, at_least=DOUBLE)
"""How many users have exactly so many followers or followees, and the share that has as many or more."""

DEGREE_STATISTICS = declare(
    "degree_statistics",
    1,
    graph=STRING,
    kind=STRING,
    users=LONG,
    mean=DOUBLE,
    variance=DOUBLE,
    std=DOUBLE,
    max=LONG,
    distance=DOUBLE,
)
"""The figures of S2 Fig. 3.7, and the Kolmogorov–Smirnov distance from the original's distribution."""

# --- regularity ------------------------------------------------------------------------------------------

PRESENCE = declare(
    "presence", 1, ["cycle", "slot_s"], node=LONG, cycle=STRING, slot_s=INTEGER, online_s=DOUBLES
)
"""A node's on-line seconds in every slot of a cycle (day, week), over the whole trace."""

REGULARITY = declare(
    "regularity",
    1,
    cycle=STRING,
    slot_s=INTEGER,
    threshold=INTEGER,
    slot=INTEGER,
    observed_s=DOUBLE,
    regular=LONG,
    retained=LONG,
)
"""How many nodes are regular in a slot at a threshold in per cent, and how many of them also in the next;
``observed_s``: all the slot's seconds in the trace."""

REGULARITY_MEANS = declare(
    "regularity_means",
    1,
    nullable=["retention_mean", "retention_min", "retention_max"],
    cycle=STRING,
    slot_s=INTEGER,
    threshold=INTEGER,
    slots=INTEGER,
    regular_mean=DOUBLE,
    regular_min=LONG,
    regular_max=LONG,
    retention_mean=DOUBLE,
    retention_min=DOUBLE,
    retention_max=DOUBLE,
)
"""Over all slots: regular nodes, and the share of them that stays regular; empty where nobody is regular."""
