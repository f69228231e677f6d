"""Measures: whichever way they are made, they are the simulator's own."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.spark_tests import SPARK
from support.sweeps import CHURN, EVENT, frame, sweep_table, write_scenario

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from vinecast.core.errors import InputError
from vinecast.pipeline.lake import Lake
from vinecast.pipeline.measure import count, measure_runs, measures_of, series_of
from vinecast.pipeline.measure_counts import cells_of, latency_cells_of, size_class
from vinecast.pipeline.measure_records import deliveries_of, loads_of, traffic_of
from vinecast.pipeline.runs import run_once
from vinecast.pipeline.runs_tables import (
    DISTRIBUTIONS,
    LOADS,
    MEASURES,
    RUN_CLASSES,
    RUN_COUNTS,
    RUN_CYCLES,
    RUN_DELIVERIES,
    RUN_HISTOGRAMS,
    RUN_PRESENCE,
    RUN_PUBLICATIONS,
    RUN_RECORDS,
    RUN_SUBSCRIPTIONS,
    SERIES,
)
from vinecast.pipeline.sweep import run_sweep
from vinecast.pipeline.sweep_file import expand, sweep_of
from vinecast.sim.measure.deliveries import WHENS
from vinecast.sim.measure.histograms import rounded
from vinecast.sim.scenario.scenario import resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = SPARK
ENGINES = ("sweep", "event")


@pytest.fixture(scope="module")
def lake(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Runs of both engines, with all that they can keep."""
    folder = tmp_path_factory.mktemp("measure")
    write_scenario(folder)
    lake = Lake(folder / "lake")
    table = sweep_table(keep=["deliveries"])
    run_sweep(spark, lake, "sweep", expand(sweep_of(table, folder), lake, None))
    table = {"scenario": "tiny.toml", "keep": ["deliveries", "records"], "set": CHURN | EVENT}
    run_sweep(spark, lake, "event", expand(sweep_of(table, folder), lake, None))
    return lake


@pytest.mark.parametrize("engine", ENGINES)
def test_adding_up_deliveries_is_what_the_task_did(spark: "SparkSession", lake: Lake, engine: str) -> None:
    deliveries = lake.read(spark, RUN_DELIVERIES, engine)
    publications = lake.read(spark, RUN_PUBLICATIONS, engine)
    found = count(deliveries, cells_of(deliveries), publications)
    assertDataFrameEqual(found.counts, lake.read(spark, RUN_COUNTS, engine))
    assertDataFrameEqual(found.histograms, lake.read(spark, RUN_HISTOGRAMS, engine))
    assertDataFrameEqual(found.publications, publications)


def test_records_tell_the_same_deliveries(spark: "SparkSession", lake: Lake) -> None:
    tables = (RUN_RECORDS, RUN_SUBSCRIPTIONS, RUN_PRESENCE, RUN_PUBLICATIONS)
    found = deliveries_of(*(lake.read(spark, table, "event") for table in tables))
    written = lake.read(spark, RUN_DELIVERIES, "event")
    assertDataFrameEqual(found, written)
    assert written.where("due AND hops = -1").count() > 0
    assert written.where("copies > 1").count() > 0


@pytest.mark.parametrize("engine", ENGINES)
def test_series_are_the_cycles_of_the_simulator(spark: "SparkSession", lake: Lake, engine: str) -> None:
    found = series_of(lake.read(spark, RUN_COUNTS, engine), lake.read(spark, RUN_PUBLICATIONS, engine))
    names = ["hit_ratio", "hops_mean", "hops_max", "duplication", "disconnected_topics", "nodes_missing"]
    cycles = lake.read(spark, RUN_CYCLES, engine).where(F.col("hit_ratio").isNotNull())
    expected = cycles.select("run_id", F.col("cycle").cast("int"), *names)
    assertDataFrameEqual(found.select("run_id", "cycle", *names), expected, rtol=0, atol=0)


@pytest.mark.parametrize("engine", ENGINES)
def test_measures_by_class_are_the_simulators(spark: "SparkSession", lake: Lake, engine: str) -> None:
    measured = measures(spark, lake, engine)
    names = ["run_id", "when", "by", "from", "to", "due", "hit_ratio", "hops_mean", "duplication"]
    classes = lake.read(spark, RUN_CLASSES, engine).select(*names)
    assertDataFrameEqual(measured.where("by != 'all'").select(*names), classes, rtol=0, atol=0)


