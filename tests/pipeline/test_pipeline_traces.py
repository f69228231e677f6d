"""Traces of live nodes in the lake: no line lost, the same numbers however they are divided, and the metrics
that the run itself told."""

import gzip
import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from support.spark_tests import SPARK
from support.traced_peers import TracedRun, run_traced
from vinecast.core.errors import InputError
from vinecast.core.trace import SCHEMA_VERSION, NamedRecord, TraceKind
from vinecast.core.trace_lines import SUFFIX, TraceHeading, heading_line, record_line

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

from pyspark.sql import SparkSession

from vinecast.pipeline.ingest import job
from vinecast.pipeline.ingest.job import Ingested, ingest
from vinecast.pipeline.ingest.splits import scan
from vinecast.pipeline.lake import Lake
from vinecast.pipeline.measure_traces import measure_traces
from vinecast.pipeline.runs_tables import LOADS, MEASURES, SERIES
from vinecast.pipeline.tables import QUARANTINE, TRACE_NODES, TRACE_TOPICS, TRACES, LakeTable
from vinecast.sim.measure.peer_runs import PeerRunMeter
from vinecast.sim.measure.reduction import TraceReducer

pytestmark = SPARK

PERIOD_US, PATIENCE_S = 500_000, 3.0
SOMEBODY, ANOTHER = b"\xaa" * 32, b"\x0b" * 32

traced = cache(run_traced)
Rows = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.fixture
def rows(spark: SparkSession, lake: Lake) -> Rows:
    """The rows of a table, in ascending order."""

    def read(table: LakeTable, dataset: str = "it") -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in lake.read(spark, table, dataset).collect())

    return read


def heading(node: bytes) -> str:
    return heading_line(TraceHeading(node, "flooding", PERIOD_US))


