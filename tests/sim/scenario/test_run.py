"""Runs: what the scenario says is what happens, on either engine, to the byte, and all of it or nothing."""

import dataclasses
import gzip
import itertools
import json
import os
import subprocess
import sys
import threading
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vinecast.core.errors import InputError
from vinecast.core.trace import SCHEMA_VERSION, TraceKind
from vinecast.sim.measure import records
from vinecast.sim.measure.overlay import OverlayStats
from vinecast.sim.scenario import run
from vinecast.sim.scenario.run import CYCLE_COLUMNS, RunOutcome, run_to_folder, simulate
from vinecast.sim.scenario.scenario import find_file, read_scenario, resolve

Table = dict[str, Any]

SMALL: Table = {
    "name": "t",
    "seed": 1,
    "nodes": 40,
    "cycles": 10,
    "cyclon": {"view_size": 6, "gossip_size": 3},
    "start": {"contacts": 6},
}
FAULTS: list[Table] = [
    {"at_cycle": 1, "kind": "crash", "count": 10},
    {"at_cycle": 2, "kind": "leave", "share": 0.2},
    {"at_cycle": 3, "kind": "join", "count": 7},
    {"at_cycle": 4, "kind": "restart", "count": 4, "keep_state": False},
    {"at_cycle": 5, "kind": "restart", "share": 0.5},
    {"at_cycle": 6, "kind": "crash", "share": 1.0},
    {"at_cycle": 7, "kind": "restart", "count": 100},
    {"at_cycle": 8, "kind": "join", "count": 0},
    {"at_cycle": 9, "kind": "leave", "count": 3},
]
CAME = [40, 0, 0, 7, 4, 6, 0, 47, 0, 0]
WENT = [0, 10, 6, 0, 0, 0, 41, 0, 0, 3]
ONLINE = [40, 30, 24, 31, 35, 41, 0, 47, 47, 44]

ON_OFF: Table = {"kind": "onoff", "mean_on_s": 300.0, "mean_off_s": 200.0}
MEASURE: Table = {"clustering_sample": 20, "path_sources": 10}
SEQUENTIAL: Table = {"sweep": {"setting": "sequential"}}
SYNCHRONOUS: Table = {"sweep": {"setting": "synchronous"}}
AT_ONCE: Table = {
    "engine": "event",
    "event": {"timers": "synchronised"},
    "network": {"latency_ms": 0},
}
IN_STEP: Table = {
    "engine": "event",
    "event": {"timers": "synchronised"},
    "network": {"latency_ms": 50},
}
LIVELY: Table = {
    "engine": "event",
    "event": {"timers": "spread", "clock_offset_ms": 500.0, "clock_drift_ppm": 50_000.0},
    "network": {
        "latency": "sampled",
        "latency_ms": 5,
        "latency_ms_max": 40_000,
        "loss": 0.1,
        "duplication": 0.1,
        "reordering": 0.2,
        "partitions": [{"from_s": 120, "to_s": 240}],
    },
}
ENGINES = {
    "sequential": SEQUENTIAL,
    "synchronous": SYNCHRONOUS,
    "at once": AT_ONCE,
    "in step": IN_STEP,
    "lively": LIVELY,
}
TWINS = [
    pytest.param(SEQUENTIAL, AT_ONCE, id="sequential"),
    pytest.param(SYNCHRONOUS, IN_STEP, id="synchronous"),
]

RUNS: dict[str, Table] = {
    "event": {**SMALL, **LIVELY, "churn": ON_OFF, "measure": MEASURE},
    "sequential": {**SMALL, **SEQUENTIAL, "faults": FAULTS, "measure": MEASURE},
    "synchronous": {**SMALL, **SYNCHRONOUS, "churn": ON_OFF, "measure": MEASURE},
}
SWEEP_FILES = ["cycles.parquet", "scenario.toml", "summary.json"]
EVENT_FILES = sorted([*SWEEP_FILES, "records.parquet"])


def run_in(folder: Path, tables: Mapping[str, Any], **options: Any) -> RunOutcome:
    return run_to_folder(resolve(tables, folder.parent), folder, **options)


def rows_of(*tables: Mapping[str, Any], folder: Path | None = None) -> list[Table]:
    merged: Table = {}
    for table in tables:
        merged |= table
    return simulate(resolve(merged, folder or Path())).rows


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def column(rows: list[Table], name: str) -> list[Any]:
    return [row[name] for row in rows]


