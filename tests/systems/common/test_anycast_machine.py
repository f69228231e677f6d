"""One node's searches: whom it asks and believes, and what it keeps of what peers send."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from support.systems.anycast import GRAVITY, ON, SECOND, counts
from vinecast.core.arrays.profiles import Profiles
from vinecast.core.events import Count, Effect, Received, Send, Start, TimerFired
from vinecast.core.machine import NOBODY
from vinecast.protocols.directed_walk import NO_LEVEL, Walk
from vinecast.protocols.gravity import GravityAsk, GravityRefuse, GravityUpdate
from vinecast.protocols.gravity.machine import TIMER
from vinecast.sim.workload.subscriptions import subscribe
from vinecast.systems.common.anycast import (
    BEGUN_A_CYCLE,
    FOUND,
    FOUND_CYCLES,
    LONELY_CYCLES,
    NEWS_CYCLES,
    PASSED_A_CYCLE,
    PASSED_FOR_ONE,
    REFUSED_CYCLES,
    REST_CYCLES,
    SEARCHES,
    TRAILS,
    WHOLES_MAX,
    Anycast,
    AnycastConfig,
    AnycastFound,
    AnycastSeek,
)

# One machine.


def one_of(
    nodes: int = 40,
    own: tuple[int, ...] = (),
    config: AnycastConfig = ON,
    known: dict[int, int] | None = None,
    view: NDArray[np.int32] | None = None,
) -> Anycast:
    """A machine that knows some subscribers in its views, by topic."""
    found = subscribe(np.array([0] * len(own) + [1]), np.array([*own, 1]), nodes, 9)
    profiles = Profiles.simulated(1, found.start, found.topics, 9)

    def knows(item: int, avoided: set[int]) -> int:
        topic = profiles.topic_ids.tolist().index(item) if item in profiles.topic_ids else -1
        peer = (known or {}).get(topic, NOBODY)
        return NOBODY if peer == NOBODY or int(profiles.ids[peer]) in avoided else peer

    machine = Anycast(config, 1, 0, profiles, lambda: VIEW if view is None else view, knows)
    machine.handle(Start(()), 0)
    machine.handle(TimerFired(TIMER), 1)
    return machine


VIEW = np.arange(1, 21, dtype=np.int32)


def item_of(machine: Anycast, topic: int) -> int:
    return int(machine.profiles.topic_ids[topic])


def sends(effects: list[Effect]) -> list[tuple[int, AnycastSeek | AnycastFound]]:
    return [
        (effect.to, effect.message)
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, AnycastSeek | AnycastFound)
    ]


def test_whoever_subscribes_answers_the_sender_and_nobody_else() -> None:
    """A search names no asker, so that nobody can ask in another's name."""
    machine = one_of(own=(3,))
    seek = AnycastSeek(item_of(machine, 3), Walk(b"", 9, 0, 77))
    assert sends(machine.handle(Received(5, seek), 0)) == [(5, AnycastFound(77, 0))]
    own_id = machine.profiles.ids[:1].tobytes()
    avoiding = AnycastSeek(item_of(machine, 3), Walk(own_id, 9, 0, 78))
    ((to, message),) = sends(machine.handle(Received(5, avoiding), 0))
    assert to in VIEW
    assert isinstance(message, AnycastSeek)  # it was not for this node: without neighbours, to anybody


def test_who_knows_a_subscriber_sends_a_walk_straight_to_it() -> None:
    machine = one_of(known={2: 9})
    walk = Walk(b"", 9, NO_LEVEL, 77)
    ((to, message),) = sends(machine.handle(Received(5, AnycastSeek(item_of(machine, 2), walk)), 0))
    assert to == 9
    assert message == AnycastSeek(item_of(machine, 2), Walk(b"", 8, 0, 77))
    last = AnycastSeek(item_of(machine, 2), replace(walk, ttl=1))
    assert counts(machine.handle(Received(5, last), 0)) == ["anycast.expired"]


