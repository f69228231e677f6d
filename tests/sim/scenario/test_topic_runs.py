"""Runs of systems with topics: workloads, publications, what is measured, and both engines alike."""

import dataclasses
import io
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from support.disseminations import dissemination_of
from support.paths import SCENARIOS
from vinecast.core.arrays.profiles import Profiles, choose_publishers
from vinecast.core.errors import Bug, InputError
from vinecast.core.machine import NOBODY
from vinecast.core.trace import TraceKind, TraceRecord
from vinecast.sim.measure.metrics import BY, LATENCIES, dissemination_stats
from vinecast.sim.scenario import run
from vinecast.sim.scenario.fault_driver import FaultDriver
from vinecast.sim.scenario.run import CYCLE_COLUMNS, RunOutcome, populate, run_to_folder, simulate
from vinecast.sim.scenario.scenario import read_scenario, resolve
from vinecast.sim.scenario.show import load, load_classes, show
from vinecast.sim.scenario.watch import CLASS_COLUMNS, EVENT_COLUMNS, RING_COLUMNS, TOPIC_COLUMNS
from vinecast.sim.workload.sample import load_workload
from vinecast.systems.cyclon import row as cyclon_row
from vinecast.systems.poldercast.config import PolderCastConfig
from vinecast.systems.poldercast.sweep import PolderCastSweep
from vinecast.systems.registry import SYSTEMS

Table = dict[str, Any]

SMALL: Table = {
    "name": "t",
    "seed": 1,
    "nodes": 60,
    "cycles": 12,
    "system": "poldercast",
    "poldercast": {
        "cyclon": {"view_size": 8, "gossip_size": 4},
        "vicinity": {"view_size": 8, "gossip_size": 4},
        "rings": {"gossip_size": 4},
    },
    "start": {"contacts": 6, "join_contacts": 3},
}
IN_STEP: Table = {"engine": "event", "event": {"timers": "synchronised"}, "network": {"latency_ms": 50}}
LIVELY: Table = {
    "engine": "event",
    "network": {"latency": "sampled", "latency_ms": 10, "latency_ms_max": 300, "loss": 0.02},
}
ON_OFF: Table = {"kind": "onoff", "mean_on_s": 900.0, "mean_off_s": 300.0}
FAULTS: list[Table] = [
    {"at_cycle": 3, "kind": "crash", "share": 0.2},
    {"at_cycle": 5, "kind": "join", "count": 15},
    {"at_cycle": 7, "kind": "restart", "share": 0.5, "keep_state": False},
]


SWEPT_COLUMNS = [name for name in TOPIC_COLUMNS if name not in ("traffic_overhead", *LATENCIES)]


def outcome_of(*tables: Mapping[str, Any], **options: Any) -> RunOutcome:
    merged: Table = {}
    for table in tables:
        merged |= table
    return simulate(resolve(merged, Path()), **options)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def without(rows: list[Table], *names: str) -> list[Table]:
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


def shown(summary: Table, rows: list[Table]) -> str:
    console = Console(file=io.StringIO(), width=140)
    show(console, summary, rows)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture(scope="module")
def closed() -> RunOutcome:
    """Long enough for all rings to close."""
    return outcome_of(SMALL, {"cycles": 40})


# What is measured.


def test_rings_close_and_events_reach_everybody(closed: RunOutcome) -> None:
    first, last = closed.rows[0], closed.rows[-1]
    assert first["missing_links"] > 0.2
    assert first["incomplete_rings"] > 0.5
    assert (last["missing_links"], last["incomplete_rings"], last["hit_ratio"]) == (0.0, 0.0, 1.0)
    assert 1 <= last["hops_mean"] <= last["hops_max"] < 60
    assert 0 < last["duplication"] <= 2  # S0 §3: never more than the fan-out


