"""Regularity on Spark: equal to column expressions, to a count by seconds, and to the reference values."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.spark_tests import SPARK
from vinecast.cli import main
from vinecast.core.errors import InputError
from vinecast.sim.workload.churn import read_avt

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from vinecast.core.arrays.regularity import CYCLES_S, SLOTS_S
from vinecast.pipeline.lake import Lake
from vinecast.pipeline.regularity import (
    RegularityPlan,
    Setting,
    analyse,
    count,
    means,
    online_over_time,
    overview_of,
    presence,
    regularity_made_from,
    settings_of,
)
from vinecast.pipeline.tables import PRESENCE, REGULARITY, SESSIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = SPARK

HOUR = 3600
Trace = list[list[tuple[float, float]]]


def frame_of(spark: "SparkSession", trace: Trace, partitions: int = 2) -> "DataFrame":
    rows = [
        (node, f"n{node}", [float(on) for on, _ in sessions], [float(off) for _, off in sessions])
        for node, sessions in enumerate(trace)
    ]
    return spark.createDataFrame(rows, SESSIONS.schema).repartition(partitions)


def by_column_expressions(
    sessions: "DataFrame", setting: Setting, thresholds: list[int], horizon_us: int
) -> "DataFrame":
    """The same counts in SQL arithmetic, window by window; only slots in which somebody is regular."""
    grid = setting.grid()

    def windows(times: "DataFrame") -> "DataFrame":
        window = F.explode(F.sequence(F.expr(f"`on` div {grid.slot}"), F.expr(f"(off - 1) div {grid.slot}")))
        cut = times.where("off > `on`").select("*", window.alias("window"))
        begin = F.col("window") * grid.slot
        overlap = F.least("off", begin + grid.slot) - F.greatest("on", begin)
        return cut.select("*", (F.col("window") % grid.slots).alias("slot"), overlap.alias("overlap"))

    spark = sessions.sparkSession
    times = sessions.select("node", F.explode(F.arrays_zip("on_s", "off_s")).alias("session")).select(
        "node",
        F.rint(F.col("session.on_s") * 1_000_000).cast("long").alias("on"),
        F.rint(F.col("session.off_s") * 1_000_000).cast("long").alias("off"),
    )
    whole = spark.createDataFrame([(0, horizon_us)], "`on` long, off long")
    observed = windows(whole).groupBy("slot").agg(F.sum("overlap").alias("observed"))
    online = windows(times).groupBy("node", "slot").agg(F.sum("overlap").alias("online"))
    gammas = spark.createDataFrame([(gamma,) for gamma in thresholds], "threshold int")
    regular = (
        online.join(observed, "slot", "inner")
        .crossJoin(gammas)
        .where(F.col("online") * 100 > F.col("observed") * F.col("threshold"))
        .select("node", "threshold", "slot")
    )
    before = regular.select("node", "threshold", ((F.col("slot") - 1) % grid.slots).alias("slot"))
    before = before.withColumn("slot", F.pmod("slot", F.lit(grid.slots))).withColumn("stays", F.lit(1))
    return (
        regular.join(before, ["node", "threshold", "slot"], "left")
        .groupBy("threshold", "slot")
        .agg(F.count("*").alias("regular"), F.count("stays").alias("retained"))
        .select("threshold", F.col("slot").cast("int").alias("slot"), "regular", "retained")
    )


def by_seconds(trace: Trace, setting: Setting, threshold: int) -> list[tuple[int, int, int]]:
    """Second by second, in plain Python: slot, regular, retained."""
    cycle, slot = CYCLES_S[setting.cycle], setting.slot_s
    horizon = max((int(off) for sessions in trace for _, off in sessions), default=0)
    observed = Counter(second % cycle // slot for second in range(horizon))
    bits = []
    for sessions in trace:
        online = Counter(s % cycle // slot for on, off in sessions for s in range(int(on), int(off)))
        bits.append([online[i] * 100 > observed[i] * threshold for i in range(cycle // slot)])
    return [
        (i, sum(row[i] for row in bits), sum(row[i] and row[(i + 1) % len(row)] for row in bits))
        for i in range(cycle // slot)
    ]


def sessions_from(instants: set[int]) -> list[tuple[float, float]]:
    return [(977.0 * on, 977.0 * off) for on, off in pairwise(sorted(instants))][::2]


traces = st.lists(st.sets(st.integers(0, 180), max_size=20).map(sessions_from), min_size=1, max_size=4)


@settings(max_examples=6)
@given(trace=traces, slot_s=st.sampled_from([HOUR, 6 * HOUR, 24 * HOUR]), partitions=st.integers(1, 3))
def test_equal_to_a_count_by_seconds(
    spark: "SparkSession", trace: Trace, slot_s: int, partitions: int
) -> None:
    setting = Setting("day", slot_s)
    sessions = frame_of(spark, trace, partitions)
    horizon_us = overview_of(sessions).horizon_us
    counts = count(sessions, [setting], [0, 40], horizon_us).orderBy("threshold", "slot").collect()
    found = [(row["slot"], row["regular"], row["retained"]) for row in counts]
    assert found == by_seconds(trace, setting, 0) + by_seconds(trace, setting, 40)


TRACE: Trace = [
    [(0, 5 * HOUR), (24 * HOUR, 27.5 * HOUR), (48 * HOUR + 0.25, 60 * HOUR)],
    [(0, 60 * HOUR)],
    [],
    [(2 * HOUR, 3 * HOUR), (26 * HOUR, 27 * HOUR), (50 * HOUR, 51 * HOUR)],
    [(7.125, 7.125), (10 * HOUR, 40 * HOUR)],
]


@pytest.mark.parametrize("setting", [Setting("day", 300), Setting("week", HOUR)], ids=str)
def test_equal_to_column_expressions(spark: "SparkSession", setting: Setting) -> None:
    sessions = frame_of(spark, TRACE)
    horizon_us = overview_of(sessions).horizon_us
    counts = count(sessions, [setting], [60, 75, 95], horizon_us).where("regular > 0")
    expected = by_column_expressions(sessions, setting, [60, 75, 95], horizon_us)
    assertDataFrameEqual(counts.select(*expected.columns), expected)


def test_on_line_time_of_every_node_and_slot(spark: "SparkSession") -> None:
    rows = presence(frame_of(spark, TRACE), settings_of(["day"], [12 * HOUR, 24 * HOUR])).collect()
    found = {(row["node"], row["slot_s"]): row["online_s"] for row in rows}
    assert len(rows) == 2 * len(TRACE)
    assert found[1, 12 * HOUR] == [36 * HOUR, 24 * HOUR]
    assert found[2, 12 * HOUR] == [0, 0]
    assert found[0, 24 * HOUR] == [20.5 * HOUR - 0.25]
    assert presence(frame_of(spark, TRACE), [Setting("day", HOUR)]).schema.fieldNames() == list(
        PRESENCE.schema.fieldNames()
    )


def test_a_trace_in_figures_and_over_time(spark: "SparkSession") -> None:
    sessions = frame_of(spark, TRACE)
    whole = overview_of(sessions)
    assert (whole.nodes, whole.ever_online, whole.sessions) == (5, 4, 9)
    assert whole.horizon_us == 60 * HOUR * 1_000_000
    assert whole.online_mean == pytest.approx(
        (20.5 * HOUR - 0.25 + 60 * HOUR + 3 * HOUR + 30 * HOUR) / (60 * HOUR)
    )
    online = {
        row["window"]: row["online"]
        for row in online_over_time(sessions, 24 * HOUR, whole.horizon_us).collect()
    }
    assert online == {
        0: (5 + 24 + 1 + 14) / 24,
        1: (3.5 + 24 + 1 + 16) / 24,
        2: (12 - 0.25 / HOUR + 12 + 1) / 12,
    }


def test_an_empty_trace_has_nobody(spark: "SparkSession") -> None:
    sessions = frame_of(spark, [[], []])
    whole = overview_of(sessions)
    assert (whole.nodes, whole.ever_online, whole.online_mean) == (2, 0, 0.0)
    rows = means(count(sessions, [Setting("day", 12 * HOUR)], [60], 0)).collect()
    assert [(row["regular_mean"], row["retention_mean"], row["retention_min"]) for row in rows] == [
        (0, None, None)
    ]


def publish(spark: "SparkSession", lake: Lake, trace: Trace, source: str = "a test") -> None:
    ordered = frame_of(spark, trace).orderBy("node")
    lake.publish(SESSIONS, "made-up", ordered, {"source": source})


def test_the_job_publishes_once(spark: "SparkSession", tmp_path: Path) -> None:
    lake, plan = Lake(tmp_path), RegularityPlan(slots_s=(HOUR,), thresholds=(60, 75))
    publish(spark, lake, TRACE)
    first = analyse(spark, lake, "made-up", plan)
    made = lake.current(REGULARITY, "made-up")
    assert not first.was_there
    assert made.rows == 2 * (24 + 168)
    again = analyse(spark, lake, "made-up", plan)
    assert again.was_there
    assert again.means == first.means
    assert lake.current(REGULARITY, "made-up") == made
    assert [(row["cycle"], row["threshold"]) for row in first.means] == [
        ("day", 60), ("day", 75), ("week", 60), ("week", 75),
    ]  # fmt: skip
    publish(spark, lake, TRACE[:2], "another")
    assert not analyse(spark, lake, "made-up", plan).was_there, "the trace has changed"


def test_the_command(spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish(spark, Lake(tmp_path), TRACE)
    typed = [
        "pipeline",
        "regularity",
        "made-up",
        "--lake",
        str(tmp_path),
        "--cycle",
        "day",
        "--slot",
        "60,720",
    ]
    assert main([*typed, "--thresholds", "75,60", "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (told["nodes"], told["ever_online"], told["sessions"]) == (5, 4, 9)
    assert [(row["slot_s"], row["threshold"]) for row in told["means"]] == [
        (HOUR, 60), (HOUR, 75), (12 * HOUR, 60), (12 * HOUR, 75),
    ]  # fmt: skip
    assert main([*typed, "--markdown"]) == 0
    assert "| day | 60 min | 60 % |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--slot", "7"], "slots of 7 minutes do not divide a day into equal parts"),
        (["--thresholds", "60,100"], "a threshold is a whole per cent from 0 to 99, not 100"),
        ([], "there is no dataset 'nothing' of sessions (there: none)"),
    ],
)
def test_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    assert main(["pipeline", "regularity", "nothing", "--lake", str(tmp_path), *options]) == 2
    assert words in capsys.readouterr().err


def test_an_analysis_depends_on_its_code(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    with lake.new_generation(SESSIONS, "it") as generation:
        generation.commit({})
    assert "code" in regularity_made_from(lake, "it", RegularityPlan())


def test_a_plan_that_cannot_be() -> None:
    with pytest.raises(InputError, match='one of day, week, not "month"'):
        RegularityPlan(cycles=("month",))


def test_the_reference_values_are_met_exactly(spark: "SparkSession", data_folder: Path) -> None:
    """Skype, hourly slots, mean over the slots, rounded."""
    trace = read_avt(data_folder / "skype.avt.gz")
    bounds = list(pairwise(trace.start.tolist()))
    rows: Trace = [
        list(zip(trace.on_s[a:b].tolist(), trace.off_s[a:b].tolist(), strict=True)) for a, b in bounds
    ]
    sessions = frame_of(spark, rows, 3)
    whole = overview_of(sessions)
    assert (whole.nodes, whole.sessions, round(whole.online_mean, 1)) == (2081, 29217, 690.5)
    plan = RegularityPlan()
    found = means(count(sessions, plan.settings(), plan.thresholds, whole.horizon_us))
    regular = [int(row["regular_mean"] + 0.5) for row in found.orderBy("cycle", "threshold").collect()]
    assert regular[:8] == [554, 498, 448, 397, 342, 295, 228, 160]
    assert regular[8:] == [555, 541, 528, 347, 323, 314, 299, 286]


def test_every_setting_of_the_thesis() -> None:
    assert len(settings_of(CYCLES_S, SLOTS_S)) == 8
