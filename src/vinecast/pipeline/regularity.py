"""The regularity of the nodes of a trace (S4 ch. 4), as set-oriented transforms of the table ``sessions``.

A node is one row with all its sessions, so nothing has to be shuffled: whole Arrow batches go through the
compiled rules of core/arrays/regularity.py, which hold the definition, and each task adds its nodes up before
Spark adds up the tasks. All sums are of whole numbers (microseconds, nodes) and give the same result in any
order.

*Retention* from a slot to the next (S4 §4.4.3) is |A ∩ B| / |A| for the nodes A regular in the one and B in
the other. (S4 prints a union, which could not stay below 100 %; its numbers are those of the intersection.) A
cycle recurs, so that its first slot follows its last. Where nobody is regular there is nothing to retain, and
the slot is left out of the mean.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from vinecast.core.arrays.regularity import (
    CYCLES_S,
    THRESHOLDS,
    Grid,
    OnlineTimes,
    check_thresholds,
    count_nodes,
    observed_time,
    sum_online,
)
from vinecast.core.errors import InputError
from vinecast.pipeline.lake import Lake
from vinecast.pipeline.tables import PRESENCE, REGULARITY, REGULARITY_MEANS, SESSIONS

SECOND_US = 1_000_000
_CODE = 1  # raise it when the same trace would give other rows
_VALUES_A_BATCH = 1 << 20  # ours: 8 MB of on-line times a batch, however many slots a cycle has


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to cut time: the name of a cycle and the length of a slot."""

    cycle: str
    slot_s: int

    def grid(self) -> Grid:
        """In microseconds."""
        if self.cycle not in CYCLES_S:
            raise InputError(f'the cycle must be one of {", ".join(CYCLES_S)}, not "{self.cycle}"')
        cycle_s = CYCLES_S[self.cycle]
        if not 0 < self.slot_s <= cycle_s or cycle_s % self.slot_s:
            minutes = f"{self.slot_s / 60:g}"
            raise InputError(f"slots of {minutes} minutes do not divide a {self.cycle} into equal parts")
        return Grid(cycle_s * SECOND_US, self.slot_s * SECOND_US)


def settings_of(cycles: Iterable[str], slots_s: Sequence[int]) -> list[Setting]:
    """Every cycle with every length of a slot; InputError for one that cannot be."""
    settings = [
        Setting(cycle, slot_s) for cycle in dict.fromkeys(cycles) for slot_s in dict.fromkeys(slots_s)
    ]
    for setting in settings:
        setting.grid()
    return settings


def microseconds(seconds: str | Column) -> Column:
    """Seconds as whole microseconds, as ``_sessions_of`` rounds them."""
    return F.rint(F.col(seconds) * SECOND_US if isinstance(seconds, str) else seconds * SECOND_US).cast(
        "long"
    )


def overview(sessions: DataFrame) -> DataFrame:
    """A trace in one row: nodes, how many were ever on line, sessions, horizon and on-line time."""
    length_us = F.zip_with("off_s", "on_s", lambda off, on: microseconds(off) - microseconds(on))
    online_us = F.aggregate(length_us, F.lit(0).cast("long"), lambda total, length: total + length)
    return sessions.agg(
        F.count("*").alias("nodes"),
        F.count_if(F.size("on_s") > 0).alias("ever_online"),
        F.coalesce(F.sum(F.size("on_s")), F.lit(0)).alias("sessions"),
        F.coalesce(F.max(microseconds(F.array_max("off_s"))), F.lit(0)).alias("horizon_us"),
        F.coalesce(F.sum(online_us), F.lit(0)).alias("online_us"),
    )


def online_over_time(sessions: DataFrame, window_s: int, horizon_us: int) -> DataFrame:
    """The mean number of nodes on line in each window of the trace (S4 Fig. 4.1): ``window``, ``online``."""
    window_us = window_s * SECOND_US
    session = F.explode(F.arrays_zip("on_s", "off_s"))
    times = sessions.select(session.alias("session")).select(
        microseconds("session.on_s").alias("on"), microseconds("session.off_s").alias("off")
    )
    window = F.explode(F.sequence(F.expr(f"`on` div {window_us}"), F.expr(f"(off - 1) div {window_us}")))
    begin = F.col("window") * window_us
    overlap = F.least("off", begin + window_us) - F.greatest("on", begin)
    length = F.least(begin + window_us, F.lit(horizon_us)) - begin
    return (
        times.where("off > `on`")
        .select("on", "off", window.alias("window"))
        .groupBy("window")
        .agg(F.sum(overlap).alias("online_us"))
        .select("window", (F.col("online_us") / length).alias("online"))
        .orderBy("window")
    )