def strict_json(text: str) -> Any:
    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """The bytes of each of RUNS."""
    folder = tmp_path_factory.mktemp("reference")
    for name, tables in RUNS.items():
        run_in(folder / name, tables)
    return {name: contents(folder / name) for name in RUNS}


# The folder.


@pytest.mark.parametrize(
    ("name", "files"),
    [("event", EVENT_FILES), ("sequential", SWEEP_FILES), ("synchronous", SWEEP_FILES)],
)
def test_the_files_of_a_run(
    reference: dict[str, dict[str, bytes]], name: str, files: list[str], tmp_path: Path
) -> None:
    assert list(reference[name]) == files
    outcome = run_in(tmp_path / "deep" / "er" / "run", RUNS[name])
    written = contents(tmp_path / "deep" / "er" / "run")
    assert written == reference[name]
    summary = strict_json(written["summary.json"].decode())
    assert summary == json.loads(json.dumps(outcome.summary))
    table = pq.read_table(tmp_path / "deep" / "er" / "run" / "cycles.parquet")
    assert {field.name: "int64" if field.type == "int64" else "float64" for field in table.schema} == {
        name: "int64" if kind == "int64" else "float64" for name, kind in CYCLE_COLUMNS.items()
    }
    assert table.to_pylist() == outcome.rows
    assert summary["final"] == outcome.rows[-1]
    assert summary["came"] == sum(column(outcome.rows, "came"))
    assert summary["went"] == sum(column(outcome.rows, "went"))
    assert tomllib.loads(written["scenario.toml"].decode()) == resolve(RUNS[name], Path()).table()
    assert column(outcome.rows, "cycle") == list(range(10))
    assert column(outcome.rows, "time_s") == [60.0 * (cycle + 1) for cycle in range(10)]


def test_no_records_when_none_are_wanted(tmp_path: Path) -> None:
    run_in(tmp_path / "run", {**SMALL, "engine": "event", "event": {"records": False}})
    assert list(contents(tmp_path / "run")) == SWEEP_FILES


