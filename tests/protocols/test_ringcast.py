"""Whom an event is forwarded to: every case of S0 §4.2, and shortcuts against an obvious twin."""

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vinecast.core.arrays.profiles import Profiles, Table, row_of
from vinecast.core.arrays.topic_overlap import begin_gathering, gather, make_scratch
from vinecast.core.draws import below, purpose, stream
from vinecast.core.machine import NOBODY
from vinecast.protocols.ringcast import rules, timed

LOWER, HIGHER, SENDER = 1, 2, 9
FANOUTS = range(1, 6)
SEED, EVENT, ME = 3, 77, 40


def targets_of(
    lower: int, higher: int, sender: int, fanout: int, others: list[int]
) -> tuple[list[int], set[int]]:
    """Ring neighbours, and shortcuts; ``others`` are subscribers that are none of the ones named."""
    targets = np.full(fanout + 2, -7, dtype=np.int32)
    count = rules.choose_ring(lower, higher, sender, targets)
    wanted = rules.shortcuts_wanted(lower, higher, sender, fanout)
    candidates = np.array([*others, -7], dtype=np.int32)
    last = rules.pick_shortcuts(SEED, EVENT, ME, candidates, len(others), wanted, targets, count)
    chosen: list[int] = targets[:last].tolist()
    assert len(set(chosen)) == last
    return chosen[:count], set(chosen[count:])


OTHERS = [20, 21, 22, 23, 24]


def check(found: tuple[list[int], set[int]], ring: list[int], shortcuts: int) -> None:
    assert found[0] == ring
    assert len(found[1]) == shortcuts
    assert found[1] <= set(OTHERS)


@pytest.mark.parametrize("fanout", FANOUTS)
def test_along_the_ring_to_the_other_neighbour_and_f_less_one_others(fanout: int) -> None:
    check(targets_of(LOWER, HIGHER, LOWER, fanout, OTHERS), [HIGHER], fanout - 1)
    check(targets_of(LOWER, HIGHER, HIGHER, fanout, OTHERS), [LOWER], fanout - 1)


@pytest.mark.parametrize("sender", [SENDER, NOBODY])
@pytest.mark.parametrize("fanout", FANOUTS)
def test_from_elsewhere_or_oneself_to_both_and_f_less_two_others(fanout: int, sender: int) -> None:
    """Fan-out 1 still uses both ring neighbours, or a third node's copy would close one way round."""
    check(targets_of(LOWER, HIGHER, sender, fanout, OTHERS), [LOWER, HIGHER], max(fanout - 2, 0))


@pytest.mark.parametrize("fanout", FANOUTS)
def test_a_ring_of_one_has_nobody_to_tell(fanout: int) -> None:
    check(targets_of(NOBODY, NOBODY, NOBODY, fanout, []), [], 0)
    check(targets_of(NOBODY, NOBODY, SENDER, fanout, []), [], 0)


@pytest.mark.parametrize("fanout", FANOUTS)
def test_on_a_ring_of_two_the_other_is_told_once_and_never_answered(fanout: int) -> None:
    check(targets_of(LOWER, LOWER, NOBODY, fanout, []), [LOWER], 0)
    check(targets_of(LOWER, LOWER, SENDER, fanout, []), [LOWER], 0)
    check(targets_of(LOWER, LOWER, LOWER, fanout, []), [], 0)


@pytest.mark.parametrize("fanout", FANOUTS)
def test_one_side_unknown_leaves_the_other_and_the_shortcuts(fanout: int) -> None:
    check(targets_of(NOBODY, HIGHER, HIGHER, fanout, OTHERS), [], fanout - 1)
    check(targets_of(LOWER, NOBODY, SENDER, fanout, OTHERS), [LOWER], max(fanout - 2, 0))


def test_fewer_candidates_than_wanted_are_all_taken() -> None:
    assert targets_of(LOWER, HIGHER, LOWER, 5, [20, 21]) == ([HIGHER], {20, 21})


@pytest.mark.parametrize(
    ("ring", "target", "sender", "expected"),
    [
        ([1, 3, 2, 4], 1, SENDER, 3),
        ([1, 3, 2, 4], 2, NOBODY, 4),
        ([1, 3, 2, 4], 1, 4, 3),
        ([1, 3, 2, 4], 20, SENDER, NOBODY),  # a shortcut has none
        ([1, 3, 2, 4], 3, SENDER, NOBODY),  # neither has a stand-by
        ([1, 3, 2, 4], 1, 3, NOBODY),  # it sent the event
        ([1, 2, 2, 1], 1, SENDER, NOBODY),  # a ring of three: it gets the event anyway
        ([1, 2, 2, 1], 2, SENDER, NOBODY),
        ([1, 3, 2, 3], 2, SENDER, 3),  # a ring of four: it is behind both
        ([1, NOBODY, 1, NOBODY], 1, SENDER, NOBODY),
        ([1, NOBODY, 2, NOBODY], 2, NOBODY, NOBODY),
        ([NOBODY, NOBODY, 2, 4], 2, SENDER, 4),
        ([1, 2], 1, SENDER, NOBODY),  # one place a side
        ([1, 3, 5, 2, 4, 6], 2, SENDER, 4),  # three
    ],
)
def test_the_second_on_a_side_stands_by_for_the_nearest(
    ring: list[int], target: int, sender: int, expected: int
) -> None:
    assert rules.stand_by(np.array(ring, dtype=np.int32), target, sender) == expected