def write(run: TracedRun, folder: Path, files: int = 1) -> None:
    """The trace of a run, as so many files a node."""
    folder.mkdir()
    for node in run.ids:
        lines = [record_line(one) for one in run.records if one.node == node]
        step = -(-len(lines) // files)
        for part in range(files):
            path = folder / f"{node.hex()[:16]}-{part + 1:08}{SUFFIX}"
            path.write_text(heading(node) + "".join(lines[part * step : (part + 1) * step]))


def told(run: TracedRun) -> dict[str, Any]:
    """What the run itself tells, as ``vinecast net`` does."""
    meter, reducer = PeerRunMeter(round(PATIENCE_S * 1e6), PERIOD_US), TraceReducer()
    for number, node in enumerate(run.ids):
        meter.know(node, number)
        reducer.take(number, [one for one in run.records if one.node == node])
    meter.add(reducer.facts(0))
    meter.finish()
    return meter.measures()


def test_a_live_run_has_the_measures_that_it_told(
    spark: SparkSession, lake: Lake, rows: Rows, tmp_path: Path
) -> None:
    run = traced("flooding")
    write(run, tmp_path / "traces")
    found = ingest(spark, lake, "traces", tmp_path / "traces", "it")
    assert (found.lines, found.good, found.bad) == (len(run.records) + len(run.ids),) * 2 + (0,)
    result = measure_traces(spark, lake, "it")
    (measured,) = lake.read(spark, MEASURES, "it").where("when = 'run' and by = 'all'").collect()
    wanted = told(run)
    assert {name: measured[name] for name in wanted} == wanted
    assert result.deliveries == wanted["due"]
    series = lake.read(spark, SERIES, "it").collect()
    assert sum(row["published"] for row in series) == wanted["published"]
    assert {row["hit_ratio"] for row in series} == {1.0}
    assert sum(row["received"] for row in lake.read(spark, LOADS, "it").collect()) == sum(
        one.event >= 0 for one in run.of(TraceKind.SENT)
    )


def test_numbers_do_not_depend_on_how_the_lines_are_divided(
    spark: SparkSession, lake: Lake, rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = traced("pulsarcast")
    write(run, tmp_path / "whole")
    ingest(spark, lake, "traces", tmp_path / "whole", "whole")
    monkeypatch.setattr(job, "scan", lambda path: scan(path, split_bytes=40_000, block_bytes=20_000))
    write(run, tmp_path / "parts", files=3)
    one, *others = sorted((tmp_path / "parts").iterdir())
    random.Random(1).shuffle(others)
    zipped = tmp_path / "one.gz"
    zipped.write_bytes(gzip.compress(one.read_bytes()))
    found = ingest(spark, lake, "traces", [zipped, *others, others[0]], "parts")
    assert found.lines == len(run.records) + 3 * len(run.ids)
    for table in (TRACES, TRACE_NODES, TRACE_TOPICS):
        assert rows(table, "parts") == rows(table, "whole")
    names = {node: number for number, node, *_ in rows(TRACE_NODES, "whole")}
    topics = [name for _, name in rows(TRACE_TOPICS, "whole")]
    assert list(names) == sorted(node.hex() for node in run.ids)
    assert topics == ["a", "b", "c"]
    first = rows(TRACES, "whole")[0]
    assert first[:3] == (run.records[0].time_us, names[run.records[0].node.hex()], TraceKind.JOINED)
    assert first[3:] == (-1, "", -1, -1, -1, "", 0)


def test_every_line_is_good_or_set_aside(spark: SparkSession, lake: Lake, rows: Rows, tmp_path: Path) -> None:
    sent = NamedRecord(5, SOMEBODY, TraceKind.SENT, ANOTHER, "m", "t\0", 7, 1, size=9)
    good, torn = record_line(sent), record_line(sent)[:40]
    (tmp_path / f"b{SUFFIX}").write_text(
        heading(SOMEBODY) + good + "\n" + good.replace("sent", "lost") + torn
    )
    (tmp_path / f"a{SUFFIX}").write_text(heading(ANOTHER) + record_line(sent._replace(time_us=4, peer=b"")))
    (tmp_path / f"c{SUFFIX}").write_text("")
    found = ingest(spark, lake, "traces", tmp_path, "it", max_bad=0.5)
    assert (found.lines, found.good, found.bad, found.skipped) == (7, 4, 2, 1)
    assert found.first_bad == (
        f"b{SUFFIX}, line 4: kind must be one of published, sent, received_first, received_again, delivered, "
        "dropped, joined, left, not 'lost'"
    )
    aside = rows(QUARANTINE, "it.traces")
    assert [(file, line) for file, line, *_ in aside] == [(f"b{SUFFIX}", 4), (f"b{SUFFIX}", 5)]
    assert aside[1][2:] == ("not a JSON object", torn)
    assert rows(TRACES) == [(4, 1, 1, -1, "m", 0, 7, 1, "", 9), (5, 1, 1, 0, "m", 0, 7, 1, "", 9)]
    assert rows(TRACE_NODES) == [
        (0, ANOTHER.hex(), "flooding", PERIOD_US),
        (1, SOMEBODY.hex(), "flooding", PERIOD_US),
    ]
    assert rows(TRACE_TOPICS) == [(0, "t\N{REPLACEMENT CHARACTER}")]
    again = ingest(spark, lake, "traces", tmp_path, "it", max_bad=0.5)
    assert again.fresh


def test_what_cannot_be_taken_is_said(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    def take(*paths: Path, kind: str = "traces") -> Ingested:
        return ingest(spark, lake, kind, list(paths), "it")

    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: there is no trace in it \(\*.trace.jsonl\)"):
        take(tmp_path / "empty")
    with pytest.raises(InputError, match="no such file"):
        take(tmp_path / "none")
    with pytest.raises(InputError, match="avt is read from one file, not 2"):
        take(tmp_path, tmp_path, kind="avt")
    newer = json.loads(heading(SOMEBODY)) | {"trace": SCHEMA_VERSION + 1}
    (tmp_path / "new").write_text(json.dumps(newer) + "\n")
    with pytest.raises(InputError, match=f"new: the trace is of version {SCHEMA_VERSION + 1}, newer than"):
        take(tmp_path / "new")
    (tmp_path / "headless").write_text(record_line(NamedRecord(5, SOMEBODY, TraceKind.JOINED)))
    take(tmp_path / "headless")
    with pytest.raises(InputError, match="no trace of 'it' says how long a cycle is"):
        measure_traces(spark, lake, "it")
    with pytest.raises(InputError, match="there is no dataset 'other' of trace"):
        measure_traces(spark, lake, "other")
