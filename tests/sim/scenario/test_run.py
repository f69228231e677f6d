"""Runs: what the scenario says is what happens, on either engine."""

import dataclasses
import gzip
import itertools
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from support.runs import (
    CAME,
    ENGINES,
    FAULTS,
    LIVELY,
    MEASURE,
    ON_OFF,
    ONLINE,
    RUNS,
    SMALL,
    TRACE,
    WENT,
    Table,
    column,
    contents,
    rows_of,
    run_in,
)
from vinecast.core.errors import InputError
from vinecast.core.trace import SCHEMA_VERSION, TraceKind
from vinecast.sim.measure import records
from vinecast.sim.measure.overlay import OverlayStats
from vinecast.sim.scenario import run
from vinecast.sim.scenario.run import RunOutcome, run_to_folder, simulate
from vinecast.sim.scenario.scenario import find_file, read_scenario, resolve

# What happens is what the scenario says.


@pytest.mark.parametrize("engine", ENGINES)
def test_faults_follow_the_scenario(engine: str) -> None:
    rows = rows_of(SMALL, ENGINES[engine], {"faults": FAULTS})
    assert column(rows, "online") == ONLINE
    assert column(rows, "came") == CAME
    assert column(rows, "went") == WENT


@pytest.mark.parametrize("engine", ENGINES)
def test_comings_and_goings_add_up_between_measurements(engine: str) -> None:
    rows = rows_of(SMALL, ENGINES[engine], {"faults": FAULTS, "measure": {"every": 4}})
    assert column(rows, "cycle") == [3, 7, 9]
    assert column(rows, "online") == [ONLINE[3], ONLINE[7], ONLINE[9]]
    assert column(rows, "came") == [sum(CAME[:4]), sum(CAME[4:8]), sum(CAME[8:])]
    assert column(rows, "went") == [sum(WENT[:4]), sum(WENT[4:8]), sum(WENT[8:])]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_restart_with_and_without_state(engine: str) -> None:
    def links_after_restart(keep_state: bool) -> float:
        faults = [
            {"at_cycle": 4, "kind": "crash", "share": 1.0},
            {"at_cycle": 5, "kind": "restart", "share": 1.0, "keep_state": keep_state},
        ]
        rows = rows_of(SMALL, ENGINES[engine], {"cycles": 6, "faults": faults})
        assert column(rows, "online") == [40, 40, 40, 40, 0, 40]
        return float(rows[5]["out_degree_mean"])

    kept, lost = links_after_restart(True), links_after_restart(False)
    assert kept > 4
    assert lost < 3


@pytest.mark.parametrize("engine", ENGINES)
def test_nobody_left(engine: str) -> None:
    faults = [{"at_cycle": 2, "kind": "crash", "share": 1.0}, {"at_cycle": 4, "kind": "join", "count": 5}]
    rows = rows_of(SMALL, ENGINES[engine], {"faults": faults, "measure": MEASURE})
    assert column(rows, "online") == [40, 40, 0, 0, 5, 5, 5, 5, 5, 5]
    assert (rows[3]["components"], rows[3]["clustering"], rows[3]["path_length"]) == (0, 0.0, None)


def test_newcomers_know_as_many_as_the_scenario_says() -> None:
    faults = [{"at_cycle": 1, "kind": "join", "count": 10}]
    few = rows_of(SMALL, {"faults": faults, "start": {"contacts": 6, "join_contacts": 1}})
    many = rows_of(SMALL, {"faults": faults, "start": {"contacts": 6, "join_contacts": 6}})
    assert many[1]["out_degree_mean"] > few[1]["out_degree_mean"]


