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

from vinecast.core.errors import Bug, InputError
from vinecast.core.machine import NOBODY
from vinecast.core.profiles import Profiles, choose_publishers
from vinecast.core.trace import TraceKind, TraceRecord
from vinecast.sim import run
from vinecast.sim.metrics import spread_of, spread_stats
from vinecast.sim.run import CYCLE_COLUMNS, TOPIC_COLUMNS, Outcome, populate, run_to_folder, simulate
from vinecast.sim.sample import load_workload
from vinecast.sim.scenario import read_scenario, resolve
from vinecast.sim.show import load, show
from vinecast.systems import SYSTEMS
from vinecast.systems.poldercast import PolderCastConfig
from vinecast.systems.poldercast_sweep import PolderCastSweep

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
IN_STEP: Table = {
    "engine": "event",
    "event": {"timers": "synchronised"},
    "network": {"latency_ms": 50},
}
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
FROM_A_PUBLICATION = ["hit_ratio", "hops_mean", "hops_max", "duplication"]


def outcome_of(*tables: Mapping[str, Any], **options: Any) -> Outcome:
    merged: Table = {}
    for table in tables:
        merged |= table
    return simulate(resolve(merged, Path()), **options)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def shown(summary: Table, rows: list[Table]) -> str:
    console = Console(file=io.StringIO(), width=140)
    show(console, summary, rows)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture(scope="module")
def closed() -> Outcome:
    """Long enough for all rings to close."""
    return outcome_of(SMALL, {"cycles": 40})


# What is measured.


def test_rings_close_and_events_reach_everybody(closed: Outcome) -> None:
    first, last = closed.rows[0], closed.rows[-1]
    assert first["missing_links"] > 0.3
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
    assert (written["workload"], written["publish"]) == ({"kind": "synthetic"}, {"every": 1})
    assert written["sweep"] == {"setting": "synchronous"}
    assert (outcome.summary["workload"], outcome.summary["topics"]) == ("synthetic", 60)
    assert outcome.summary["subscriptions_mean"] == pytest.approx(6.2, rel=0.1)
    run_to_folder(read_scenario(tmp_path / "run" / "scenario.toml"), tmp_path / "again")
    assert contents(tmp_path / "again") == contents(tmp_path / "run")


@pytest.mark.parametrize("threads", [2, 5])
def test_any_number_of_threads_measures_the_same(threads: int, closed: Outcome) -> None:
    assert outcome_of(SMALL, {"cycles": 40}, threads=threads).rows == closed.rows


CHILD = """
import json, sys
from pathlib import Path
from vinecast.sim.run import simulate
from vinecast.sim.scenario import resolve
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


def test_publications_every_so_many_cycles(closed: Outcome) -> None:
    rows = outcome_of(SMALL, {"publish": {"every": 5}}).rows
    for row, other in zip(rows, closed.rows, strict=False):
        due = row["cycle"] in (4, 9, 11)
        wanted = ["missing_links", "incomplete_rings", *(FROM_A_PUBLICATION if due else [])]
        assert [name for name in TOPIC_COLUMNS if row[name] is not None] == wanted
        assert [row[name] for name in wanted] == [other[name] for name in wanted]


def test_what_topic_row_says_is_what_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {**dict.fromkeys(TOPIC_COLUMNS, 0.5), "hops_mean": float("nan"), "surplus": 3.0}
    asked: list[tuple[int, int]] = []

    def stub(engine: object, cycle: int, online: np.ndarray[Any, np.dtype[np.bool_]]) -> dict[str, float]:
        asked.append((cycle, int(online.sum())))
        return told

    monkeypatch.setattr(run, "topic_row", stub)
    rows = outcome_of(SMALL, {"measure": {"every": 6}}).rows
    assert asked == [(5, 60), (11, 60)]
    assert [row["hops_mean"] for row in rows] == [None, None]
    assert {row[name] for row in rows for name in TOPIC_COLUMNS if name != "hops_mean"} == {0.5}
    assert "surplus" not in rows[0]


def test_a_sweep_that_nobody_can_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SYSTEMS, "cyclon", dataclasses.replace(SYSTEMS["cyclon"], has_topics=True))
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
    director = run._Director(resolved, world, None)
    for cycle in range(6):
        before = world.online.copy()
        director.before(cycle)
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
    scenario = Path(__file__).parents[1] / "scenarios" / "poldercast-skype.toml"
    outcome = simulate(read_scenario(scenario, {"cycles": 20, "nodes": 300}), data=data_folder)
    assert [row["cycle"] for row in outcome.rows] == [9, 19]
    assert outcome.summary["topics"] == 300
    assert 0 <= outcome.rows[-1]["missing_links"] < 0.5


# Two engines, one meaning.


@pytest.mark.parametrize(
    "happens", [{}, {"churn": ON_OFF}, {"faults": FAULTS}, {"workload": {"kind": "low"}}]
)
def test_a_sweep_equals_the_event_engine(happens: Table) -> None:
    """The overlay in all its columns, and what became of every event."""
    trace: list[TraceRecord] = []
    swept = outcome_of(SMALL, happens).rows
    lived = outcome_of(SMALL, IN_STEP, happens, trace=trace.append).rows
    assert [{name: row[name] for name in CYCLE_COLUMNS} for row in swept] == lived
    profiles = populate(resolve({**SMALL, **happens}, Path()).scenario, None)
    topics = profiles.topic_ids.size
    by_cycle: dict[int, list[TraceRecord]] = {row["cycle"]: [] for row in swept}
    for record in trace:
        if record.event >= 0:
            by_cycle[record.event // topics].append(record)
    for row in swept:
        spread = spread_of(by_cycle[row["cycle"]], profiles, row["cycle"] * topics)
        stats = spread_stats(spread, profiles, np.ones(profiles.peers, dtype=np.bool_))
        assert [stats.hops_mean, stats.hops_max, stats.duplication] == [
            row[name] for name in ("hops_mean", "hops_max", "duplication")
        ]


def test_machines_write_records_and_no_columns_of_topics(tmp_path: Path) -> None:
    tables = {**SMALL, **LIVELY, "publish": {"every": 4}}
    outcome = run_to_folder(resolve(tables, Path()), tmp_path / "run")
    assert list(outcome.rows[0]) == list(CYCLE_COLUMNS)
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
    assert np.array_equal(chosen, sweep.publish(epoch).spread.publisher)
    for topic, node in enumerate(chosen.tolist()):
        assert node == NOBODY or topic in profiles.topics_of(node)
    assert (chosen != NOBODY).any() == (share > 0)


# For people.


def test_a_run_is_shown_with_its_topics(tmp_path: Path, closed: Outcome) -> None:
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


def test_rings_that_are_complete_throughout(closed: Outcome) -> None:
    rows = [row for row in closed.rows if not row["incomplete_rings"]]
    assert "All rings were complete at every measurement." in shown(closed.summary, rows)