def test_the_columns_and_files_of_a_run(tmp_path: Path) -> None:
    tables = {**SMALL, "churn": ON_OFF}
    outcome = run_to_folder(resolve(tables, Path()), tmp_path / "run")
    table = pq.read_table(tmp_path / "run" / "cycles.parquet")
    assert table.schema.names == [*CYCLE_COLUMNS, *TOPIC_COLUMNS]
    assert {str(table.schema.field(name).type) for name in TOPIC_COLUMNS} == {"double"}
    assert table.to_pylist() == outcome.rows
    written = tomllib.loads((tmp_path / "run" / "scenario.toml").read_text(encoding="utf-8"))
    assert (written["workload"], written["publish"]) == ({"kind": "synthetic"}, {"every": 1, "warm_up": 0})
    assert written["sweep"] == {"setting": "synchronous"}
    assert (outcome.summary["workload"], outcome.summary["topics"]) == ("synthetic", 60)
    assert outcome.summary["subscriptions_mean"] == pytest.approx(6.2, rel=0.1)
    run_to_folder(read_scenario(tmp_path / "run" / "scenario.toml"), tmp_path / "again")
    assert contents(tmp_path / "again") == contents(tmp_path / "run")


@pytest.mark.parametrize("threads", [2, 5])
def test_any_number_of_threads_measures_the_same(threads: int, closed: RunOutcome) -> None:
    assert outcome_of(SMALL, {"cycles": 40}, threads=threads).rows == closed.rows


CHILD = """
import json, sys
from pathlib import Path
from vinecast.sim.scenario.run import simulate
from vinecast.sim.scenario.scenario import resolve
print(json.dumps(simulate(resolve(json.loads(sys.argv[1]), Path()), threads=2).rows))
"""