def test_an_answer_goes_back_the_way_the_walk_came() -> None:
    machine = one_of(known={2: 9})
    seek = AnycastSeek(item_of(machine, 2), Walk(b"", 9, NO_LEVEL, 77))
    machine.handle(Received(5, seek), 0)
    machine.handle(Received(6, seek), 0)  # it comes by again: the first way is the shorter one
    answer = AnycastFound(77, 9)
    assert counts(machine.handle(Received(8, answer), 0)) == ["anycast.unasked answer"]  # it never went there
    assert sends(machine.handle(Received(9, answer), 0)) == [(5, answer)]
    assert counts(machine.handle(Received(9, answer), 0)) == ["anycast.unasked answer"]  # once is enough


def test_only_who_subscribes_by_its_own_word_is_believed() -> None:
    machine = one_of(known={1: 9, 2: 9})
    for topic, expected in ((2, "anycast.false answer"), (1, "anycast.found")):
        ((to, message), *_) = sends(machine.search(item_of(machine, topic), 0))
        assert isinstance(message, AnycastSeek)
        answer = AnycastFound(message.walk.number, 1)  # who subscribes to topic 1
        assert counts(machine.handle(Received(to, answer), 0)) == [expected]
    assert machine.is_searching(item_of(machine, 2), 0)
    assert not machine.is_searching(item_of(machine, 2), ON.answer_us)  # its time is over
    assert not machine.is_searching(item_of(machine, 1), 0)
    assert machine.peers.tolist().count(1) == 1
    for _ in range(FOUND_CYCLES + 1):
        machine.begin_cycle((), 0)
    assert machine.in_use() == set(machine.gravity.links)


def test_a_search_in_vain_rests_twice_as_long_each_time() -> None:
    machine = one_of()
    item = item_of(machine, 2)
    alone = one_of(view=VIEW[:0])
    assert alone.search(item, 0) == []
    assert not alone.is_searching(item, 0)  # nobody to send a walk to
    begun = []
    for cycle in range(100):
        if sends(machine.search(item, cycle * SECOND)):
            begun.append(cycle)
            assert machine.is_searching(item, cycle * SECOND)
        machine.begin_cycle((), cycle * SECOND)
    rests = np.diff(begun)
    assert rests[0] > REST_CYCLES
    assert all(later > 1.5 * sooner for sooner, later in pairwise(rests))


def test_a_lonely_subscriber_waits_before_it_searches_and_stops_when_it_is_not() -> None:
    machine = one_of(own=tuple(range(2, 9)))
    lonely = [item_of(machine, topic) for topic in range(2, 9)]
    walks: list[int] = []
    for _ in range(LONELY_CYCLES + 2):
        found = sends(machine.begin_cycle(lonely, 0))  # in no time, so that nothing is tried again
        walks.append(len({message.item for _, message in found if isinstance(message, AnycastSeek)}))
    assert walks == [0] * LONELY_CYCLES + [BEGUN_A_CYCLE, len(lonely) - BEGUN_A_CYCLE]
    assert all(not sends(machine.begin_cycle((), 0)) for _ in range(20))


# Bounds.


def test_a_flood_of_walks_is_passed_on_no_further() -> None:
    machine = one_of(known={2: 9})
    item = item_of(machine, 2)

    def flood(sender: int) -> int:
        seeks = (AnycastSeek(item, Walk(b"", 24, NO_LEVEL, 1000 * sender + n)) for n in range(500))
        return sum(len(sends(machine.handle(Received(sender, seek), 0))) for seek in seeks)

    assert [flood(sender) for sender in range(10, 16)] == [PASSED_FOR_ONE] * 4 + [0, 0]
    assert PASSED_A_CYCLE == 4 * PASSED_FOR_ONE
    for _ in range(20):
        machine.begin_cycle((), 0)
        assert flood(10) == PASSED_FOR_ONE
        assert len(machine._trails) <= TRAILS


