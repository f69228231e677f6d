"""Scenarios and claims of content systems: what they measure, and what they refuse by name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vinecast.core.errors import InputError
from vinecast.lab.claims.claim import Setup
from vinecast.lab.claims.registry import CLAIMS
from vinecast.lab.claims.vinifera.runs import (
    COLUMNS,
    WAYS,
    ContentChurnRun,
    ContentNetwork,
    ContentRestRun,
    Rush,
    stats_of,
)
from vinecast.sim.scenario.run import columns_of, simulate
from vinecast.sim.scenario.scenario import Resolved, resolve
from vinecast.sim.scenario.watch import TOPIC_COLUMNS

SCHEMA = "price number 0..1000, order string"


def scenario(**changes: Any) -> Resolved:
    tables = {
        "name": "content",
        "seed": 1,
        "system": "vinifera",
        "engine": "event",
        "nodes": 20,
        "cycles": 10,
        "event": {"records": False},
    }
    return resolve(tables | changes, Path())


@pytest.mark.parametrize("system", ["vinifera", "ferry"])
def test_a_scenario_measures_what_becomes_of_events(system: str) -> None:
    content = {
        "kind": "given",
        "schema": SCHEMA,
        "where": ['price < 500 and order = "buy"', "price > 400 or price < 10"],
        "events": 15,
    }
    resolved = scenario(system=system, content=content, publish={"every": 5})
    outcome = simulate(resolved)
    assert list(outcome.rows[0]) == list(columns_of(resolved.scenario))
    assert outcome.rows[0]["hit_ratio"] is None
    final = outcome.rows[-1]
    assert final["hit_ratio"] == 1.0
    assert 0.0 <= final["traffic_overhead"] < 1.0
    assert final["hops_mean"] > 0
    assert final["control_messages"] > 10
    assert {name for name in TOPIC_COLUMNS if final[name] is not None} == {
        *("hit_ratio", "hops_mean", "duplication", "traffic_overhead", "control_messages")
    }
    assert outcome.summary["content"] == "given"
    assert outcome.summary["filters"] == 3
    assert outcome.classes == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"content": {"kind": "uniform"}}, "content.kind must be one of"),
        ({"content": {"attributes": 33}}, "content.attributes must be at most 32"),
        ({"content": {"filters": 0}}, "content.filters must be at least 1"),
        ({"content": {"kind": "given"}}, "content: schema and where go with"),
        ({"content": {"schema": SCHEMA, "where": ["price < 1"]}}, "content: schema and where go with"),
        (
            {"content": {"kind": "given", "schema": "price money", "where": ["price < 1"]}},
            "content: schema: ",
        ),
        ({"content": {"kind": "given", "schema": SCHEMA, "where": ["price < 1", "prize < 1"]}}, "where[1]: "),
        ({"content": {"kind": "given", "schema": SCHEMA, "where": ["price > 2000"]}}, "where[0]: "),
        ({"content": {"kind": "given", "schema": SCHEMA, "where": ["price = nan"]}}, "where[0]: "),
        ({"workload": {"kind": "random"}}, "workload goes with a system that has topics"),
        ({"system": "vitis", "content": {}}, "content goes with a system that has filters"),
        ({"engine": "sweep", "event": {}}, "is not offered by vinifera"),
        ({"vinifera": {"beta": -1}}, "vinifera.beta must be at least 0"),
        ({"vinifera": {"long_links": 14}}, "long_links"),
        ({"ferry": {}}, 'ferry goes with system = "ferry"'),
    ],
)
def test_bad_scenarios_are_refused_by_name(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as refused:
        scenario(**changes)
    assert says in str(refused.value)


def test_a_resolved_scenario_has_the_tables_of_its_system() -> None:
    table = scenario().table()
    assert "content" in table
    assert "publish" in table
    assert "workload" not in table
    again = resolve(table, Path())
    assert again.table() == table


NETWORK = ContentNetwork("vinifera", "skewed", 24, 2, 8, 1)


def test_runs_are_the_same_together_and_alone() -> None:
    jobs = [ContentRestRun(NETWORK, 12), ContentRestRun(ContentNetwork("ferry", "skewed", 24, 2, 8, 1), 12)]
    together, alone = jobs[0].run_with(jobs[1:]), [job.run_with([])[0] for job in jobs]
    for one, other in zip(together, alone, strict=True):
        assert one.keys() == other.keys()
        assert all(np.array_equal(one[name], other[name]) for name in one)
    for found in together:
        for way in WAYS:
            stats = stats_of(found, way)
            assert stats.hit_ratio == 1.0
            assert stats.wrong == 0
    assert stats_of(together[0], "friends").hops_mean < stats_of(together[0], "letter").hops_mean


def test_rates_and_churn() -> None:
    found = Rush(NETWORK, (0.5, 4.0)).run_with([])[0]["hit_ratio"]
    assert found.shape == (2,)
    assert found[0] >= found[1]
    rows = ContentChurnRun(ContentNetwork("vinifera", "random", 24, 1, 16, 1), None).run_with([])[0]
    assert tuple(rows) == COLUMNS
    assert {column.size for column in rows.values()} == {16}
    assert (rows["hits"] <= rows["due"]).all()


def test_claims_ask_for_the_runs_they_need() -> None:
    setup = Setup("paper", keep=Path("kept"))
    names = [f"VF-{i}" for i in range(1, 7)]
    needed = {name: CLAIMS[name].needs(setup) for name in names}
    assert all(needed.values())
    jobs = {job for found in needed.values() for job in found}
    assert len({str(job.decided_by()) for job in jobs}) == len(jobs)
    assert set(needed["VF-3"]) <= set(needed["VF-1"])
