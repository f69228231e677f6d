"""RingsRegular: rows that change with the slots, the regular only, and partners that stay until they are
silent."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.regularity import Patterns
from vinecast.core.arrays.topic_overlap import gather, make_scratch
from vinecast.core.events import PeerLost, Received, Send, SetTimer, Start, TimerFired
from vinecast.core.gossip import Host
from vinecast.core.machine import NOBODY
from vinecast.protocols.rings import RingsConfig
from vinecast.protocols.rings_regular import TIMER, RegularAnswer, RegularRequest, rules
from vinecast.systems.poldercast_regular.rings import RegularProfiles, RingsRegular

PEERS, SLOTS = 12, 3
CONFIG = RingsConfig(gossip_size=4, exchange="paper")


def population(regular: NDArray[np.bool_]) -> RegularProfiles:
    """Everybody subscribes to one topic, and peers with even numbers to another."""
    profiles = Profiles(np.arange(PEERS, dtype=np.uint64), np.arange(2, dtype=np.uint64))
    for peer in range(PEERS):
        topics = np.array([0] if peer % 2 else [0, 1], dtype=np.int32)
        profiles.set_topics(peer, topics, np.zeros(topics.size, dtype=np.uint8))
    patterns = Patterns(PEERS, SLOTS)
    patterns.give(regular)
    return RegularProfiles(profiles, patterns)


def nearest(me: int, peers: set[int], places: int = 4) -> list[int]:
    """A row by the book: the nearest lower ids, then the nearest higher ones."""
    others = sorted(peers - {me}, key=lambda peer: (peer - me) % PEERS)
    half = places // 2
    sides = [others[::-1][:half], others[:half]]
    return [peer for side in sides for peer in (side + [NOBODY] * half)[:half]]


class Node:
    """A machine that knows these peers besides."""

    def __init__(self, me: int, shared: RegularProfiles, known: list[int]) -> None:
        self.known = np.array(known, dtype=np.int32)
        self.scratch = make_scratch(PEERS, 2, 2, 8)
        self.silent: list[int] = []
        self.rings = RingsRegular(
            CONFIG, Host(1, me, self.scratch, on_suspect=self.silent.append), shared, self._others
        )
        self.shared = shared
        self.turn_to(0)

    def _others(self, count: int) -> int:
        return gather(self.scratch, count, self.known, np.zeros(self.known.size, dtype=np.uint16))

    def turn_to(self, slot: int) -> None:
        self.rings.turn_to(slot, bool(self.shared.patterns.regular[self.rings.me, slot]))

    def begin(self) -> Send | None:
        effects = self.rings.handle(TimerFired(TIMER), 0)
        assert SetTimer(TIMER, CONFIG.period_us) in effects
        sends = [effect for effect in effects if isinstance(effect, Send)]
        assert all(isinstance(send.message, RegularRequest) for send in sends)
        return sends[0] if sends else None

    def row(self, topic: int = 0) -> list[int]:
        row: list[int] = self.rings.rows[topic].tolist()
        return row


regular = st.lists(
    st.lists(st.booleans(), min_size=SLOTS, max_size=SLOTS), min_size=PEERS, max_size=PEERS
).map(lambda rows: np.array(rows, dtype=np.bool_))


@given(regular, st.integers(0, PEERS - 1), st.lists(st.integers(0, SLOTS - 1), max_size=6))
def test_on_the_rows_stand_the_nearest_of_the_regular(
    pattern: NDArray[np.bool_], me: int, slots: list[int]
) -> None:
    """Whatever slots come, with everybody known; a node that is not regular has no rows in use."""
    node = Node(me, population(pattern), list(range(PEERS)))
    for slot in [0, *slots]:
        node.turn_to(slot)
        node.begin()
        if not pattern[me, slot]:
            assert node.rings.partner == NOBODY
            assert node.rings.peers.size == 0
            continue
        there = set(np.flatnonzero(pattern[:, slot]).tolist())
        assert node.row() == nearest(me, there)
        if me % 2 == 0:
            assert node.row(1) == nearest(me, {peer for peer in there if peer % 2 == 0})


def test_rows_wait_for_their_slot_to_come_again() -> None:
    pattern = np.ones((PEERS, SLOTS), dtype=np.bool_)
    pattern[6:, 1] = False
    node = Node(0, population(pattern), [3, 4, 7, 8])
    node.begin()
    first = node.row()
    node.known = node.known[:0]
    node.turn_to(1)
    assert node.row() == nearest(0, {3, 4}), "who was there before and is regular still"
    node.turn_to(0)
    assert node.row() == first


def test_who_is_no_longer_regular_does_not_come_back_with_its_slot() -> None:
    pattern = np.ones((PEERS, SLOTS), dtype=np.bool_)
    shared = population(pattern)
    node = Node(0, shared, [3, 4, 7])
    node.begin()
    node.known = node.known[:0]
    node.turn_to(1)
    pattern[4] = False
    shared.patterns.give(pattern)
    node.turn_to(0)
    assert node.row() == nearest(0, {3, 7})


def test_a_partner_stays_until_it_has_been_silent_for_a_cycle() -> None:
    node = Node(0, population(np.ones((PEERS, SLOTS), dtype=np.bool_)), [2, 4, 6])
    asked = node.begin()
    assert asked is not None
    row = node.row()
    assert asked.to in row
    assert row == nearest(0, {2, 4, 6})
    node.known = node.known[node.known != asked.to]
    node.begin()
    assert node.silent == [asked.to]
    assert asked.to not in node.row()


def test_a_partner_that_answers_stays_for_good() -> None:
    node = Node(0, population(np.ones((PEERS, SLOTS), dtype=np.bool_)), [2, 4])
    asked = node.begin()
    assert asked is not None
    assert isinstance(asked.message, RegularRequest)
    answer = RegularAnswer(asked.message.cycle, np.array([3], np.int32), np.zeros(1, np.uint16))
    node.rings.handle(Received(asked.to, answer), 0)
    assert node.rings.partner == NOBODY
    node.begin()
    assert node.silent == []
    assert set(node.row()) - {NOBODY} == {2, 3, 4}


def test_whoever_is_not_regular_gets_on_nobody_s_rows() -> None:
    pattern = np.ones((PEERS, SLOTS), dtype=np.bool_)
    pattern[[1, 5], 0] = False
    node = Node(0, population(pattern), [1, 2])
    request = RegularRequest(1, np.array([5, 7], np.int32), np.zeros(2, np.uint16))
    (answer,) = node.rings.handle(Received(1, request), 0)
    assert isinstance(answer, Send)
    assert isinstance(answer.message, RegularAnswer)
    node.begin()
    assert node.row() == nearest(0, {2, 7})


def test_a_lost_peer_leaves_and_a_restart_gives_up_the_partner() -> None:
    node = Node(0, population(np.ones((PEERS, SLOTS), dtype=np.bool_)), [2, 4])
    asked = node.begin()
    assert asked is not None
    node.rings.handle(PeerLost(6 - asked.to), 0)
    assert node.row() == nearest(0, {asked.to})
    assert node.rings.handle(Start(), 0) == [SetTimer(TIMER, 0)]
    assert node.row() == [NOBODY] * 4
    assert node.silent == [asked.to]


def test_new_topics_begin_with_empty_rows_in_every_slot() -> None:
    shared = population(np.ones((PEERS, SLOTS), dtype=np.bool_))
    node = Node(1, shared, [2, 4])
    node.begin()
    node.turn_to(1)
    before = shared.profiles.topics_of(1).copy()
    after = np.array([0, 1], dtype=np.int32)
    node.rings.resubscribe(before, after)
    shared.profiles.set_topics(1, after, np.zeros(2, dtype=np.uint8))
    assert node.row(0) == nearest(1, {2, 4})
    assert node.row(1) == [NOBODY] * 4
    assert node.rings.stored[0, 0].tolist() == nearest(1, {2, 4})
    assert (node.rings.stored[1] == NOBODY).all()
    node.begin()
    assert node.row(1) == nearest(1, {2, 4})
    assert node.rings.peers_in_use() >= {2, 4}


@given(
    regular, st.integers(0, PEERS - 1), st.sets(st.integers(0, PEERS - 1)), st.sets(st.integers(0, PEERS - 1))
)
def test_around_a_change_the_nearest_of_both_slots_serve(
    pattern: NDArray[np.bool_], me: int, now: set[int], then: set[int]
) -> None:
    shared = population(pattern)
    node = Node(me, shared, [])
    node.rings.rows[0] = nearest(me, now)
    node.rings.stored[0, 1] = nearest(me, then)
    kept = set(node.row()) | {peer for peer in nearest(me, then) if peer != NOBODY and pattern[peer, 1]}
    assert node.rings.carriers_in(0, (1,)).tolist() == nearest(me, kept - {NOBODY})
    assert node.rings.carriers_in(0, ()).tolist() == nearest(me, now)
    assert node.row() == nearest(me, now), "the rows themselves stay as they are"


@pytest.mark.parametrize("partner", [2, 5])
def test_putting_back_undoes_taking_out(partner: int) -> None:
    shared = population(np.ones((PEERS, SLOTS), dtype=np.bool_))
    node = Node(0, shared, [2, 4, 5, 9])
    node.begin()
    rows = node.rings.rows.copy()
    node.rings.forget(partner)
    assert (node.rings.rows != rows).any()
    rules.put_back(0, partner, node.rings.rows, node.rings.row_ages, shared.table)
    assert np.array_equal(node.rings.rows, rows)
