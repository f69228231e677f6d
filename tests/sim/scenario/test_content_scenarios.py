"""Scenarios of content systems that need a file, or bound what nodes can handle."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from vinecast.core.errors import InputError
from vinecast.sim.scenario.run import RunOutcome, simulate
from vinecast.sim.scenario.scenario import resolve
from vinecast.sim.workload.higgs import FILE


def outcome(data: Path | None = None, **content: Any) -> RunOutcome:
    size = {"nodes": 12, "cycles": 9, "measure": {"every": 9}, "publish": {"every": 9}}
    run = {"name": "t", "seed": 1, "system": "ferry", "engine": "event", "event": {"records": False}}
    tables = run | size | {"content": content}
    return simulate(resolve(tables, Path()), data=data)


def test_what_people_did_is_read_from_the_data_folder(tmp_path: Path) -> None:
    lines = (f"{i % 15} {i % 4} {100 + i} {('RT', 'MT', 'RE')[i % 3]}" for i in range(90))
    (tmp_path / FILE).write_bytes(gzip.compress("\n".join(lines).encode()))
    found = outcome(tmp_path, kind="higgs", events=8)
    assert found.summary["content"] == "higgs"
    assert found.rows[-1]["hit_ratio"] == 1.0
    with pytest.raises(InputError, match="give the folder that holds it with --data DIR"):
        outcome(kind="higgs")


def test_nodes_that_can_handle_little_drop_the_rest() -> None:
    free = outcome(kind="skewed", events=60).rows[-1]
    bound = outcome(kind="skewed", events=60, capacity=2).rows[-1]
    assert free["hit_ratio"] == 1.0
    assert 0.0 < bound["hit_ratio"] < 0.9
