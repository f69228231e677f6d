"""The tables of sweeps: what runs write, and what is measured of them.

They are declared from the simulator's own columns, which is why they stand apart from the other tables:
reading a graph needs no simulator.
"""

from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ByteType, DataType, MapType, ShortType

from vinecast.core.trace import FIELDS
from vinecast.pipeline.tables import BOOLEAN, DOUBLE, INTEGER, LONG, STRING, LakeTable, declare
from vinecast.sim.measure.deliveries import (
    COUNT_COLUMNS,
    DELIVERY_COLUMNS,
    HISTOGRAM_COLUMNS,
    PUBLICATION_COLUMNS,
)
from vinecast.sim.measure.metrics import COUNTED
from vinecast.sim.scenario.run import CYCLE_COLUMNS
from vinecast.sim.scenario.watch import CLASS_COLUMNS, TOPIC_COLUMNS

_TYPES: dict[str, DataType] = {
    "int8": ByteType(),
    "int16": ShortType(),
    "int32": INTEGER,
    "int64": LONG,
    "float64": DOUBLE,
    "string": STRING,
    "dictionary": STRING,
    "bool_": BOOLEAN,
}

SUBSCRIPTION_COLUMNS = {"node": "int32", "topic": "int32"}
PRESENCE_COLUMNS = {"cycle": "int32", "node": "int32"}
RUN_CYCLE_COLUMNS = CYCLE_COLUMNS | TOPIC_COLUMNS


def _per_run(
    name: str, columns: Mapping[str, str], nullable: Iterable[str] = (), version: int = 1
) -> LakeTable:
    fields = {column: _TYPES[kind] for column, kind in columns.items()}
    return _declare(name, {"run_id": STRING, **fields}, nullable, version)


def _declare(
    name: str, fields: Mapping[str, DataType], nullable: Iterable[str] = (), version: int = 1
) -> LakeTable:
    """For columns whose names are data."""
    return declare(name, version, (), nullable, **fields)


# --- what runs write -------------------------------------------------------------------------------------

RUNS = declare(
    "runs",
    1,
    nullable=["error", "sha256"],
    run_id=STRING,
    seed=LONG,
    settings=MapType(STRING, STRING, valueContainsNull=False),
    scenario=STRING,
    system=STRING,
    engine=STRING,
    nodes=LONG,
    cycles=LONG,
    period_us=LONG,
    status=STRING,
    error=STRING,
    rows=LONG,
    bytes=LONG,
    sha256=STRING,
)
"""One row a run of a sweep: its place in the grid (settings: axis → value as JSON), the scenario as it was
run (JSON), ``ok`` or ``failed`` with the reason, and rows, bytes and digest of what the sweep keeps of it."""

RUN_TIMINGS = declare(
    "run_timings", 1, run_id=STRING, simulate_s=DOUBLE, task_s=DOUBLE, host=STRING, process=LONG
)
"""How long runs took and where: all that differs from one sweep to the next. ``simulate_s`` is the part of
``task_s`` that was spent inside the simulator."""

RUN_CYCLES = _per_run(
    "run_cycles",
    RUN_CYCLE_COLUMNS,
    nullable=[*TOPIC_COLUMNS, "clustering", "path_length", "unreachable"],
    version=2,
)
"""The overlay and the topics, measured cycle by cycle (sim/scenario/run.py, sim/scenario/watch.py)."""

RUN_CLASSES = _per_run(
    "run_classes",
    CLASS_COLUMNS,
    nullable=[name for name, kind in CLASS_COLUMNS.items() if kind == "float64"],
    version=2,
)
"""The simulator's own measures by class (sim/scenario/watch.py)."""

RUN_PUBLICATIONS = _per_run("run_publications", PUBLICATION_COLUMNS)
RUN_COUNTS = _per_run("run_counts", COUNT_COLUMNS)
RUN_HISTOGRAMS = _per_run("run_histograms", HISTOGRAM_COLUMNS)
RUN_DELIVERIES = _per_run("run_deliveries", DELIVERY_COLUMNS, nullable=["latency_us"])
"""See sim/measure/deliveries.py for these four; deliveries only where a sweep keeps them."""

