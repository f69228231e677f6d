"""Scenarios of Vitis, RVR and OPT: both engines alike, rates, the figures of S2, and what is refused."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.paths import SCENARIOS
from vinecast.core.arrays.profiles import Profiles
from vinecast.core.dissemination import Dissemination
from vinecast.core.errors import InputError
from vinecast.core.machine import NOBODY
from vinecast.sim.measure.metrics import LATENCIES, popularity
from vinecast.sim.scenario.run import RunOutcome, simulate
from vinecast.sim.scenario.scenario import resolve
from vinecast.sim.workload.rates import draw_events, power_law

Table = dict[str, Any]

SMALL: Table = {
    "name": "t",
    "seed": 1,
    "nodes": 60,
    "cycles": 10,
    "workload": {"kind": "low", "topics": 100, "subscriptions": 5},
    "start": {"contacts": 6, "join_contacts": 3},
}
IN_STEP: Table = {"engine": "event", "event": {"timers": "synchronised"}, "network": {"latency_ms": 50}}
ON_OFF: Table = {"kind": "onoff", "mean_on_s": 900.0, "mean_off_s": 300.0}
FAULTS: list[Table] = [
    {"at_cycle": 3, "kind": "crash", "share": 0.2},
    {"at_cycle": 5, "kind": "join", "count": 15},
    {"at_cycle": 7, "kind": "restart", "share": 0.5, "keep_state": False},
]
SYSTEMS = ("vitis", "rvr", "opt")
ONE_ENGINE = (*LATENCIES, "control_messages", "control_bytes", "degree")
"""What only one of the engines measures here."""


def outcome_of(*tables: Mapping[str, Any], **options: Any) -> RunOutcome:
    merged: Table = {}
    for table in tables:
        merged |= table
    return simulate(resolve(merged, Path()), **options)


def without(rows: list[Table], *names: str) -> list[Table]:
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


# Two engines, one meaning.


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize(
    "happens", [{"churn": ON_OFF}, {"faults": FAULTS, "measure": {"every": 3}, "publish": {"every": 2}}]
)
def test_a_sweep_equals_the_event_engine(system: str, happens: Table) -> None:
    """The overlay in all its columns, what became of every event, and who carried it."""
    swept = outcome_of(SMALL, {"system": system}, happens)
    lived = outcome_of(SMALL, {"system": system}, IN_STEP, happens)
    assert without(swept.rows, *ONE_ENGINE) == without(lived.rows, *ONE_ENGINE)
    assert without(swept.classes, *ONE_ENGINE) == without(lived.classes, *ONE_ENGINE)
    last = swept.rows[-1]
    assert last["traffic_overhead"] is not None
    assert (last["traffic_overhead"] == 0) == (system == "opt")
    assert {row["control_bytes"] for row in swept.rows} == {None}
    assert all(row["degree"] > 0 for row in swept.classes if row["by"] == "subscriptions")


@pytest.mark.parametrize("threads", [3])
def test_any_number_of_threads_measures_the_same(threads: int) -> None:
    tables = {**SMALL, "system": "vitis", "publish": {"alpha": 1.0}}
    assert outcome_of(tables, threads=threads).rows == outcome_of(tables).rows


# Rates.


@pytest.mark.parametrize("system", ["vitis", "poldercast"])
def test_a_topic_without_events_publishes_nothing(system: str) -> None:
    tables = {**SMALL, "system": system, "publish": {"alpha": 2.0}, "measure": {"every": 5}}
    found: dict[int, list[int]] = {}

    def look(cycle: int, profiles: Profiles, dissemination: Dissemination, *_: object) -> None:
        found[cycle] = np.flatnonzero(dissemination.publisher != NOBODY).tolist()
        events = draw_events(1, cycle, power_law(1, 100, 2.0))
        assert found[cycle] == np.flatnonzero((events > 0) & (popularity(profiles) > 0)).tolist()

    outcome_of(tables, on_dissemination=look)
    assert list(found) == [4, 9]
    assert 0 < len(found[9]) < 50


def test_equal_rates_are_one_event_a_topic() -> None:
    tables = {**SMALL, "system": "vitis"}
    assert outcome_of(tables, {"publish": {"rates": [1.0]}}).rows == outcome_of(tables).rows


def test_nodes_learn_from_what_is_not_measured() -> None:
    tables = {**SMALL, "system": "vitis", "publish": {"rates": [0.0, 20.0]}}
    every, last = outcome_of(tables), outcome_of(tables, {"measure": {"every": 10}})
    for name in ("hit_ratio", "hops_mean", "hops_max"):
        assert every.rows[-1][name] == last.rows[-1][name]
    even = outcome_of(SMALL, {"system": "vitis"})
    assert every.rows[-1]["hops_mean"] != even.rows[-1]["hops_mean"]


# What is refused.


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"vitis": {"tman": {"table_size": 3}}}, "vitis.tman.table_size must be at least 4, not 3"),
        ({"vitis": {"long_links": 14}}, r"long_links \+ 2 must be at most tman.table_size \(15\), not 16"),
        ({"system": "rvr", "rvr": {"tman": {"table_size": 3}}}, "rvr.tman.table_size must be at least 4"),
        ({"system": "opt", "opt": {"tman": {"table_size": 3}}}, "opt.tman.table_size must be at least 4"),
        ({"publish": {"rates": [1.0, -1.0]}}, "publish: rates must not be negative, as that of topic 1 is"),
        ({"publish": {"rates": [0.0, 0.0]}}, "publish: rates must not all be zero"),
        ({"publish": {"rates": []}}, "publish: rates must name one topic at least"),
        ({"publish": {"rates": [float("nan")]}}, r"publish.rates\[0\] must be a finite number"),
        ({"publish": {"rates": [1.0], "alpha": 1.0}}, "publish: give either alpha or rates"),
        ({"publish": {"alpha": -1.0}}, "publish.alpha must be at least 0"),
        ({**IN_STEP, "publish": {"alpha": 1.0}}, 'publish.alpha and publish.rates go with engine = "sweep"'),
        ({"sweep": {"setting": "sequential"}}, 'not offered by vitis; use "synchronous"'),
    ],
)
def test_bad_input_is_refused_by_name(tables: Table, said: str) -> None:
    with pytest.raises(InputError, match=said):
        resolve({**SMALL, "system": "vitis", **tables}, Path())


def test_latencies_are_not_offered(tmp_path: Path) -> None:
    (tmp_path / "rtt.txt").write_text("0 20\n20 0\n", encoding="utf-8")
    tables = {**SMALL, "system": "vitis", "publish": {"matrix": "rtt.txt"}}
    with pytest.raises(InputError, match=r"publish\.matrix is not offered by vitis"):
        simulate(resolve(tables, tmp_path))


def test_rates_that_leave_all_topics_without_events() -> None:
    tables = {**SMALL, "system": "vitis", "publish": {"rates": [0.0] * 100 + [1.0]}}
    with pytest.raises(InputError, match="rates must not all be zero"):
        outcome_of(tables)


def test_every_figure_has_a_scenario() -> None:
    """S2 Figs. 3.2 to 3.10; that of 3.8 is for 3.6 and 3.7, too. test_scenario.py runs them."""
    names = [path.stem.removeprefix("vitis-fig") for path in SCENARIOS.glob("vitis-fig*.toml")]
    assert {name.partition("-")[0] for name in names} == {"3.2", "3.3", "3.4", "3.5", "3.8", "3.9", "3.10"}
