"""Scenarios that take a moment, and what their runs say."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vinecast.sim.scenario.run import RunOutcome, run_to_folder, simulate
from vinecast.sim.scenario.scenario import resolve

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
AT_ONCE: Table = {"engine": "event", "event": {"timers": "synchronised"}, "network": {"latency_ms": 0}}
IN_STEP: Table = {"engine": "event", "event": {"timers": "synchronised"}, "network": {"latency_ms": 50}}
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
RUNS: dict[str, Table] = {
    "event": {**SMALL, **LIVELY, "churn": ON_OFF, "measure": MEASURE},
    "sequential": {**SMALL, **SEQUENTIAL, "faults": FAULTS, "measure": MEASURE},
    "synchronous": {**SMALL, **SYNCHRONOUS, "churn": ON_OFF, "measure": MEASURE},
}


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


TRACE = """# id sessions start end …
always 1 0 1e9
later 1 60 180
twice 2 0 60 120 600
never 0
between 1 61 119
early 1 0 0.5
"""