def test_half_of_the_places_are_for_those_whom_a_node_chose_itself() -> None:
    machine = one_of()
    home = bytes(GRAVITY.depth * GRAVITY.filter_bytes)
    for peer in range(20, 30):
        effects = machine.handle(Received(peer, GravityUpdate(1, 0, home)), 1)
        kinds = [type(effect.message) for effect in effects if isinstance(effect, Send)]
        assert kinds == [GravityUpdate if peer < 20 + GRAVITY.degree // 2 else GravityRefuse]
    for _ in range(4):
        machine.begin_cycle((), 2)
    assert set(machine.gravity.links) & set(VIEW.tolist())


def test_whoever_had_no_room_is_not_asked_again_at_once() -> None:
    machine = one_of(view=VIEW[:1])
    asked = []
    for cycle in range(3 * REFUSED_CYCLES):
        effects = machine.begin_cycle((), cycle * SECOND)
        if any(isinstance(effect, Send) and effect.to == 1 for effect in effects):
            asked.append(cycle)
            machine.handle(Received(1, GravityRefuse()), cycle * SECOND)
    assert len(asked) == 3
    assert machine.gravity.links == []


def test_what_a_node_comes_to_subscribe_to_is_told_within_a_cycle() -> None:
    machine = one_of(view=VIEW[:2])
    for _ in range(3):
        machine.begin_cycle((), 2)
    assert sorted(machine.gravity.links) == [1, 2]
    for _ in range(NEWS_CYCLES):
        assert machine.begin_cycle((), 2) == []
    machine.profiles.set_topics(0, np.array([4], dtype=np.int32), np.zeros(1, dtype=np.uint8))
    machine.renew_items()
    told = [effect.message for effect in machine.begin_cycle((), 2) if isinstance(effect, Send)]
    assert [type(message) for message in told] == [GravityUpdate] * 2
    assert all(0 < len(message.data) <= 3 * GRAVITY.hashes for message in told)  # type: ignore[attr-defined]
    assert machine.begin_cycle((), 2) == []


def test_a_home_is_told_once_a_cycle_however_often_it_is_asked_for() -> None:
    """After a few at once: what a node sends for the sake of others is bounded."""
    machine = one_of()
    machine.begin_cycle((), 2)
    (peer, *_) = machine.gravity.links

    def told() -> int:
        answers = [machine.handle(Received(peer, GravityAsk()), 2) for _ in range(100)]
        return sum(isinstance(effect, Send) for effects in answers for effect in effects)

    assert told() <= WHOLES_MAX
    for _ in range(5):
        machine.gravity.drop(machine.gravity.links[-1])  # it would like to link to others, too
        sought = [effect for effect in machine.begin_cycle((), 3) if isinstance(effect, Send)]
        assert len(sought) + told() == 1
    assert machine.handle(Received(39, GravityAsk()), 2) == [Count("gravity.told enough")]  # a stranger


def test_changes_are_told_out_of_turn_so_often_and_no_more() -> None:
    machine = one_of(view=VIEW[:2])
    told = 0
    for _ in range(4 * NEWS_CYCLES):
        machine.renew_items()
        sent = [effect for effect in machine.begin_cycle((), 2) if isinstance(effect, Send)]
        told += any(effect.message.base for effect in sent if isinstance(effect.message, GravityUpdate))
    assert 3 <= told <= 4


words = st.integers(0, 2**64 - 1) | st.sampled_from([5, 6, 7])
walks = st.builds(Walk, st.binary(max_size=100), st.integers(-5, 10**6), st.integers(-9, 99), words)
messages = st.one_of(
    st.builds(AnycastSeek, words, walks),
    st.builds(AnycastFound, words, st.integers(0, 39)),
    st.builds(GravityUpdate, words, st.integers(0, 3), st.binary(max_size=64)),
    st.just(GravityAsk()),
    st.just(GravityRefuse()),
)


@given(st.lists(st.tuples(st.integers(1, 39), messages), max_size=60))
def test_nothing_that_peers_send_breaks_or_grows_it(said: list[tuple[int, object]]) -> None:
    machine = one_of(own=(3,), known={2: 9})
    for sender, message in said:
        effects = machine.handle(Received(sender, message), 0)  # type: ignore[arg-type]
        assert len(effects) <= 3
    machine.begin_cycle([item_of(machine, 3)], 1)
    assert len(machine.gravity.links) <= GRAVITY.degree
    assert len(machine._trails) <= TRAILS
    assert len(machine._searches) <= SEARCHES
    assert machine.peers.size == FOUND


def test_searches_are_forgotten_where_there_are_too_many() -> None:
    machine = one_of()
    for item in range(3 * SEARCHES):
        machine.search(item, 0)
    assert len(machine._searches) == SEARCHES
