"""Victor: the best of the regular, slot by slot; the filter; consider sets; two machines back to back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.regularity import Patterns
from vinecast.core.arrays.regularity_overlap import REGULAR_TOPICS_MAX, in_common, score_regular
from vinecast.core.arrays.topic_overlap import Scratch, begin_gathering, gather_one, make_scratch
from vinecast.core.arrays.view import View
from vinecast.core.errors import InputError
from vinecast.core.events import PeerLost, Received, Send, Start, TimerFired
from vinecast.core.gossip import Host
from vinecast.core.machine import NOBODY
from vinecast.protocols.victor import Victor, VictorAnswer, VictorConfig, VictorRequest, rules
from vinecast.protocols.victor.machine import TIMER

PEERS, SLOTS, TOPICS = 10, 4, 9
CONFIG = VictorConfig(view_size=3, gossip_size=2)


def room() -> Scratch:
    return make_scratch(PEERS, TOPICS, TOPICS, 8)


def patterns_of(regular: dict[int, set[int]]) -> Patterns:
    """peer -> the slots in which it is regular"""
    patterns = Patterns(PEERS, SLOTS)
    for peer, slots in regular.items():
        patterns.replace(peer, np.isin(np.arange(SLOTS), list(slots)))
    return patterns


def by_number(target: int, candidates: NDArray[np.int32], scores: NDArray[np.uint64]) -> None:
    """The higher a peer's number, the better it is."""
    scores[:] = candidates


class Node:
    """A machine with a sample to take peers from."""

    def __init__(self, me: int, patterns: Patterns, sample: list[int]) -> None:
        self.sample = np.array(sample, dtype=np.int32)
        self.silent: list[int] = []
        self.victor = Victor(
            CONFIG, Host(1, me, room(), on_suspect=self.silent.append), patterns,
            lambda: View(self.sample, np.zeros(self.sample.size, np.uint16)), by_number,
        )  # fmt: skip
        self.victor.turn_to(0, 0)

    def begin(self) -> Send | None:
        sends = [e for e in self.victor.handle(TimerFired(TIMER), 0) if isinstance(e, Send)]
        return sends[0] if sends else None

    @property
    def view(self) -> set[int]:
        return set(self.victor.peers.tolist()) - {NOBODY}


def exchange(one: Node, other: Node) -> None:
    asked = one.begin()
    assert asked is not None
    assert asked.to == other.victor.me
    (answer,) = other.victor.handle(Received(one.victor.me, asked.message), 0)
    assert isinstance(answer, Send)
    assert one.victor.handle(Received(other.victor.me, answer.message), 0) == []


def test_only_regular_peers_come_in() -> None:
    node = Node(0, patterns_of({1: {0}, 2: {1}, 3: {0, 1}}), [1, 2, 3, 4])
    asked = node.begin()
    assert asked is not None
    assert node.view | {asked.to} == {1, 3}


def test_what_others_send_goes_through_the_filter_too() -> None:
    node = Node(0, patterns_of({0: {0}, 1: {0}, 5: {0}, 6: {1}}), [])
    peers, ages = np.array([5, 6, 7], np.int32), np.zeros(3, np.uint16)
    node.victor.handle(Received(1, VictorRequest(1, peers, ages)), 0)
    assert node.view == {1, 5}
    node.victor.handle(Received(8, VictorRequest(1, peers[:0], ages[:0])), 0)
    assert node.view == {1, 5}


def test_the_best_by_the_application_s_utility_stay() -> None:
    regular = {peer: {0} for peer in range(1, 9)}
    node = Node(0, patterns_of(regular), list(range(1, 9)))
    asked = node.begin()
    assert asked is not None
    assert node.view | {asked.to} == {6, 7, 8}


def test_two_machines_exchange_what_is_best_for_each() -> None:
    patterns = patterns_of({peer: {0} for peer in range(10)})
    one, other = Node(0, patterns, [9]), Node(9, patterns, [5, 7])
    exchange(one, other)
    assert one.view == {9, 7}
    assert other.view >= {0}
    assert one.victor.partner == NOBODY


def test_an_answer_leaves_out_what_the_request_said() -> None:
    patterns = patterns_of({peer: {0} for peer in range(10)})
    node = Node(9, patterns, [5, 7, 8])
    request = VictorRequest(1, np.array([8, 7], np.int32), np.zeros(2, np.uint16))
    (answer,) = node.victor.handle(Received(0, request), 0)
    assert isinstance(answer, Send)
    assert isinstance(answer.message, VictorAnswer)
    assert set(answer.message.peers.tolist()) == {9, 5}