RUN_RECORDS = _per_run("run_records", dict(FIELDS), version=2)
"""Trace records (core/trace.py), where a sweep of the event engine keeps them; with them go the next two."""
RUN_SUBSCRIPTIONS = _per_run("run_subscriptions", SUBSCRIPTION_COLUMNS)
"""Who subscribes to what."""
RUN_PRESENCE = _per_run("run_presence", PRESENCE_COLUMNS)
"""Who is held to the events of a publication."""

ALWAYS = (RUN_CYCLES, RUN_CLASSES, RUN_PUBLICATIONS, RUN_COUNTS, RUN_HISTOGRAMS)
"""What every run writes; without topics, some of it is empty."""
KEPT: dict[str, tuple[LakeTable, ...]] = {
    "deliveries": (RUN_DELIVERIES,),
    "records": (RUN_RECORDS, RUN_SUBSCRIPTIONS, RUN_PRESENCE),
}
"""What a run writes besides if the sweep says so, by the name that it says."""


# --- what is measured ------------------------------------------------------------------------------------

PERCENTILES = (50, 90, 99)
RATIOS = ("hit_ratio", "miss_ratio", "hops_mean", "duplication")
SPREADS = tuple(
    f"{name}_{which}"
    for name in ("hops", "copies", "latency_ms")
    for which in (*(f"p{percent}" for percent in PERCENTILES), "max")
)
PER_CYCLE = (
    *("online", "in_degree_mean", "in_degree_std", "in_degree_max", "dead_links"),
    *("missing_links", "incomplete_rings", "traffic_overhead", "control_messages", "control_bytes"),
    *("disconnected_topics", "nodes_missing", "hit_by_topic"),
)
"""Columns of the cycles that are averaged over a run."""

MEASURES = _declare(
    "measures",
    {
        **dict.fromkeys(("run_id", "when", "by"), STRING),
        **dict.fromkeys(("from", "to", *COUNTED, "published"), LONG),
        **dict.fromkeys((*RATIOS, "latency_ms_mean", *SPREADS, *PER_CYCLE), DOUBLE),
    },
    nullable=[*RATIOS, "latency_ms_mean", *SPREADS, *PER_CYCLE],
    version=2,
)
"""The metrics of a run, all publications together (``when`` is run) or its last: over everything (``by`` is
all) and by class. Those of the overlay and of control traffic are for everything only: the mean over the
run's cycles, or the last cycle. Hop and copy percentiles are exact, those of latency within half a per cent.
"""

SERIES = _declare(
    "series",
    {
        "run_id": STRING,
        "cycle": INTEGER,
        **dict.fromkeys((*COUNTED, "published"), LONG),
        **dict.fromkeys(("hit_ratio", "hops_mean", "hops_max", "duplication"), DOUBLE),
        **dict.fromkeys(("disconnected_topics", "nodes_missing"), DOUBLE),
    },
)
"""What became of the events of each publication."""

DISTRIBUTIONS = declare(
    "distributions", 1, run_id=STRING, when=STRING, what=STRING, value=LONG, count=LONG, share=DOUBLE,
    at_most=DOUBLE,
)  # fmt: skip
"""How often each value occurs among deliveries, its share, and the share of values up to it."""

POINTS = declare(
    "points", 1, point=STRING, measure=STRING, runs=LONG, mean=DOUBLE, std=DOUBLE, low=DOUBLE, high=DOUBLE
)
"""A measure at one point of the grid (its settings as JSON) over the seeds: mean, standard deviation of the
sample (0 for a single run), least and most."""

LOADS = declare(
    "loads", 1, run_id=STRING, node=INTEGER, received=LONG, unwanted=LONG, overhead=DOUBLE, load=DOUBLE
)
"""From records: the event messages that a node was sent, those it did not want, their share, and the share of
all events that it handled without wanting them."""


def conform(frame: DataFrame, table: LakeTable) -> DataFrame:
    """The columns of a table, in its order and with its types: how every transform here ends."""
    return frame.select(*(F.col(field.name).cast(field.dataType) for field in table.schema))