def presence(sessions: DataFrame, settings: Sequence[Setting]) -> DataFrame:
    """The on-line time of every node in every slot: the table ``presence``."""
    grids = [(setting, setting.grid()) for setting in settings]

    def sum_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for whole in batches:
            for setting, grid in grids:
                nodes = max(_VALUES_A_BATCH // grid.slots, 1)
                for low in range(0, whole.num_rows, nodes):
                    yield _presence_of(whole.slice(low, nodes), setting, grid)

    return sessions.select("node", "on_s", "off_s").mapInArrow(sum_up, PRESENCE.schema)


def _presence_of(batch: pa.RecordBatch, setting: Setting, grid: Grid) -> pa.RecordBatch:
    online = np.zeros((batch.num_rows, grid.slots), dtype=np.int64)
    sum_online(_sessions_of(batch), grid.cycle, grid.slot, online)
    offsets = np.arange(batch.num_rows + 1, dtype=np.int32) * grid.slots
    seconds = pa.ListArray.from_arrays(
        pa.array(offsets.astype(np.int32)), pa.array(online.ravel() / SECOND_US)
    )
    constants = ([setting.cycle] * batch.num_rows, np.full(batch.num_rows, setting.slot_s, dtype=np.int32))
    return _batch(PRESENCE.schema.fieldNames(), [batch.column("node"), *constants, seconds])


def _batch(names: list[str], columns: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array(column) if not isinstance(column, pa.Array) else column for column in columns], names
    )


def _sessions_of(batch: pa.RecordBatch) -> OnlineTimes:
    """In microseconds."""
    start = batch.column("on_s").offsets.to_numpy().astype(np.int64)
    on, off = (
        np.rint(batch.column(name).flatten().to_numpy() * SECOND_US).astype(np.int64)
        for name in ("on_s", "off_s")
    )
    return OnlineTimes(start - start[0], on, off)


def count(
    sessions: DataFrame, settings: Sequence[Setting], thresholds: Sequence[int], horizon_us: int
) -> DataFrame:
    """Regular nodes of every slot, and how many of them stay so in the next: the table ``regularity``."""
    check_thresholds(tuple(thresholds))
    grids = [(setting, setting.grid()) for setting in settings]

    def count_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gammas = np.array(thresholds, dtype=np.int64)
        observed = [observed_time(grid, horizon_us) for _, grid in grids]
        counts = [np.zeros((2, gammas.size, grid.slots), dtype=np.int64) for _, grid in grids]
        for batch in batches:
            nodes = _sessions_of(batch)
            for (_, grid), seen, (regular, retained) in zip(grids, observed, counts, strict=True):
                scratch = np.zeros(grid.slots, dtype=np.int64)
                count_nodes(nodes, grid.cycle, grid.slot, seen, gammas, scratch, regular, retained)
        for (setting, _), seen, found in zip(grids, observed, counts, strict=True):
            yield _counts_of(setting, gammas, seen, found)

    keys = ("cycle", "slot_s", "threshold", "slot", "observed_s")
    return (
        sessions.select("on_s", "off_s")
        .mapInArrow(count_up, REGULARITY.schema)
        .groupBy(*keys)
        .agg(F.sum("regular").alias("regular"), F.sum("retained").alias("retained"))
        .select(*REGULARITY.schema.fieldNames())
    )


def _counts_of(
    setting: Setting, gammas: NDArray[np.int64], observed: NDArray[np.int64], found: NDArray[np.int64]
) -> pa.RecordBatch:
    """One row a threshold and slot. found: [regular and retained, threshold, slot]"""
    rows, slots = found[0].size, observed.size
    columns = [
        [setting.cycle] * rows,
        np.full(rows, setting.slot_s, dtype=np.int32),
        np.repeat(gammas, slots).astype(np.int32),
        np.tile(np.arange(slots, dtype=np.int32), gammas.size),
        np.tile(observed / SECOND_US, gammas.size),
        found[0].ravel(),
        found[1].ravel(),
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(column) for column in columns], REGULARITY.schema.fieldNames()
    )