def test_a_silent_partner_is_gone_from_the_slot_and_kept_in_others() -> None:
    patterns = patterns_of({3: {0, 1}})
    node = Node(0, patterns, [3])
    assert node.begin() is not None
    node.sample = node.sample[:0]
    node.victor.buckets.peers[1, 0] = 3
    assert node.begin() is None
    assert node.silent == [3]
    assert node.victor.regular_nodes(0).tolist() == []
    assert node.victor.regular_nodes(1).tolist() == [3]


def test_word_of_a_silent_partner_is_not_believed() -> None:
    node = Node(0, patterns_of({3: {0}}), [3])
    assert node.begin() is not None
    assert node.begin() is None
    assert node.view == set()


def test_an_answer_to_an_older_request_comes_too_late() -> None:
    node = Node(0, patterns_of({3: {0}, 4: {0}}), [3])
    node.begin()
    late = VictorAnswer(99, np.array([4], np.int32), np.zeros(1, np.uint16))
    node.victor.handle(Received(3, late), 0)
    assert node.view == set()


def test_a_lost_peer_leaves_and_a_restart_gives_up_the_partner() -> None:
    node = Node(0, patterns_of({3: {0}, 4: {0}}), [3, 4])
    asked = node.begin()
    assert asked is not None
    node.victor.handle(PeerLost(7 - asked.to), 0)
    assert node.view == set()
    node.victor.handle(Start(), 0)
    assert node.silent == [asked.to]


# Slots.


def test_a_bucket_waits_for_its_slot_to_come_again() -> None:
    node = Node(0, patterns_of({1: {0}, 2: {1}, 3: {0, 1}}), [1, 2, 3])
    node.begin()
    node.victor.partner = NOBODY
    node.sample = node.sample[:0]
    before = node.view
    node.victor.turn_to(1, 0)
    assert node.view == set()
    node.victor.turn_to(0, 1)
    assert node.view == before


def test_who_is_met_in_one_slot_is_considered_in_the_others() -> None:
    node = Node(0, patterns_of({5: {0, 2}, 6: {0, 1, 2}, 7: {0}}), [5, 6, 7])
    node.begin()
    node.victor.partner = NOBODY
    seen = node.view
    node.sample = node.sample[:0]
    node.victor.turn_to(2, 0)
    assert node.begin() is not None
    assert node.view | {node.victor.partner} == seen & {5, 6}


def test_when_a_cycle_is_over_all_slots_are_looked_through() -> None:
    """Also those in which the node was never on line."""
    node = Node(0, patterns_of({5: {0, 2}, 6: {0, 2, 3}}), [5, 6])
    node.begin()
    node.victor.partner = NOBODY
    seen = node.view
    node.victor.turn_to(1, 0)
    assert node.victor.regular_nodes(2).tolist() == []
    node.victor.turn_to(0, 1)
    assert set(node.victor.regular_nodes(2).tolist()) == seen
    assert set(node.victor.regular_nodes(3).tolist()) == seen & {6}


def test_who_is_no_longer_regular_is_not_told_of() -> None:
    patterns = patterns_of({5: {0}})
    node = Node(0, patterns, [5])
    node.victor.handle(Received(5, VictorRequest(1, np.empty(0, np.int32), np.empty(0, np.uint16))), 0)
    assert node.victor.regular_nodes(0).tolist() == [5]
    patterns.replace(5, np.zeros(SLOTS, dtype=np.bool_))
    assert node.victor.regular_nodes(0).tolist() == []


def test_who_is_no_longer_regular_leaves_at_the_next_turn() -> None:
    patterns = patterns_of({5: {0, 1}, 6: {0}})
    node = Node(0, patterns, [])
    for peer in (5, 6):
        node.victor.handle(Received(peer, VictorRequest(1, np.empty(0, np.int32), np.empty(0, np.uint16))), 0)
    patterns.replace(5, np.zeros(SLOTS, dtype=np.bool_))
    node.begin()
    assert node.view | {node.victor.partner} == {6}


def test_a_bucket_is_taken_up_without_those_who_are_no_longer_regular() -> None:
    patterns = patterns_of({5: {0}, 6: {0}})
    node = Node(0, patterns, [])
    for peer in (5, 6):
        node.victor.handle(Received(peer, VictorRequest(1, np.empty(0, np.int32), np.empty(0, np.uint16))), 0)
    node.victor.turn_to(1, 0)
    patterns.replace(5, np.zeros(SLOTS, dtype=np.bool_))
    node.victor.turn_to(0, 1)
    assert node.view == {6}


def test_what_was_considered_is_not_considered_again() -> None:
    node = Node(0, patterns_of({5: {0, 1}}), [])
    node.victor.handle(Received(5, VictorRequest(1, np.empty(0, np.int32), np.empty(0, np.uint16))), 0)
    node.victor.turn_to(1, 0)
    assert 5 in node.victor.buckets.aside_peers[1]
    node.begin()
    assert (node.victor.buckets.aside_peers[1] == NOBODY).all()
    node.begin()
    assert node.silent == [5]
    assert node.view == set()