TRACE_ONLINE = [3, 2, 3, 2, 2, 2, 2, 2, 2, 2]
TRACE_CAME = [3, 1, 1, 0, 0, 0, 0, 0, 0, 0]
TRACE_WENT = [0, 2, 0, 1, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("packed", [False, True])
def test_churn_from_a_trace(tmp_path: Path, engine: str, packed: bool) -> None:
    (tmp_path / "x.avt").write_bytes(gzip.compress(TRACE.encode()) if packed else TRACE.encode())
    churn = {"kind": "trace", "trace": "x.avt"}
    rows = rows_of(SMALL, ENGINES[engine], {"nodes": 6, "churn": churn}, folder=tmp_path)
    assert column(rows, "online") == TRACE_ONLINE
    assert column(rows, "came") == TRACE_CAME
    assert column(rows, "went") == TRACE_WENT


def test_the_first_nodes_of_a_trace(tmp_path: Path) -> None:
    (tmp_path / "x.avt").write_text(TRACE, encoding="utf-8")
    churn = {"kind": "trace", "trace": "x.avt"}
    rows = rows_of(SMALL, {"nodes": 2, "churn": churn}, folder=tmp_path)
    assert column(rows, "online") == [1, 2, 2, 1, 1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("engine", ENGINES)
def test_on_off_churn_is_the_same_on_every_engine(engine: str) -> None:
    from vinecast.sim.workload.churn import on_off

    churn = on_off(1, 40, 600.0, ON_OFF["mean_on_s"], ON_OFF["mean_off_s"])
    masks = list(churn.at_cycles(60.0, 10))
    rows = rows_of(SMALL, ENGINES[engine], {"churn": ON_OFF})
    assert column(rows, "online") == [int(mask.sum()) for mask in masks]
    came = [int((now & ~before).sum()) for before, now in itertools.pairwise(masks)]
    went = [int((before & ~now).sum()) for before, now in itertools.pairwise(masks)]
    assert column(rows, "came") == [int(masks[0].sum()), *came]
    assert column(rows, "went") == [0, *went]
    assert sum(came) > 5


BAD_TRACES = [
    ("a 1 0", ":1: 1 sessions need 2 times, not 1"),
    ("a 1 0 9\nb x", ":2: "),
    ("a 1 9 0", ":1: session 1 ends"),
    ("", "names no node"),
]


@pytest.mark.parametrize(("content", "words"), BAD_TRACES)
def test_a_malformed_trace_leaves_nothing(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "x.avt").write_text(content, encoding="utf-8")
    tables = {**SMALL, "nodes": 2, "churn": {"kind": "trace", "trace": "x.avt"}}
    with pytest.raises(InputError) as caught:
        run_in(tmp_path / "run", tables)
    assert str(caught.value).startswith(str(tmp_path / "x.avt"))
    assert words in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["x.avt"]


def test_a_trace_with_too_few_nodes_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.avt").write_text(TRACE, encoding="utf-8")
    with pytest.raises(InputError, match=r"x\.avt"):
        rows_of(SMALL, {"churn": {"kind": "trace", "trace": "x.avt"}}, folder=tmp_path)


@pytest.mark.parametrize("means", [(1e-9, 1.0), (1e-5, 1e-5)])
def test_churn_that_is_too_fast_is_named(means: tuple[float, float]) -> None:
    with pytest.raises(InputError, match="mean_on_s"):
        rows_of(SMALL, {"churn": {"kind": "onoff", "mean_on_s": means[0], "mean_off_s": means[1]}})


MATRIX = "# ms\n0 100 20\n100 0 40\n20 40 0\n"


def test_latencies_from_a_matrix(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text(MATRIX, encoding="utf-8")
    tables = {**SMALL, "engine": "event", "network": {"latency": "matrix", "matrix": "m.txt"}}
    outcome = run_in(tmp_path / "run", tables)
    assert column(outcome.rows, "online") == [40] * 10


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("0 1\n1", ":2: 1 columns where the first row has 2"),
        ("0 x\nx 0", ":1: not a row of numbers"),
        ("0 -1\n1 0", ":1: a round-trip time must be between"),
        ("0 nan\n1 0", ":1: a round-trip time must be between"),
        ("0 1\n", ": not a square matrix (1 rows, 2 columns)"),
        ("", ": not a square matrix (0 rows, 0 columns)"),
    ],
)
def test_a_malformed_matrix_leaves_nothing(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "m.txt").write_text(content, encoding="utf-8")
    tables = {**SMALL, "engine": "event", "network": {"latency": "matrix", "matrix": "m.txt"}}
    with pytest.raises(InputError) as caught:
        run_in(tmp_path / "run", tables)
    assert str(caught.value).startswith(f"{tmp_path / 'm.txt'}{words}")
    assert [path.name for path in tmp_path.iterdir()] == ["m.txt"]


def test_a_matrix_of_eternities(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text("0 1e30\n1e30 0\n", encoding="utf-8")
    tables = {**SMALL, "engine": "event", "network": {"latency": "matrix", "matrix": "m.txt"}}
    with pytest.raises(InputError, match=r"m\.txt:1"):
        rows_of(tables, folder=tmp_path)


@pytest.mark.parametrize(
    "table",
    [{"event": {"clock_offset_ms": 1e308}}, {"network": {"partitions": [{"from_s": 0, "to_s": 1e308}]}}],
    ids=["clock", "partition"],
)
def test_what_is_valid_can_be_run(table: Table) -> None:
    try:
        resolved = resolve({**SMALL, "engine": "event", **table}, Path())
    except InputError:
        return
    assert len(simulate(resolved).rows) == 10


def test_where_files_are_looked_for(tmp_path: Path) -> None:
    beside, data = tmp_path / "beside", tmp_path / "data"
    beside.mkdir()
    data.mkdir()
    (data / "x").touch()
    assert find_file("x", beside, data) == data / "x"
    (beside / "x").touch()
    assert find_file("x", beside, data) == beside / "x"
    assert find_file(str(data / "x"), beside, None) == data / "x"
    with pytest.raises(InputError, match=r"^y: no such file beside the scenario or in .*data$"):
        find_file("y", beside, data)
    with pytest.raises(InputError, match=r"^y: no such file .* \(--data DIR\)$"):
        find_file("y", beside, None)


def test_a_trace_in_the_data_folder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.avt").write_text(TRACE, encoding="utf-8")
    tables = {**SMALL, "nodes": 6, "churn": {"kind": "trace", "trace": "x.avt"}}
    outcome = run_in(tmp_path / "run", tables, data=tmp_path / "data")
    assert column(outcome.rows, "online") == TRACE_ONLINE
    again = read_scenario(tmp_path / "run" / "scenario.toml")
    run_to_folder(again, tmp_path / "again", data=tmp_path / "data")
    assert contents(tmp_path / "again") == contents(tmp_path / "run")


def test_a_run_beside_its_trace_runs_again_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "x.avt").write_text(TRACE, encoding="utf-8")
    run_in(tmp_path / "run", {**SMALL, "nodes": 6, "churn": {"kind": "trace", "trace": "x.avt"}})
    again = read_scenario(tmp_path / "run" / "scenario.toml")
    assert column(simulate(again).rows, "online") == TRACE_ONLINE


# Records.


def test_records_agree_with_the_counters(tmp_path: Path) -> None:
    outcome = run_in(tmp_path / "run", RUNS["event"])
    table = pq.read_table(tmp_path / "run" / "records.parquet")
    assert table.schema.metadata[b"vinecast.trace"] == str(SCHEMA_VERSION).encode()
    kept = table.to_pylist()
    assert len(kept) == outcome.summary["records"]
    counted = Counter(
        f"sent.{record['message']}" if record["kind"] == TraceKind.SENT else f"dropped.{record['reason']}"
        for record in kept
    )
    counters = outcome.summary["counters"]
    assert {"sent.cyclon.request", "sent.cyclon.answer", "dropped.loss"} <= set(counted)
    assert {"dropped.offline", "dropped.partition"} <= set(counted)
    assert dict(counted) == {k: v for k, v in counters.items() if k.startswith(("sent.", "dropped."))}
    times = column(kept, "time_us")
    assert times == sorted(times)
    assert times[0] >= 0
    assert times[-1] < 10 * 60_000_000
    assert {record["node"] for record in kept} <= set(range(40))
    assert {record["peer"] for record in kept} <= set(range(40))
    assert all(record["node"] != record["peer"] for record in kept)
    cut = [record for record in kept if record["reason"] == "partition"]
    assert all(120_000_000 <= record["time_us"] < 240_000_000 for record in cut)


def test_records_are_written_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_in(tmp_path / "one", RUNS["event"])
    monkeypatch.setattr(records, "BATCH_ROWS", 100)
    outcome = run_in(tmp_path / "many", RUNS["event"])
    one = pq.read_table(tmp_path / "one" / "records.parquet")
    many = pq.read_table(tmp_path / "many" / "records.parquet")
    assert pq.ParquetFile(tmp_path / "many" / "records.parquet").num_row_groups > 3
    assert many.num_rows == outcome.summary["records"]
    assert one.to_pylist() == many.to_pylist()


def test_records_do_not_change_the_run(tmp_path: Path) -> None:
    silent = {**RUNS["event"], "event": {**LIVELY["event"], "records": False}}
    with_records, without = run_in(tmp_path / "a", RUNS["event"]), run_in(tmp_path / "b", silent)
    assert with_records.rows == without.rows
    assert with_records.summary["counters"] == without.summary["counters"]


# Clocks.


def test_clocks_that_are_off_and_drift() -> None:
    def lived(**event: float) -> RunOutcome:
        return simulate(resolve({**SMALL, "engine": "event", "event": event}, Path()))

    right, off, fast = lived(), lived(clock_offset_ms=1e7), lived(clock_drift_ppm=100_000)
    assert off.rows == right.rows  # Cyclon has timers, but never looks at the clock
    assert fast.rows != right.rows
    assert column(fast.rows, "online") == [40] * 10
    requests = fast.summary["counters"]["sent.cyclon.request"]
    assert requests == pytest.approx(400, rel=0.1)


# What the summary says.


def test_the_summary_of_a_broken_network() -> None:
    crash = {"at_cycle": 5, "kind": "crash", "share": 0.8}
    tables = {**SMALL, "cyclon": {"view_size": 1, "gossip_size": 1}, "faults": [crash]}
    outcome = simulate(resolve(tables, Path()))
    assert outcome.rows[-1]["components"] > 1
    assert outcome.summary["connected_throughout"] is False
    assert simulate(resolve(SMALL, Path())).summary["connected_throughout"] is True


def test_the_summary_counts_newcomers_as_nodes() -> None:
    tables = {**SMALL, "faults": FAULTS}
    outcome = simulate(resolve(tables, Path()))
    assert outcome.summary["nodes"] == 47
    assert outcome.summary["came"] == sum(CAME)
    assert outcome.summary["went"] == sum(WENT)
    assert outcome.summary["setting"] == "sequential"
    assert outcome.summary["state_bytes_per_node"] > 0


def test_the_columns_are_those_of_the_overlay() -> None:
    fields = [field.name for field in dataclasses.fields(OverlayStats)]
    assert list(run.CYCLE_COLUMNS) == ["cycle", "time_s", "came", "went", *fields]
