"""Regularity: exact shares, strictly greater, and the rules equal a count second by second."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vinecast.core.arrays.regularity import (
    CYCLES_S,
    SLOTS_S,
    Grid,
    OnlineTimes,
    add_session,
    check_thresholds,
    count_nodes,
    is_regular,
    observed_time,
    sum_online,
)
from vinecast.core.errors import InputError

grids = st.builds(lambda slot, slots: Grid(slot * slots, slot), st.integers(1, 7), st.integers(1, 9))
traces = st.lists(st.sets(st.integers(0, 150), max_size=12), min_size=1, max_size=6)
"""For each node some instants, of which every other one begins a session."""


def sessions_of(nodes: list[set[int]]) -> list[list[tuple[int, int]]]:
    return [list(pairwise(sorted(instants)))[::2] for instants in nodes]


def flat(nodes: list[list[tuple[int, int]]]) -> OnlineTimes:
    start = np.cumsum([0, *(len(sessions) for sessions in nodes)])
    times = np.array([time for sessions in nodes for time in sessions], dtype=np.int64).reshape(-1, 2)
    return OnlineTimes(start, times[:, 0].copy(), times[:, 1].copy())


def second_by_second(sessions: list[tuple[int, int]], grid: Grid) -> list[int]:
    online = [0] * grid.slots
    for on, off in sessions:
        for second in range(on, off):
            online[grid.slot_at(second)] += 1
    return online


@given(nodes=traces.map(sessions_of), grid=grids, horizon=st.integers(150, 200))
def test_the_rules_equal_a_count_by_seconds(
    nodes: list[list[tuple[int, int]]], grid: Grid, horizon: int
) -> None:
    thresholds = np.array([0, 50, 60, 75, 99])
    online = [second_by_second(sessions, grid) for sessions in nodes]
    observed = second_by_second([(0, horizon)], grid)
    bits = [
        [[100 * a > g * b for a, b in zip(row, observed, strict=True)] for row in online] for g in thresholds
    ]
    regular = [[sum(row[i] for row in rows) for i in range(grid.slots)] for rows in bits]
    retained = [
        [sum(row[i] and row[(i + 1) % grid.slots] for row in rows) for i in range(grid.slots)]
        for rows in bits
    ]

    assert observed_time(grid, horizon).tolist() == observed
    found = np.zeros((len(nodes), grid.slots), dtype=np.int64)
    sum_online(flat(nodes), grid.cycle, grid.slot, found)
    assert found.tolist() == online
    counts = np.zeros((2, thresholds.size, grid.slots), dtype=np.int64)
    scratch, seen = np.zeros(grid.slots, dtype=np.int64), observed_time(grid, horizon)
    count_nodes(flat(nodes), grid.cycle, grid.slot, seen, thresholds, scratch, counts[0], counts[1])
    assert counts[0].tolist() == regular
    assert counts[1].tolist() == retained


def test_greater_means_greater() -> None:
    assert not is_regular(60, 100, 60)
    assert is_regular(61, 100, 60)
    assert not is_regular(0, 0, 0), "a slot that was never observed"
    year_us = 365 * 86_400 * 10**6
    assert is_regular(year_us, year_us, 99), "far from overflow"


def test_a_long_session_fills_every_slot() -> None:
    grid = Grid(86_400, 3600)
    online = np.zeros(24, dtype=np.int64)
    add_session(1800, 1800 + 100 * 86_400, grid.cycle, grid.slot, online)
    assert online.tolist() == [360_000] * 24


def test_the_last_window_may_be_cut_short() -> None:
    assert observed_time(Grid(10, 5), 27).tolist() == [15, 12]


def test_every_slot_of_the_thesis_divides_both_cycles() -> None:
    counts = [Grid(cycle, slot).slots for cycle in CYCLES_S.values() for slot in SLOTS_S]
    assert counts == [288, 96, 48, 24, 2016, 672, 336, 168]


@pytest.mark.parametrize(("cycle", "slot"), [(10, 3), (10, 0), (10, -5), (5, 10), (0, 0)])
def test_slots_must_divide_a_cycle(cycle: int, slot: int) -> None:
    with pytest.raises(InputError, match=f"slots of {slot} do not divide a cycle of {cycle}"):
        Grid(cycle, slot)


@pytest.mark.parametrize(
    ("thresholds", "words"),
    [
        ((), "at least one"),
        ((60, 100), "not 100"),
        ((-1,), "not -1"),
        ((70, 60), "ascend: 70, 60"),
        ((5, 5), "5, 5"),
    ],
)
def test_thresholds_that_cannot_be(thresholds: tuple[int, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_thresholds(thresholds)