@pytest.mark.parametrize("compiled", ["0", "1"])
def test_the_same_rows_in_another_process(compiled: str) -> None:
    tables = {**SMALL, "nodes": 30, "cycles": 4, "churn": ON_OFF}
    child = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(tables)],
        env={**os.environ, "VINECAST_COMPILE": compiled, "PYTHONHASHSEED": "7"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert json.loads(child.stdout) == outcome_of(tables).rows


def test_publications_every_so_many_cycles(closed: RunOutcome) -> None:
    rows = outcome_of(SMALL, {"publish": {"every": 5}}).rows
    for row, other in zip(rows, closed.rows, strict=False):
        due = row["cycle"] in (4, 9, 11)
        wanted = [name for name in SWEPT_COLUMNS if due or name not in EVENT_COLUMNS]
        assert [name for name in TOPIC_COLUMNS if row[name] is not None] == wanted
        assert [row[name] for name in wanted] == [other[name] for name in wanted]


def test_only_what_is_measured_is_published_on_a_sweep(closed: RunOutcome) -> None:
    rows = outcome_of(SMALL, {"measure": {"every": 6}}).rows
    assert [row["cycle"] for row in rows] == [5, 11]
    for row in rows:
        twin = closed.rows[row["cycle"]]
        assert all(row[name] == twin[name] for name in (*RING_COLUMNS, *EVENT_COLUMNS))


def test_control_messages_are_averaged_over_what_was_not_measured(closed: RunOutcome) -> None:
    row = outcome_of(SMALL, {"measure": {"every": 12}}).rows[0]
    before = [closed.rows[cycle] for cycle in range(12)]
    for name in ("control_messages", "control_bytes"):
        assert row[name] == pytest.approx(np.mean([other[name] for other in before]))
    assert 2 < closed.rows[-1]["control_messages"] <= 6  # three layers, a request and an answer each


def test_newcomers_are_not_held_to_what_they_could_not_get() -> None:
    tables: Table = {**SMALL, "cycles": 30, "faults": [{"at_cycle": 20, "kind": "join", "count": 30}]}
    strict, lenient = (outcome_of(tables, {"publish": {"warm_up": cycles}}) for cycles in (0, 5))
    assert strict.rows[20]["hit_ratio"] < 0.99
    assert lenient.rows[20]["hit_ratio"] > 0.99
    assert [row["hit_ratio"] for row in strict.rows[:20]] == [row["hit_ratio"] for row in lenient.rows[:20]]
    assert strict.rows[26]["hit_ratio"] == lenient.rows[26]["hit_ratio"]


def test_latencies_from_a_matrix(tmp_path: Path, closed: RunOutcome) -> None:
    (tmp_path / "rtt.txt").write_text("0 20 20\n20 0 20\n20 20 0\n", encoding="utf-8")
    tables = {**SMALL, "publish": {"matrix": "rtt.txt"}}
    run_to_folder(resolve(tables, tmp_path), tmp_path / "run")
    summary, rows = load(tmp_path / "run")
    for row, twin in zip(rows, closed.rows, strict=False):  # all sites are as far from one another
        assert (row["hops_mean"], row["duplication"]) == (twin["hops_mean"], twin["duplication"])
        assert row["latency_ms_mean"] == pytest.approx(10 * row["hops_mean"])
        assert row["latency_ms_p50"] <= row["latency_ms_p99"] <= row["latency_ms_max"] == 10 * row["hops_max"]
    assert "latency of an event, mean, ms" in shown(summary, rows)
    run_to_folder(read_scenario(tmp_path / "run" / "scenario.toml"), tmp_path / "again")
    assert (tmp_path / "again" / "cycles.parquet").read_bytes() == (
        tmp_path / "run" / "cycles.parquet"
    ).read_bytes()
    with pytest.raises(InputError, match=r"machines use network\.matrix"):
        resolve({**tables, "engine": "event"}, tmp_path)


def test_the_classes_of_a_run(tmp_path: Path) -> None:
    outcome = run_to_folder(resolve({**SMALL, "cycles": 4}, Path()), tmp_path / "run")
    table = pq.read_table(tmp_path / "run" / "classes.parquet")
    assert table.schema.names == list(CLASS_COLUMNS)
    assert table.to_pylist() == outcome.classes
    last = outcome.rows[-1]
    for by in BY:
        rows = [row for row in outcome.classes if (row["when"], row["by"]) == ("last", by)]
        due = [row["due"] for row in rows]
        assert np.average([row["hit_ratio"] for row in rows], weights=due) == pytest.approx(last["hit_ratio"])
        assert [row["to"] for row in rows] == [2 * row["from"] - 1 for row in rows]
        whole = [row for row in outcome.classes if (row["when"], row["by"]) == ("run", by)]
        assert sum(row["due"] for row in whole) == 4 * sum(due)


def test_a_sweep_that_nobody_can_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cyclon_row, "ROW", dataclasses.replace(SYSTEMS["cyclon"], has_topics=True))
    with pytest.raises(Bug, match="topics of cyclon"):
        outcome_of({"name": "t", "seed": 1, "nodes": 9, "cycles": 1})


# Who comes, and who subscribes to what.


def test_the_profiles_are_the_workload() -> None:
    scenario = resolve({**SMALL, "workload": {"kind": "high"}}, Path()).scenario
    profiles, wanted = populate(scenario, None), load_workload("high", 60, 1, None)
    assert profiles.peers == 60
    assert profiles.topic_ids.size == wanted.topic_count
    assert all(np.array_equal(profiles.topics_of(n), wanted.of(n)) for n in range(60))


def test_a_system_without_topics_has_none() -> None:
    profiles = populate(resolve({"name": "t", "seed": 1, "nodes": 9, "cycles": 1}, Path()).scenario, None)
    assert (profiles.peers, profiles.topics.size, profiles.topic_ids.size) == (9, 0, 0)