def measures(spark: "SparkSession", lake: Lake, engine: str) -> "DataFrame":
    tables = (RUN_COUNTS, RUN_HISTOGRAMS, RUN_PUBLICATIONS, RUN_CYCLES)
    return measures_of(*(lake.read(spark, table, engine) for table in tables))


@pytest.mark.parametrize("engine", ENGINES)
def test_percentiles_are_those_of_all_deliveries(spark: "SparkSession", lake: Lake, engine: str) -> None:
    rows: Any = measures(spark, lake, engine).where("by = 'all' AND when = 'run'").toPandas()
    for row in rows.to_dict("records"):
        deliveries = lake.read(spark, RUN_DELIVERIES, engine)
        mine: Any = deliveries.where(F.col("run_id") == row["run_id"]).toPandas()
        received = mine[mine.hops > 0]
        for percent in (50, 90, 99):
            assert row[f"hops_p{percent}"] == nearest_rank(received.hops, percent)
            assert row[f"copies_p{percent}"] == nearest_rank(mine[mine.hops >= 0].copies, percent)
            if engine == "event":
                exact = nearest_rank(received.latency_us, percent) / 1000
                assert row[f"latency_ms_p{percent}"] == pytest.approx(exact, rel=0.005)
        if engine == "event":
            assert row["latency_ms_mean"] == pytest.approx(received.latency_us.mean() / 1000, rel=0.005)


