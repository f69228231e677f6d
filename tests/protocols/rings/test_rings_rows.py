"""The rows of Rings against an obvious twin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.protocols.rings import Entries, circle_of, empty_rows, entries_of, nearest
from vinecast.core.machine import NOBODY
from vinecast.protocols.rings import rules
from vinecast.protocols.rings.rules import AGE_MAX, Ages, Peers

# The rows.


@settings(max_examples=200)
@given(st.integers(2, 40), st.data(), st.sampled_from([2, 4]))
def test_a_row_holds_the_nearest_of_all_that_were_offered(
    population: int, data: st.DataObject, size: int
) -> None:
    me = data.draw(st.integers(0, population - 1))
    others = st.integers(0, population - 1).filter(lambda peer: peer != me)
    offers = data.draw(st.lists(st.tuples(others, st.integers(0, 99)), max_size=30))
    peers, ages = empty_rows(size=size)
    for peer, age in offers:
        rules.offer(peers, ages, 0, me, peer, age, circle_of(population))
    assert peers[0].tolist() == nearest(me, {peer for peer, _ in offers}, size, population)
    for peer, age in entries_of(peers[0], ages[0]):
        assert age in [a for p, a in offers if p == peer]


@pytest.mark.parametrize(
    ("me", "offered", "row"),
    [
        (5, [3, 4, 6, 7], [4, 3, 6, 7]),
        (5, [1, 9, 3, 8], [3, 1, 8, 9]),
        (0, [1, 2, 8, 9], [9, 8, 1, 2]),  # zero comes after the highest
        (9, [1, 0, 7, 8], [8, 7, 0, 1]),
        (5, [6], [6, NOBODY, 6, NOBODY]),  # a ring of two: the other one is on both sides
        (5, [6, 2], [2, 6, 6, 2]),  # a ring of three: everybody is
        (5, [6, 2, 8], [2, 8, 6, 8]),
        (5, [], [NOBODY] * 4),
    ],
)
def test_rows_wrap_around_and_small_rings_meet_themselves(
    me: int, offered: list[int], row: list[int]
) -> None:
    for order in (offered, offered[::-1]):
        peers, ages = empty_rows()
        for peer in order:
            rules.offer(peers, ages, 0, me, peer, 1, circle_of(10))
        assert peers[0].tolist() == row


def test_a_younger_copy_changes_nothing() -> None:
    peers, ages = empty_rows()
    for age in (7, 0):
        rules.offer(peers, ages, 0, 5, 6, age, circle_of(10))
    assert entries_of(peers[0], ages[0]) == [(6, 7), (6, 7)]


def filled(rows: list[Entries]) -> tuple[Peers, Ages]:
    """Rows for node 5 of 10 on which these were offered."""
    peers, ages = empty_rows(len(rows))
    for row, entries in enumerate(rows):
        for peer, age in entries:
            rules.offer(peers, ages, row, 5, peer, age, circle_of(10))
    return peers, ages


def test_whoever_stands_behind_a_dropped_peer_moves_up() -> None:
    peers, ages = filled([[(4, 1), (3, 2), (6, 3), (7, 4)], [(4, 1)], [(8, 9)], [(4, 1), (6, 2)]])
    rules.drop(peers, ages, 4)
    assert peers.tolist() == [[3, NOBODY, 6, 7], [NOBODY] * 4, [8, NOBODY, 8, NOBODY], [6, NOBODY] * 2]
    assert ages.tolist() == [[2, 0, 3, 4], [0] * 4, [9, 0, 9, 0], [2, 0, 2, 0]]


def test_direct_contact_zeroes_an_age_in_every_row() -> None:
    peers, ages = filled([[(4, 1), (6, 3)], [(4, 5), (8, 2)]])
    rules.hear_from(peers, ages, 4)
    assert dict(entries_of(peers[0], ages[0])) == {4: 0, 6: 3}
    assert dict(entries_of(peers[1], ages[1])) == {4: 0, 8: 2}


def test_the_oldest_over_all_topics_is_asked() -> None:
    peers, ages = filled([[(4, 1), (6, 3)], [(8, 7), (2, 7)]])
    assert rules.select_oldest(peers, ages) == 2  # the first among equals: the nearest lower
    assert rules.select_oldest(*empty_rows(3)) == NOBODY
    assert rules.select_oldest(*empty_rows(0)) == NOBODY


def test_an_empty_place_is_never_the_oldest() -> None:
    peers, ages = empty_rows()
    rules.grow_older(ages)
    rules.offer(peers, ages, 0, 5, 6, 0, circle_of(10))
    assert rules.select_oldest(peers, ages) == 6


def test_ages_grow_by_one_and_stop_at_the_top() -> None:
    peers, ages = filled([[(4, AGE_MAX), (6, AGE_MAX - 1), (3, 0)]])
    rules.grow_older(ages)
    assert set(entries_of(peers[0], ages[0])) == {(4, AGE_MAX), (6, AGE_MAX), (3, 1)}


@given(st.lists(st.integers(NOBODY, 5), min_size=4, max_size=4))
def test_a_topic_is_covered_by_different_peers(row: list[int]) -> None:
    assert rules.count_neighbours(np.array(row, dtype=np.int32)) == len(set(row) - {NOBODY})