def test_those_who_join_are_users_too_and_come_from_all_over_the_circle() -> None:
    tables: Table = {**SMALL, "faults": FAULTS}
    resolved = resolve(tables, Path())
    profiles = populate(resolved.scenario, None)
    assert profiles.peers == 75
    world = run.build_world(resolved, profiles)
    fault_driver = FaultDriver(resolved, world, None)
    for cycle in range(6):
        before = world.online.copy()
        fault_driver.before(cycle)
        world.advance()
        if cycle == 0:
            assert np.flatnonzero(~world.online).max() > 40
            assert np.flatnonzero(~world.online).min() < 35
    assert np.flatnonzero(world.online & ~before).size == 15
    assert [row["online"] for row in outcome_of(tables).rows] == [60] * 3 + [48] * 2 + [63] * 2 + [69] * 5


def test_a_sample_of_a_graph(tmp_path: Path) -> None:
    lines = [f"{i} {j}" for i in range(40) for j in range(40) if i != j and (i + j) % 3 == 0]
    (tmp_path / "twitter-bofa.txt.gz").write_text("\n".join(lines), encoding="utf-8")
    tables: Table = {**SMALL, "nodes": 30, "cycles": 3, "workload": {"kind": "twitter"}}
    outcome = simulate(resolve(tables, Path()), data=tmp_path)
    assert outcome.summary["topics"] == 30
    assert outcome.summary["subscriptions_mean"] > 5
    with pytest.raises(InputError, match="--data DIR"):
        simulate(resolve(tables, Path()))
    with pytest.raises(InputError, match="has only 40 users, not 41"):
        simulate(resolve({**tables, "nodes": 41}, Path()), data=tmp_path)


def test_real_people(data_folder: Path) -> None:
    """The scenario that we ship, shortened."""
    scenario = SCENARIOS / "poldercast-fig11-churn.toml"
    outcome = simulate(read_scenario(scenario, {"cycles": 20, "nodes": 300}), data=data_folder)
    assert len(outcome.rows) == 20
    assert outcome.summary["topics"] == 300
    assert 0 <= outcome.rows[-1]["missing_links"] < 0.5


# Two engines, one meaning.


@pytest.mark.parametrize(
    "happens", [{}, {"churn": ON_OFF}, {"faults": FAULTS}, {"workload": {"kind": "low"}}]
)
def test_a_sweep_equals_the_event_engine(happens: Table) -> None:
    """The overlay in all its columns, and what became of every event."""
    trace: list[TraceRecord] = []
    swept = outcome_of(SMALL, happens)
    lived = outcome_of(SMALL, IN_STEP, happens, trace=trace.append)
    rings_only = ("missing_links", "incomplete_rings", "degree")  # machines' rings are not looked at
    assert without(swept.classes, *rings_only) == without(lived.classes, *rings_only)
    one_only = (*rings_only, *LATENCIES, "traffic_overhead")
    assert without(swept.rows, *one_only) == without(lived.rows, *one_only)
    for row in lived.rows:  # every link takes as long as any other
        assert row["latency_ms_mean"] == pytest.approx(50 * row["hops_mean"])
        assert row["latency_ms_max"] == 50 * row["hops_max"]
    assert {row["traffic_overhead"] for row in lived.rows} == {0.0}
    profiles = populate(resolve({**SMALL, **happens}, Path()).scenario, None)
    topics = profiles.topic_ids.size
    for row in swept.rows:  # what was counted as it happened is what the records say
        dissemination = dissemination_of(trace, profiles, row["cycle"] * topics)
        stats = dissemination_stats(dissemination, profiles, np.ones(profiles.peers, dtype=np.bool_))
        assert [stats.hops_mean, stats.hops_max, stats.duplication] == [
            row[name] for name in ("hops_mean", "hops_max", "duplication")
        ]


