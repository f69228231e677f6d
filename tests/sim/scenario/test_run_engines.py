"""Two engines, one meaning: what happens on a sweep happens on the event engine."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.runs import (
    AT_ONCE,
    ENGINES,
    FAULTS,
    IN_STEP,
    LIVELY,
    MEASURE,
    ON_OFF,
    SEQUENTIAL,
    SMALL,
    SYNCHRONOUS,
    TRACE,
    Table,
    column,
    contents,
    rows_of,
    run_in,
)

TWINS = [
    pytest.param(SEQUENTIAL, AT_ONCE, id="sequential"),
    pytest.param(SYNCHRONOUS, IN_STEP, id="synchronous"),
]


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
