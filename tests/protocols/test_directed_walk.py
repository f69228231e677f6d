"""Directed walks: what draws a message, what does not, and how it ends."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from vinecast.core.arrays.bloom import insert, new_filter
from vinecast.core.rule import word
from vinecast.protocols.directed_walk import NO_LEVEL, Walk, WalkConfig, Walker, take_in
from vinecast.protocols.directed_walk.walker import pack_ids

HASHES = 4
GROUP, OWN = 77, 5
Homes = NDArray[np.uint64]


def homes_of(*held: dict[int, list[int]]) -> Homes:
    """Neighbours' homes, from what each of their levels holds."""
    homes = np.stack([new_filter(256, 3) for _ in held])
    for row, levels in enumerate(held):
        for level, items in levels.items():
            for item in items:
                insert(homes[row, level], word(item), HASHES)
    return homes


def walker(**settings: int) -> Walker:
    return Walker(WalkConfig(**settings), HASHES, 1, 0, OWN)


def go(homes: Homes, walk: Walk, **settings: int) -> tuple[int, Walk, bool] | None:
    rows = np.arange(homes.shape[0], dtype=np.int32)
    believed = np.full(rows.size, 7, dtype=np.uint8)
    return walker(**settings).go_on(walk, GROUP, homes, (rows + 100, rows, believed))


def walks(count: int = 30) -> list[Walk]:
    return [Walk(b"", 10, NO_LEVEL, number) for number in range(count)]


def ids(*words: int) -> bytes:
    return pack_ids(np.array(words, dtype=np.uint64))


def test_the_nearest_well_draws() -> None:
    homes = homes_of({2: [GROUP]}, {1: [GROUP]}, {0: [3]}, {1: [4]})
    for walk in walks():
        to, onward, misled = go(homes, walk) or (0, walk, True)
        assert (to, onward.level, onward.ttl, misled) == (101, 1, 9, False)


def test_of_several_wells_as_near_each_draws() -> None:
    homes = homes_of({1: [GROUP]}, {1: [GROUP]}, {0: [3]}, {1: [GROUP]})
    assert {found[0] for walk in walks() if (found := go(homes, walk))} == {100, 101, 103}


def test_a_well_is_negated_by_a_publisher_at_the_same_level_only() -> None:
    homes = homes_of({0: [GROUP, 8]}, {0: [8], 1: [GROUP]}, {2: [GROUP]})
    for walk in walks():
        found = go(homes, replace(walk, negative=ids(9, 8)))
        assert found is not None
        assert (found[0], found[1].level) == (101, 1)


def test_without_a_well_it_goes_anywhere() -> None:
    homes = homes_of({0: [1]}, {0: [2]}, {0: [GROUP, 8]})
    found = [go(homes, replace(walk, negative=ids(8))) for walk in walks()]
    assert {one[0] for one in found if one} == {100, 101, 102}
    assert {one[1].level for one in found if one} == {NO_LEVEL}


def test_who_is_misled_takes_the_nodes_id_along_and_goes_anywhere() -> None:
    """Drawn here by level 1, there should be a member next to it, and there is only one two hops away."""
    homes = homes_of({0: [1]}, {1: [GROUP]}, {0: [2]})
    found = [go(homes, replace(walk, level=1, negative=ids(8))) for walk in walks()]
    assert {one[0] for one in found if one} == {100, 101, 102}
    assert {one[1].negative for one in found if one} == {ids(8, OWN)}
    assert all(one[2] for one in found if one)
    as_it_should = go(homes_of({0: [GROUP]}), Walk(b"", 10, 1, 3))
    assert as_it_should is not None
    assert not as_it_should[2]


def test_a_walk_ends_after_so_many_hops_whatever_it_says() -> None:
    homes = homes_of({0: [1]})
    assert go(homes, Walk(b"", 1, NO_LEVEL, 0)) is None
    assert go(homes, Walk(b"", 0, NO_LEVEL, 0)) is None
    assert go(homes, Walk(b"", -5, NO_LEVEL, 0)) is None
    far = go(homes, Walk(b"", 10**9, NO_LEVEL, 0), ttl=6)
    assert far is not None
    assert far[1].ttl == 5
    assert go(homes[:0], Walk(b"", 9, NO_LEVEL, 0)) is None


def test_copies_set_out_in_different_directions() -> None:
    neighbours = np.arange(7, dtype=np.int32)
    everywhere = walker().begin(1, neighbours, ids(8))
    assert sorted(to for to, _ in everywhere) == list(range(7))
    assert {walk.negative for _, walk in everywhere} == {ids(8, OWN)}
    assert len({walk.number for _, walk in everywhere}) == 7
    some = walker(branching=3).begin(1, neighbours, b"")
    assert len({to for to, _ in some}) == len(some) == 3
    assert walker(branching=3).begin(1, neighbours[:2], b"", 9)[1][1].ttl == WalkConfig().ttl
    assert walker().begin(1, neighbours[:0], b"") == []


@given(st.lists(st.integers(0, 20), max_size=30), st.integers(1, 6))
def test_negative_ids_are_distinct_and_bounded(items: list[int], size: int) -> None:
    negative, known = np.zeros(size, dtype=np.uint64), 0
    for item in items:
        known = take_in(negative, known, word(item))
        found = negative[:known].tolist()
        assert item in found
        assert len(set(found)) == len(found) <= size
        assert size == 1 or found[0] == items[0]  # the publisher's stays


@given(st.binary(max_size=400), st.integers(), st.integers(), st.integers())
def test_whatever_a_message_says_it_goes_on_or_ends(
    negative: bytes, ttl: int, level: int, number: int
) -> None:
    homes = homes_of({0: [1]}, {2: [GROUP]})
    found = go(homes, Walk(negative, ttl, level, number))
    if found is not None:
        to, onward, _ = found
        assert to in (100, 101)
        assert len(onward.negative) <= 8 * WalkConfig().negatives
        assert 0 < onward.ttl < WalkConfig().ttl
