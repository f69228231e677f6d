"""The order ring: who owns what, lookups that end there, and showers that reach every owner once."""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles, Table
from vinecast.core.machine import NOBODY
from vinecast.protocols.order_ring import next_hop, predecessor, shower, successor

CIRCLE = 256


def ring(places: list[int]) -> Table:
    profiles = Profiles.simulated(1, np.zeros(len(places) + 1, np.int64), np.zeros(0, np.int32), 0)
    profiles.place = np.array(places, dtype=np.int32)
    profiles.circle[0] = CIRCLE
    return profiles.table


def row(peers: list[int]) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    return np.array([*peers, NOBODY], dtype=np.int32), np.zeros(len(peers) + 1, dtype=np.uint8)


def owner_of(value: int, places: list[int]) -> int:
    """The first at or after a value, said plainly."""
    return min(range(len(places)), key=lambda node: (places[node] - value) % CIRCLE)


@st.composite
def rings(draw: st.DrawFn) -> tuple[list[int], list[list[int]]]:
    """Places, and whom everybody knows: its neighbours on the ring, and others."""
    places = sorted(draw(st.sets(st.integers(0, CIRCLE - 1), min_size=2, max_size=14)))
    nodes = len(places)
    known = []
    for node in range(nodes):
        more = draw(st.lists(st.integers(0, nodes - 1), max_size=3))
        peers = dict.fromkeys([(node + 1) % nodes, (node - 1) % nodes, *more])
        known.append(draw(st.permutations([peer for peer in peers if peer != node])))
    return places, known


@settings(max_examples=200)
@given(rings(), st.integers(0, CIRCLE - 1), st.integers(0, 100))
def test_a_lookup_ends_at_the_owner(given: tuple[list[int], list[list[int]]], value: int, begin: int) -> None:
    places, known = given
    table = ring(places)
    at = begin % len(places)
    for _ in range(2 * len(places)):
        hop = next_hop(at, value, *row(known[at]), table)
        if hop == NOBODY:
            break
        at = hop
    assert hop == NOBODY
    assert at == owner_of(value, places)


@given(rings())
def test_neighbours_on_the_ring(given: tuple[list[int], list[list[int]]]) -> None:
    places, known = given
    table, nodes = ring(places), len(places)
    for node in range(nodes):
        assert successor(node, *row(known[node]), table) == (node + 1) % nodes
        assert predecessor(node, *row(known[node]), table) == (node - 1) % nodes
    assert successor(0, *row([]), table) == predecessor(0, *row([]), table) == NOBODY


@settings(max_examples=200)
@given(rings(), st.integers(0, CIRCLE - 1), st.integers(0, CIRCLE - 1), st.integers(0, 100))
def test_a_shower_reaches_the_owner_of_every_value_once(
    given: tuple[list[int], list[list[int]]], one: int, other: int, begin: int
) -> None:
    """Every value of the range is left to its owner by exactly one of the nodes that the shower reaches."""
    places, known = given
    table, low, high = ring(places), min(one, other), max(one, other)
    to, lows, highs = np.empty(20, np.int32), np.empty(20, np.int64), np.empty(20, np.int64)
    open_ones, owned, messages = [(begin % len(places), low, high)], Counter[tuple[int, int]](), 0
    while open_ones:
        at, first, last = open_ones.pop()
        parts = shower(at, first, last, *row(known[at]), table, (to, lows, highs))
        passed: Counter[int] = Counter()
        for peer, a, b in zip(
            to[:parts].tolist(), lows[:parts].tolist(), highs[:parts].tolist(), strict=True
        ):
            assert peer in known[at]
            assert first <= a <= b <= last
            passed.update(range(a, b + 1))
            open_ones.append((peer, a, b))
        assert set(passed.values()) <= {1}
        owned.update((at, value) for value in range(first, last + 1) if value not in passed)
        messages += parts
        assert messages <= 4 * len(places)
    assert owned == Counter({(owner_of(value, places), value): 1 for value in range(low, high + 1)})


def test_who_does_not_answer_is_passed_over() -> None:
    table = ring([10, 20, 30, 40])
    peers, missed = row([1, 2, 3])
    missed[:3] = 1, 2, 0
    assert next_hop(0, 25, peers, missed, table) == 1
    missed[0] = 2
    assert next_hop(0, 25, peers, missed, table) == successor(0, peers, missed, table) == 3
    missed[2] = 2
    assert next_hop(0, 25, peers, missed, table) == predecessor(0, peers, missed, table) == NOBODY