def nearest_rank(values: Any, percent: int) -> float:
    ordered = np.sort(np.asarray(values))
    return float(ordered[-(-ordered.size * percent // 100) - 1])


def test_the_last_publication_may_have_no_events(spark: "SparkSession") -> None:
    """Nobody was there to publish: what came before is not the last."""
    publications = [{"run_id": "a", "cycle": cycle, "published": 2 - cycle} for cycle in (0, 1, 2)]
    counts = [
        {"run_id": "a", "cycle": cycle, "by": "popularity", "from": 1, "due": 4, "hits": 2 + cycle}
        for cycle in (0, 1)
    ]
    cycles = [{"run_id": "a", "cycle": cycle, "online": 3 - cycle} for cycle in (0, 1, 2)]
    tables = {RUN_COUNTS: counts, RUN_HISTOGRAMS: [], RUN_PUBLICATIONS: publications, RUN_CYCLES: cycles}
    found = measures_of(*(frame(spark, table, rows) for table, rows in tables.items()))
    told = {row["when"]: row for row in found.where("by = 'all'").collect()}
    assert [told["run"][name] for name in ("due", "hits", "published")] == [8, 5, 3]
    assert [told["last"][name] for name in ("due", "hits", "published")] == [0, 0, 0]
    assert (told["last"]["hit_ratio"], told["last"]["online"]) == (None, 1)
    assert found.where("by != 'all' AND when = 'last'").count() == 0


def test_overhead_is_the_meters(spark: "SparkSession", tmp_path: Path) -> None:
    """Scribe's events pass through nodes that did not ask for them; the simulator's meter counts these."""
    text = 'name = "relays"\nseed = 1\nsystem = "scribe"\nengine = "event"\nnodes = 40\ncycles = 4\n'
    (tmp_path / "relays.toml").write_text(text + "[workload]\nkind = 'synthetic'\nsubscriptions = 3\n")
    table = {"scenario": "relays.toml", "keep": ["records"]}
    spec = expand(sweep_of(table, tmp_path), Lake(tmp_path), None)[0]
    assert run_once(spec, tmp_path)["error"] is None
    files = {t: str(tmp_path / spec.run_id / f"{t.name}.parquet") for t in spec.tables}
    cycle = max(row["cycle"] for row in pq.read_table(files[RUN_CYCLES]).to_pylist())
    metered = pq.read_table(files[RUN_CYCLES]).to_pylist()[cycle]["traffic_overhead"]
    assert 0 < metered < 1
    period_us = resolve(spec.scenario, tmp_path).config.period_us
    during = F.col("time_us").between(cycle * period_us, (cycle + 1) * period_us - 1)
    records, held = (spark.read.parquet(files[t]) for t in (RUN_RECORDS, RUN_SUBSCRIPTIONS))
    total = traffic_of(records.where(during), held).agg(F.sum("unwanted"), F.sum("received")).first()
    assert total is not None
    assert total[0] / total[1] == metered


def test_loads_are_of_what_is_unwanted(spark: "SparkSession", lake: Lake) -> None:
    records, held = lake.read(spark, RUN_RECORDS, "event"), lake.read(spark, RUN_SUBSCRIPTIONS, "event")
    assert traffic_of(records, held).where("unwanted > 0").count() == 0, "PolderCast has no relays"
    half = held.where(F.col("topic") % 2 == 0)  # as if the others had never subscribed
    row = loads_of(records, half).agg(F.max("load"), F.sum("unwanted"), F.sum("received")).first()
    sent = records.where("kind = 1 AND event >= 0")
    assert row is not None
    assert (row[1], row[2]) == (sent.where("topic % 2 = 1").count(), sent.count())
    assert 0 < row[0] <= 1


def test_the_job_comes_to_the_same_from_anywhere(spark: "SparkSession", lake: Lake) -> None:
    rows, files = [], []
    for source, partitions in (("counts", "2"), ("counts", "3"), ("records", "3")):
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
        result = measure_runs(spark, lake, "event", source)
        assert (result.runs, result.source) == (1, source)
        tables = (MEASURES, SERIES, DISTRIBUTIONS)
        rows.append([pq.read_table(lake.path(table, "event")).to_pylist() for table in tables])
        folders = [lake.path(table, "event") for table in tables]
        files.append([path.read_bytes() for folder in folders for path in folder.glob("*.parquet")])
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    assert rows[0] == rows[2]
    assert files[0] == files[1]
    assert result.deliveries == lake.read(spark, RUN_DELIVERIES, "event").where("due").count()
    assert lake.read(spark, SERIES, "event").count() == 3
    assert lake.read(spark, LOADS, "event").count() > 0
    totals = lake.read(spark, DISTRIBUTIONS, "event").groupBy("run_id", "when", "what")
    shares = [row["whole"] for row in totals.agg(F.sum("share").alias("whole")).collect()]
    assert shares == pytest.approx([1] * 6)


def test_deliveries_that_were_not_kept(spark: "SparkSession", lake: Lake) -> None:
    with pytest.raises(InputError, match="no dataset 'sweep' of run_records"):
        measure_runs(spark, lake, "sweep", "records")
    with pytest.raises(InputError, match="start from counts"):
        measure_runs(spark, lake, "sweep", "guesses")


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=20))
def test_rounding_keeps_three_digits(values: list[int]) -> None:
    found = rounded(np.array(values)).tolist()
    for value, short in zip(values, found, strict=True):
        assert abs(value - short) * 200 <= value
        assert len(str(short).rstrip("0")) <= 3


def test_spark_rounds_and_sorts_into_classes_as_numpy_does(spark: "SparkSession") -> None:
    sizes = sorted({max(1, 2**k + d) for k in range(31) for d in (-1, 0, 1)})
    frame = spark.createDataFrame([(size,) for size in sizes], "size int")
    found = [row[0] for row in frame.select(size_class(F.col("size"))).collect()]
    assert found == [1 << (size.bit_length() - 1) for size in sizes]
    values = [0, 1, 99, 999, 1000, 1004, 1005, 9994, 9995, 123_456, 99_949, 99_950, 10**9 + 5 * 10**6]
    schema = "run_id string, cycle int, subscribers int, subscriptions int, hops int, latency_us long"
    told = spark.createDataFrame([("a", 0, 1, 1, 1, value) for value in values], schema)
    published = spark.createDataFrame([("a", 0)], "run_id string, cycle int")
    counted = latency_cells_of(told, published).groupBy("when", "value").agg(F.sum("count").alias("n"))
    expected: dict[int, int] = {}
    for value in rounded(np.array(values)).tolist():
        expected[value] = expected.get(value, 0) + 1
    cells = {(row["when"], row["value"]): row["n"] for row in counted.collect()}
    assert cells == {(when, value): count for when in WHENS for value, count in expected.items()}