def test_the_resolved_scenario_runs_again_to_the_same_bytes(
    reference: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    for name, files in reference.items():
        (tmp_path / f"{name}.toml").write_bytes(files["scenario.toml"])
        run_to_folder(read_scenario(tmp_path / f"{name}.toml"), tmp_path / name)
        assert contents(tmp_path / name) == files


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("threads", [1, 2, 3, 40])
def test_the_same_bytes_on_any_number_of_threads(
    reference: dict[str, dict[str, bytes]], tmp_path: Path, name: str, threads: int
) -> None:
    run_in(tmp_path / "run", RUNS[name], threads=threads)
    assert contents(tmp_path / "run") == reference[name]


CHILD = """
import json, sys
from pathlib import Path
from vinecast.core.rule import COMPILED
from vinecast.sim.scenario.run import run_to_folder
from vinecast.sim.scenario.scenario import resolve
for name, tables in json.loads(sys.argv[1]).items():
    run_to_folder(resolve(tables, Path()), Path(sys.argv[2]) / name, threads=2)
print(COMPILED)
"""


@pytest.mark.parametrize(
    "environment",
    [{"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "77", "VINECAST_COMPILE": "0"}],
    ids=["hashes", "plain Python"],
)
def test_the_same_bytes_in_another_process(
    reference: dict[str, dict[str, bytes]], tmp_path: Path, environment: dict[str, str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CHILD, json.dumps(RUNS), str(tmp_path)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    if "VINECAST_COMPILE" in environment:
        assert done.stdout == "False\n"
    assert {name: contents(tmp_path / name) for name in RUNS} == reference


@pytest.mark.parametrize("name", RUNS)
def test_another_seed_is_another_run(
    reference: dict[str, dict[str, bytes]], tmp_path: Path, name: str
) -> None:
    run_in(tmp_path / "run", {**RUNS[name], "seed": 2})
    assert contents(tmp_path / "run")["cycles.parquet"] != reference[name]["cycles.parquet"]


@pytest.mark.parametrize("what", ["a run", "a folder", "a file"])
@pytest.mark.parametrize("replace", [False, True])
def test_what_is_there_already(tmp_path: Path, what: str, replace: bool) -> None:
    target = tmp_path / "run"
    if what == "a run":
        run_in(target, {**SMALL, "seed": 2})
    elif what == "a folder":
        target.mkdir()
        (target / "thesis.tex").write_text("years of work", encoding="utf-8")
    else:
        target.write_text("years of work", encoding="utf-8")
    before = contents(target) if target.is_dir() else target.read_bytes()
    if what == "a run" and replace:
        run_in(target, SMALL, replace=True)
        assert contents(target) != before
        assert strict_json((target / "summary.json").read_text(encoding="utf-8"))["seed"] == 1
    else:
        with pytest.raises(InputError, match="run") as caught:
            run_in(target, SMALL, replace=replace)
        assert str(target) in str(caught.value)
        assert (contents(target) if target.is_dir() else target.read_bytes()) == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_link_to_a_folder_is_there_already(tmp_path: Path) -> None:
    run_in(tmp_path / "run", SMALL)
    (tmp_path / "link").symlink_to("run")
    with pytest.raises(InputError, match="not a place for a run"):
        run_in(tmp_path / "link", SMALL)


def test_what_a_killed_run_left_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / ".run.abc.partial").mkdir()
    run_in(tmp_path / "run", SMALL)
    assert list(contents(tmp_path / "run")) == SWEEP_FILES


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written") as caught:
        run_in(tmp_path / "file" / "run", SMALL)
    assert str(tmp_path / "file" / "run") in str(caught.value)


def stop_at(cycle: int, error: BaseException) -> Callable[[int, OverlayStats | None], None]:
    def watch(done: int, stats: OverlayStats | None) -> None:
        if done == cycle:
            raise error

    return watch


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("error", [ZeroDivisionError(), KeyboardInterrupt(), InputError("no")], ids=repr)
def test_a_run_that_stops_half_way_leaves_nothing(tmp_path: Path, name: str, error: BaseException) -> None:
    threads_before = threading.active_count()
    with pytest.raises(type(error)):
        run_in(tmp_path / "run", RUNS[name], threads=2, progress=stop_at(4, error))
    assert list(tmp_path.iterdir()) == []
    run_in(tmp_path / "run", SMALL)
    before = contents(tmp_path / "run")
    with pytest.raises(type(error)):
        run_in(tmp_path / "run", RUNS[name], threads=2, replace=True, progress=stop_at(9, error))
    assert contents(tmp_path / "run") == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert threading.active_count() == threads_before


@pytest.mark.parametrize("step", ["write_rows", "dumps"])
def test_a_run_that_fails_while_writing_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    run_in(tmp_path / "run", SMALL)
    before = contents(tmp_path / "run")
    if step == "write_rows":
        monkeypatch.setattr(records, "write_rows", fail)
    else:
        monkeypatch.setattr("tomli_w.dumps", fail)
    with pytest.raises(ZeroDivisionError):
        run_in(tmp_path / "run", RUNS["event"], replace=True)
    assert contents(tmp_path / "run") == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_progress_is_told_every_cycle_and_what_was_measured() -> None:
    told: list[tuple[int, int | None]] = []
    outcome = simulate(
        resolve({**SMALL, "measure": {"every": 4}}, Path()),
        progress=lambda cycle, stats: told.append((cycle, stats.online if stats else None)),
    )
    assert told == [(cycle, 40 if cycle in (3, 7, 9) else None) for cycle in range(10)]
    assert column(outcome.rows, "cycle") == [3, 7, 9]


def test_a_folder_that_appears_during_the_run_is_left_alone(tmp_path: Path) -> None:
    def appear(cycle: int, stats: OverlayStats | None) -> None:
        (tmp_path / "run").mkdir(exist_ok=True)
        (tmp_path / "run" / "thesis.tex").touch()

    with pytest.raises(InputError, match="exists already"):
        run_in(tmp_path / "run", SMALL, progress=appear)
    assert list(contents(tmp_path / "run")) == ["thesis.tex"]


def test_the_earlier_run_survives_until_the_new_one_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_in(tmp_path / "run", {**SMALL, "seed": 2})

    def interrupted(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "rename", interrupted)
    monkeypatch.setattr(Path, "replace", interrupted)
    monkeypatch.setattr(os, "rename", interrupted)
    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_in(tmp_path / "run", SMALL, replace=True)
    assert list(contents(tmp_path / "run")) == SWEEP_FILES


def test_two_runs_into_one_folder_do_not_mix(tmp_path: Path) -> None:
    under_way, go_on = threading.Event(), threading.Event()

    def linger(cycle: int, stats: OverlayStats | None) -> None:
        under_way.set()
        go_on.wait(20)

    def run_other() -> None:
        try:
            run_in(tmp_path / "run", {**RUNS["event"], "seed": 2}, progress=linger)
        except (InputError, OSError):
            under_way.set()

    other = threading.Thread(target=run_other)

    def let_in(cycle: int, stats: OverlayStats | None) -> None:
        if cycle == 4:
            other.start()
            under_way.wait(20)

    try:
        run_in(tmp_path / "run", RUNS["event"], progress=let_in)
    finally:
        go_on.set()
        other.join()
    summary = strict_json((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    run_in(tmp_path / "clean", {**RUNS["event"], "seed": summary["seed"]})
    assert contents(tmp_path / "run") == contents(tmp_path / "clean")


def test_bad_input_leaves_no_folders(tmp_path: Path) -> None:
    tables = {**SMALL, "churn": {"kind": "trace", "trace": "missing.avt"}}
    with pytest.raises(InputError, match=r"missing\.avt"):
        run_in(tmp_path / "out" / "run", tables)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_a_summary_of_its_own_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "summary.json").write_text("{}", encoding="utf-8")
    (tmp_path / "work" / "thesis.tex").touch()
    with pytest.raises(InputError, match="not a run"):
        run_in(tmp_path / "work", SMALL, replace=True)
    assert list(contents(tmp_path / "work")) == ["summary.json", "thesis.tex"]


def may_refuse(target: Path, replace: bool) -> None:
    """Run into a folder: it works, or there is a sentence about it."""
    try:
        run_to_folder(resolve(SMALL, Path()), target, replace=replace)
    except InputError:
        return
    assert list(contents(target)) == SWEEP_FILES


def test_replacing_through_a_link(tmp_path: Path) -> None:
    run_in(tmp_path / "run", SMALL)
    (tmp_path / "link").symlink_to("run")
    may_refuse(tmp_path / "link", replace=True)
    assert list(contents(tmp_path / "run")) == SWEEP_FILES


def test_a_link_to_nowhere(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    may_refuse(tmp_path / "link", replace=False)


@pytest.mark.parametrize("name", [".", ".."])
def test_the_folder_where_one_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    run_in(tmp_path / "run", SMALL)
    (tmp_path / "run" / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "run" / ("inner" if name == ".." else ""))
    may_refuse(Path(name), replace=True)
    assert set(SWEEP_FILES) <= {path.name for path in (tmp_path / "run").iterdir()}


def test_a_folder_name_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        run_in(tmp_path / ("x" * 300), SMALL)


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


TRACE = """# id sessions start end …
always 1 0 1e9
later 1 60 180
twice 2 0 60 120 600
never 0
between 1 61 119
early 1 0 0.5
"""
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
    [
        {"event": {"clock_offset_ms": 1e308}},
        {"network": {"partitions": [{"from_s": 0, "to_s": 1e308}]}},
    ],
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


# Two engines, one meaning.


@pytest.mark.parametrize(("sweep", "event"), TWINS)
@pytest.mark.parametrize(
    "happens",
    [
        {},
        {"measure": MEASURE},
        {"faults": FAULTS},
        {"faults": FAULTS, "start": {"contacts": 3, "join_contacts": 4}},
        {"churn": ON_OFF},
        {"churn": {**ON_OFF, "keep_state": False}},
        {"churn": {"kind": "trace", "trace": "x.avt"}, "nodes": 6},
        {"nodes": 2, "cyclon": {"view_size": 1, "gossip_size": 1}},
        {"cyclon": {"view_size": 50, "gossip_size": 50, "period_s": 0.5}},
        {"nodes": 300, "cycles": 30, "measure": {"every": 7}, "churn": ON_OFF},
    ],
    ids=str,
)
def test_a_sweep_equals_the_event_engine(tmp_path: Path, sweep: Table, event: Table, happens: Table) -> None:
    (tmp_path / "x.avt").write_text(TRACE, encoding="utf-8")
    run_in(tmp_path / "sweep", {**SMALL, **sweep, **happens})
    run_in(tmp_path / "event", {**SMALL, **event, **happens})
    swept, lived = contents(tmp_path / "sweep"), contents(tmp_path / "event")
    assert swept["cycles.parquet"] == lived["cycles.parquet"]


amounts = st.one_of(
    st.fixed_dictionaries({"share": st.sampled_from([0.0, 0.3, 0.5, 1.0])}),
    st.fixed_dictionaries({"count": st.integers(0, 30)}),
)
happenings = st.one_of(
    st.none(),
    st.builds(
        lambda kind, amount, keep: {"kind": kind, **amount, "keep_state": keep},
        st.sampled_from(["crash", "leave", "restart"]),
        amounts,
        st.booleans(),
    ),
    st.integers(0, 20).map(lambda count: {"kind": "join", "count": count}),
)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**63 - 1),
    nodes=st.integers(2, 30),
    history=st.lists(happenings, max_size=10),
    sizes=st.tuples(st.integers(1, 12), st.integers(1, 12)).map(sorted),
    latency_ms=st.floats(1, 400),
)
def test_any_history_is_the_same_on_both_engines(
    seed: int, nodes: int, history: list[Table | None], sizes: list[int], latency_ms: float
) -> None:
    """At most one fault a cycle, none in the first; see below for the rest."""
    faults = [{"at_cycle": cycle, **what} for cycle, what in enumerate(history, 1) if what]
    tables: Table = {
        **SMALL,
        "seed": seed,
        "nodes": nodes,
        "cycles": len(history) + 2,
        "cyclon": {"gossip_size": sizes[0], "view_size": sizes[1], "period_s": 1.0},
        "faults": faults,
    }
    in_step = {**IN_STEP, "network": {"latency_ms": latency_ms}}
    assert rows_of(tables, SEQUENTIAL) == rows_of(tables, AT_ONCE)
    assert rows_of(tables, SYNCHRONOUS) == rows_of(tables, in_step)


TOGETHER: dict[str, tuple[list[Table], int, int]] = {
    "twins": ([{"at_cycle": 2, "kind": "crash", "count": 10}] * 2, 2, 20),
    "two crashes": (
        [{"at_cycle": 2, "kind": "crash", "count": 10}, {"at_cycle": 2, "kind": "crash", "count": 11}],
        2,
        19,
    ),
    "crash, join": (
        [{"at_cycle": 2, "kind": "crash", "count": 20}, {"at_cycle": 2, "kind": "join", "count": 10}],
        2,
        30,
    ),
    "join, crash": (
        [{"at_cycle": 2, "kind": "join", "count": 10}, {"at_cycle": 2, "kind": "crash", "share": 1.0}],
        2,
        0,
    ),
    "crash at once": ([{"at_cycle": 0, "kind": "crash", "count": 20}], 0, 20),
    "join at once": ([{"at_cycle": 0, "kind": "join", "count": 20}], 0, 60),
}


@pytest.mark.parametrize("name", TOGETHER)
@pytest.mark.parametrize("engine", ["sequential", "synchronous"])
def test_several_faults_in_one_cycle_on_a_sweep(engine: str, name: str) -> None:
    faults, cycle, online = TOGETHER[name]
    rows = rows_of(SMALL, ENGINES[engine], {"faults": faults})
    assert rows[cycle]["online"] == online
    assert sum(column(rows, "came")) - sum(column(rows, "went")) == online


EVENT_WORLD = "the event world's on-line flags change only when the cycle runs, and the next fault reads them"


@pytest.mark.parametrize(("sweep", "event"), TWINS)
@pytest.mark.parametrize("name", TOGETHER)
def test_several_faults_in_one_cycle_are_the_same_on_both_engines(
    sweep: Table, event: Table, name: str
) -> None:
    faults = {"faults": TOGETHER[name][0]}
    assert rows_of(SMALL, sweep, faults) == rows_of(SMALL, event, faults)


@pytest.mark.parametrize("name", ["twins", "two crashes", "join, crash", "crash at once"])
def test_several_faults_in_one_cycle_under_free_timers(name: str) -> None:
    faults, cycle, online = TOGETHER[name]
    rows = rows_of(SMALL, LIVELY, {"faults": faults})
    assert rows[cycle]["online"] == online


def test_a_restart_in_the_cycle_of_the_crash() -> None:
    faults = [{"at_cycle": 2, "kind": "crash", "count": 10}, {"at_cycle": 2, "kind": "restart", "count": 5}]
    for sweep, event in ((SEQUENTIAL, AT_ONCE), (SYNCHRONOUS, IN_STEP)):
        rows = rows_of(SMALL, sweep, {"faults": faults})
        assert (rows[2]["online"], rows[2]["came"], rows[2]["went"]) == (35, 5, 10)
        assert rows_of(SMALL, event, {"faults": faults}) == rows


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