def means(counts: DataFrame) -> DataFrame:
    """Means over the slots: the table ``regularity_means``.

    Retentions are fractions and are added up in the order of the slots: always the same last bit.
    """
    pair = F.struct("slot", (F.col("retained") / F.col("regular")).alias("share"))
    shares = F.transform(
        F.array_sort(F.collect_list(F.when(F.col("regular") > 0, pair))), lambda p: p["share"]
    )
    total = F.aggregate("shares", F.lit(0.0), lambda total, share: total + share)
    return (
        counts.groupBy("cycle", "slot_s", "threshold")
        .agg(
            F.count("*").cast("int").alias("slots"),
            (F.sum("regular") / F.count("*")).alias("regular_mean"),
            F.min("regular").alias("regular_min"),
            F.max("regular").alias("regular_max"),
            shares.alias("shares"),
        )
        .select(
            "cycle",
            "slot_s",
            "threshold",
            "slots",
            "regular_mean",
            "regular_min",
            "regular_max",
            F.when(F.size("shares") > 0, total / F.size("shares")).alias("retention_mean"),
            F.array_min("shares").alias("retention_min"),
            F.array_max("shares").alias("retention_max"),
        )
        .select(*REGULARITY_MEANS.schema.fieldNames())
    )


@dataclass(frozen=True, slots=True)
class RegularityPlan:
    """Which cycles, slots and thresholds a trace is analysed by."""

    cycles: tuple[str, ...] = tuple(CYCLES_S)
    slots_s: tuple[int, ...] = (3600,)
    thresholds: tuple[int, ...] = THRESHOLDS

    def __post_init__(self) -> None:
        check_thresholds(self.thresholds)
        self.settings()

    def settings(self) -> list[Setting]:
        """All cycles with all slots."""
        return settings_of(self.cycles, self.slots_s)


@dataclass(frozen=True, slots=True)
class Overview:
    """A trace in figures."""

    nodes: int
    ever_online: int
    sessions: int
    horizon_us: int
    online_us: int

    @property
    def online_mean(self) -> float:
        """Nodes on line, averaged over the time of the trace."""
        return self.online_us / self.horizon_us if self.horizon_us else 0.0


@dataclass(frozen=True, slots=True)
class RegularityResult:
    """The regularity of a trace in figures."""

    overview: Overview
    means: list[dict[str, Any]]
    """Rows of the table ``regularity_means``, in order."""
    was_there: bool
    """Whether the lake had this very analysis already."""


def overview_of(sessions: DataFrame) -> Overview:
    """``overview``, collected: it is one row."""
    return Overview(**overview(sessions).collect()[0].asDict())


MADE = (PRESENCE, REGULARITY, REGULARITY_MEANS)
"""What an analysis consists of."""


def regularity_made_from(lake: Lake, dataset: str, plan: RegularityPlan) -> dict[str, Any]:
    """What an analysis depends on."""
    return {
        "stage": "regularity",
        "code": _CODE,
        "sessions": lake.current(SESSIONS, dataset).fingerprint,
        **asdict(plan),
    }


def analyse(spark: SparkSession, lake: Lake, dataset: str, plan: RegularityPlan) -> RegularityResult:
    """The job: publish presence, regular nodes and their means for a trace, unless they are there."""
    made_from = regularity_made_from(lake, dataset, plan)
    sessions = lake.read(spark, SESSIONS, dataset)
    whole = overview_of(sessions)
    was_there = all(lake.is_fresh(table, dataset, made_from) for table in MADE)
    if not was_there:
        settings = plan.settings()
        counts = count(sessions, settings, plan.thresholds, whole.horizon_us)
        lake.publish(PRESENCE, dataset, presence(sessions, settings), made_from)
        lake.publish(REGULARITY, dataset, counts, made_from)
        lake.publish(REGULARITY_MEANS, dataset, means(lake.read(spark, REGULARITY, dataset)), made_from)
    rows = lake.read(spark, REGULARITY_MEANS, dataset).orderBy("cycle", "slot_s", "threshold").collect()
    return RegularityResult(whole, [row.asDict() for row in rows], was_there)