Peer = st.integers(NOBODY, 12)


@settings(max_examples=300)
@given(Peer, Peer, Peer, st.integers(1, 5), st.lists(st.integers(0, 12), unique=True))
def test_never_the_sender_never_nobody_never_twice(
    lower: int, higher: int, sender: int, fanout: int, others: list[int]
) -> None:
    ring, shortcuts = targets_of(
        lower, higher, sender, fanout, [peer for peer in others if peer not in (lower, higher, sender)]
    )
    assert sender not in ring
    assert NOBODY not in ring
    assert set(ring) == {lower, higher} - {sender, NOBODY}
    assert len(ring) + len(shortcuts) <= max(fanout, 2)


# Shortcuts.

PEERS, TOPICS = 14, 4


def table_of(topics: list[set[int]]) -> Table:
    profiles = Profiles(np.arange(len(topics), dtype=np.uint64), np.arange(TOPICS, dtype=np.uint64))
    for peer, names in enumerate(topics):
        profiles.set_topics(
            peer, np.array(sorted(names), dtype=np.int32), np.zeros(len(names), dtype=np.uint8)
        )
    return profiles.table


def picked(seed: int, event: int, candidates: list[int], wanted: int) -> list[int]:
    room, targets = np.array([*candidates, -7], dtype=np.int32), np.full(wanted, -7, dtype=np.int32)
    count = rules.pick_shortcuts(seed, event, 0, room, len(candidates), wanted, targets, 0)
    chosen: list[int] = targets[:count].tolist()
    return chosen


Topics = st.lists(st.sets(st.integers(0, TOPICS - 1)), min_size=PEERS, max_size=PEERS)
Candidates = st.lists(st.integers(0, PEERS - 1), max_size=PEERS, unique=True)


@settings(max_examples=200)
@given(Topics, Candidates, st.tuples(Peer, Peer, Peer))
def test_other_subscribers_among_the_candidates_may_be_shortcuts_in_their_order(
    topics: list[set[int]], candidates: list[int], others: tuple[int, int, int]
) -> None:
    scratch = make_scratch(PEERS, TOPICS, TOPICS, PEERS)
    peers = np.array(candidates, dtype=np.int32)
    count = gather(scratch, begin_gathering(scratch), peers, np.zeros(peers.size, dtype=np.uint16))
    found = rules.list_subscribers(2, 0, count, table_of(topics), scratch)
    assert scratch.peers[:found].tolist() == [p for p in candidates if 2 in topics[p] and p != 0]
    left = np.empty(PEERS, dtype=np.int32)
    kept = rules.leave_out(scratch.peers[:found], *others, left)
    usable = [p for p in candidates if 2 in topics[p] and p not in (0, *others)]
    assert left[:kept].tolist() == usable


@settings(max_examples=200)
@given(Candidates, st.integers(1, 5), st.integers(0, 2**62), st.integers(0, 2**62))
def test_shortcuts_are_drawn_without_repetition(
    candidates: list[int], wanted: int, seed: int, event: int
) -> None:
    key = stream(seed, purpose("ringcast.shortcut"), event, 0)
    left, expected = list(candidates), []
    for i in range(min(wanted, len(left))):
        at = i + int(below(key, i, len(left) - i))
        left[i], left[at] = left[at], left[i]
        expected.append(left[i])
    assert picked(seed, event, candidates, wanted) == expected


def test_every_pair_of_candidates_is_picked_as_often() -> None:
    count: dict[tuple[int, ...], int] = {}
    for event in range(6000):
        pair = tuple(sorted(picked(1, event, [5, 6, 7, 8], 2)))
        count[pair] = count.get(pair, 0) + 1
    assert len(count) == 6
    assert all(880 < often < 1120 for often in count.values())  # 1,000 expected, four deviations of 29


def test_the_coin_is_fair_and_depends_on_node_and_event() -> None:
    coins = np.array([[rules.takes_near(1, event, node) for event in range(60)] for node in range(60)])
    assert abs(coins.mean() - 0.5) < 4 * 0.5 / 60  # four deviations
    assert len({row.tobytes() for row in coins}) == len({row.tobytes() for row in coins.T.copy()}) == 60


@given(Topics, st.integers(0, PEERS - 1), st.integers(-1, TOPICS))
def test_who_subscribes_is_read_from_the_profile(topics: list[set[int]], peer: int, topic: int) -> None:
    assert (row_of(table_of(topics), peer, topic) >= 0) == (topic in topics[peer])


# The queue of copies.


@settings(max_examples=100)
@given(st.lists(st.none() | st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=40))
def test_the_queue_gives_the_earliest_first(steps: list[tuple[int, int] | None]) -> None:
    queue, size = timed.make_queue(20, 2), 0
    twin: list[tuple[int, int, int]] = []
    for number, step in enumerate(steps):
        if step is not None:
            at_us, tie = step[0], step[1] * 256 + number
            size = timed.push(queue, size, at_us, tie, number)
            heapq.heappush(twin, (at_us, tie, number))
        elif twin:
            assert (queue.at_us[0], queue.tie[0], queue.to[0]) == heapq.heappop(twin)
            size = timed.pop(queue, size)
        assert size == len(twin)