def test_machines_write_records_and_are_measured_by_them(tmp_path: Path) -> None:
    tables = {**SMALL, **LIVELY, "publish": {"every": 4}}
    outcome = run_to_folder(resolve(tables, Path()), tmp_path / "run")
    assert list(outcome.rows[0]) == [*CYCLE_COLUMNS, *TOPIC_COLUMNS]
    assert [row["cycle"] for row in outcome.rows if row["hit_ratio"] is not None] == [3, 7, 11]
    assert 0.5 < outcome.rows[-1]["hit_ratio"] <= 1
    records = pq.read_table(tmp_path / "run" / "records.parquet").to_pylist()
    published = [record for record in records if record["kind"] == TraceKind.PUBLISHED]
    assert {record["event"] // 60 for record in published} == {3, 7, 11}
    assert {record["time_us"] for record in published} == {c * 60_000_000 + 50_000_000 for c in (3, 7, 11)}
    assert len(published) > 150
    assert {record["event"] % 60 == record["topic"] for record in published} == {True}
    assert {TraceKind.DELIVERED, TraceKind.RECEIVED_FIRST} <= {record["kind"] for record in records}
    assert "sent.rings.request" in outcome.summary["counters"]


@pytest.mark.parametrize("epoch", [0, 7])
@pytest.mark.parametrize("share", [1.0, 0.4, 0.0])
def test_both_engines_choose_the_same_publishers(epoch: int, share: float) -> None:
    found = load_workload("synthetic", 200, 3, None)
    profiles = Profiles.simulated(3, found.start, found.topics, found.topic_count)
    sweep = PolderCastSweep(PolderCastConfig(), 3, profiles)
    sweep.online[: int(200 * share)] = True
    chosen = choose_publishers(3, epoch, profiles, sweep.online)
    assert np.array_equal(chosen, sweep.publish(epoch).dissemination.publisher)
    for topic, node in enumerate(chosen.tolist()):
        assert node == NOBODY or topic in profiles.topics_of(node)
    assert (chosen != NOBODY).any() == (share > 0)


# For people.


def test_a_run_is_shown_with_its_topics(tmp_path: Path, closed: RunOutcome) -> None:
    text = shown(closed.summary, closed.rows)
    for words in (
        "ring links that are missing, %",
        "incomplete rings, %",
        "events missed, %",
        "hops of an event",
    ):
        assert words in text
    assert "60 topics (synthetic); a node subscribes to" in text
    assert "All rings are complete; cycle" in text
    assert "an event reaches 100 % of its on-line subscribers" in text
    run_to_folder(resolve({**SMALL, "cycles": 2, "publish": {"every": 2}}, Path()), tmp_path / "run")
    early = shown(*load(tmp_path / "run"))
    assert "of the ring links are missing" in early


def test_a_run_of_machines_is_shown_without(tmp_path: Path) -> None:
    run_to_folder(resolve({**SMALL, **IN_STEP, "cycles": 3}, Path()), tmp_path / "run")
    text = shown(*load(tmp_path / "run"))
    assert "60 topics" in text
    assert "rings" not in text
    assert "event messages to those not interested" in text


def test_classes_are_shown(tmp_path: Path) -> None:
    run_to_folder(resolve({**SMALL, "cycles": 3}, Path()), tmp_path / "run")
    console = Console(file=io.StringIO(), width=140)
    show(console, *load(tmp_path / "run"), load_classes(tmp_path / "run"))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "By class, at the end" in text
    assert "topics with 4–7 subscribers" in text
    assert "nodes with 8–15 subscriptions" in text
    (tmp_path / "run" / "classes.parquet").write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"classes\.parquet cannot be read"):
        load_classes(tmp_path / "run")


def test_rings_that_are_complete_throughout(closed: RunOutcome) -> None:
    rows = [row for row in closed.rows if not row["incomplete_rings"]]
    assert "All rings were complete at every measurement." in shown(closed.summary, rows)


def test_a_scenario_that_asks_for_more_subscriptions_than_topics_is_refused() -> None:
    workload = {"kind": "random", "topics": 10, "subscriptions": 20}
    with pytest.raises(InputError, match="nobody can have 20 subscriptions to 10 topics"):
        simulate(resolve({**SMALL, "workload": workload}, Path()))