@given(st.lists(st.integers(1, PEERS - 1), max_size=40), st.integers(0, SLOTS - 1))
def test_a_consider_set_is_bounded_and_has_nobody_twice(met: list[int], slot: int) -> None:
    buckets = rules.make_buckets((SLOTS,), 3)
    regular = np.ones((PEERS, SLOTS), dtype=np.bool_)
    for peer in met:
        view = View(np.array([peer, NOBODY, NOBODY], dtype=np.int32), np.zeros(3, np.uint16))
        rules.put_aside(view, slot, regular, buckets)
    for other in range(SLOTS):
        aside = [peer for peer in buckets.aside_peers[other].tolist() if peer != NOBODY]
        assert len(aside) == len(set(aside)) == (0 if other == slot else min(len(set(met)), 3))


# Formula 6.1.

filter_sets = st.dictionaries(st.integers(0, TOPICS - 1), st.integers(0, 5), min_size=1)
slots = st.sets(st.integers(0, SLOTS - 1))


@given(
    own=filter_sets,
    own_slots=slots,
    others=st.lists(st.tuples(st.sets(st.integers(0, TOPICS - 1)), slots), min_size=2, max_size=8),
)
def test_the_packed_worth_orders_as_formula_6_1_is_meant_to(
    own: dict[int, int], own_slots: set[int], others: list[tuple[set[int], set[int]]]
) -> None:
    profiles = Profiles(np.arange(PEERS, dtype=np.uint64), np.arange(TOPICS, dtype=np.uint64))
    coverage = np.array([own[t] for t in sorted(own)], dtype=np.uint8)
    profiles.set_topics(0, np.array(sorted(own), dtype=np.int32), coverage)
    for peer, (topics, _) in enumerate(others, 1):
        profiles.set_topics(peer, np.array(sorted(topics), dtype=np.int32), np.zeros(len(topics), np.uint8))
    patterns = patterns_of(
        {0: own_slots} | {peer: with_slots for peer, (_, with_slots) in enumerate(others, 1)}
    )
    scratch, scores = room(), np.zeros(PEERS, dtype=np.uint64)
    count = begin_gathering(scratch)
    for peer in range(1, len(others) + 1):
        count = gather_one(scratch, count, peer, 0)
    score_regular(0, 4, count, profiles.table, patterns.packed, scratch, scores)
    assert not scratch.mark.any()

    def intended(topics: set[int], with_slots: set[int]) -> tuple[int, ...]:
        shared = topics & set(own)
        lacks = [max(4 - own[topic], 0) for topic in shared]
        together = len(own_slots & with_slots)
        return *(lacks.count(lack) for lack in (4, 3, 2, 1)), len(shared) * (together + 1)

    wanted = [intended(*other) for other in others]
    for i in range(count):
        for j in range(count):
            assert (scores[i] < scores[j]) == (wanted[i] < wanted[j])
    # Where the base of the powers is large, that is the formula as it is printed.
    base = 10**6
    printed = [
        len(topics & set(own)) * len(own_slots & s)
        + sum(base ** max(4 - own[t], 0) for t in topics & set(own))
        for topics, s in others
    ]
    for i in range(count):
        for j in range(count):
            if printed[i] < printed[j]:
                assert scores[i] <= scores[j]


def test_a_node_with_the_most_topics_that_can_be() -> None:
    """Sixteen bits are left for the first term; a week of hours and as many topics need more, and are
    rounded."""
    profiles = Profiles(np.arange(3, dtype=np.uint64), np.arange(REGULAR_TOPICS_MAX, dtype=np.uint64))
    everything = np.arange(REGULAR_TOPICS_MAX, dtype=np.int32)
    for peer, some in enumerate((everything, everything, everything[:100])):
        profiles.set_topics(peer, some, np.full(some.size, 4, np.uint8))
    patterns = Patterns(3, 168)
    patterns.give(np.ones((3, 168), dtype=np.bool_))
    scratch, scores = make_scratch(3, REGULAR_TOPICS_MAX, REGULAR_TOPICS_MAX, 3), np.zeros(3, dtype=np.uint64)
    count = gather_one(scratch, gather_one(scratch, begin_gathering(scratch), 1, 0), 2, 0)
    score_regular(0, 4, count, profiles.table, patterns.packed, scratch, scores)
    assert scores[0] > scores[1] > 0
    assert scores[0] < 1 << 16
    assert in_common(patterns.packed, 0, 1) == 168


def test_a_message_cannot_carry_more_than_a_bucket_holds() -> None:
    with pytest.raises(InputError, match="must not exceed"):
        VictorConfig(view_size=3, gossip_size=4)
