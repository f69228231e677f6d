"""Rings: what is sent to whom, and the machine."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.protocols.rings import PEERS, TOPICS, Entries, arrays_of, entries_of, nearest
from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.suspicion import SuspicionMemory
from vinecast.core.arrays.topic_overlap import Scratch, gather, make_scratch
from vinecast.core.errors import InputError
from vinecast.core.events import (
    Count,
    Effect,
    Event,
    PeerLost,
    Publish,
    Received,
    Send,
    SetTimer,
    Start,
    Stop,
    TimerFired,
)
from vinecast.core.gossip import Host
from vinecast.core.machine import NOBODY
from vinecast.protocols.rings import Rings, RingsAnswer, RingsConfig, RingsRequest
from vinecast.protocols.rings.rules import AGE_MAX

# What is sent.

Topics = st.lists(st.sets(st.integers(0, TOPICS - 1)), min_size=PEERS, max_size=PEERS)


def profiles_of(topics: list[set[int]]) -> Profiles:
    ids = np.arange(len(topics), dtype=np.uint64)
    profiles = Profiles(ids, np.arange(TOPICS, dtype=np.uint64))
    for peer, names in enumerate(topics):
        profiles.set_topics(
            peer, np.array(sorted(names), dtype=np.int32), np.zeros(len(names), dtype=np.uint8)
        )
    return profiles


def room(most: int = 30) -> Scratch:
    return make_scratch(PEERS, TOPICS, TOPICS, most)


def useful_for(target: int, me: int, candidates: set[int], topics: list[set[int]]) -> set[int]:
    """The twin: for each topic in common, the nearest to the target on either side; not the two of them."""
    found: set[int] = set()
    for topic in topics[me] & topics[target]:
        subscribers = {peer for peer in candidates - {me, target} if topic in topics[peer]}
        found |= set(nearest(target, subscribers, 4, PEERS))
    return found - {NOBODY}


# The machine. Peers 0 … 11; without other wishes all of them want topic 0.

TIMER = TimerFired("rings")
ALL_ONE: list[set[int]] = [{0}] * PEERS


class World:
    """One node, and what its other layers know."""

    def __init__(
        self, me: int, others: Entries, topics: list[set[int]] | None = None, **config: float
    ) -> None:
        self.others = list(others)
        self.scratch = room()
        self.profiles = profiles_of(ALL_ONE if topics is None else topics)
        beside: Callable[[int], int] = lambda count: gather(self.scratch, count, *arrays_of(self.others))  # noqa: E731
        chosen = RingsConfig(**{"exchange": "paper", **config})  # type: ignore[arg-type]
        self.memory = SuspicionMemory()
        self.node = Rings(
            chosen, Host(5, me, self.scratch, self.memory, first_after_us=7), self.profiles, beside
        )
        assert self.node.handle(Start(), 0) == [SetTimer("rings", 7)]

    def row(self, row: int = 0) -> list[int]:
        found: list[int] = self.node.peers[row].tolist()
        return found

    def ages(self, row: int = 0) -> dict[int, int]:
        return dict(entries_of(self.node.peers[row], self.node.ages[row]))

    def ask(self) -> Send:
        return sent(self.node.handle(TIMER, 0))


def sent(effects: list[Effect]) -> Send:
    found = [effect for effect in effects if isinstance(effect, Send)]
    assert len(found) == 1
    return found[0]


def message_entries(send: Send) -> Entries:
    assert isinstance(send.message, RingsRequest | RingsAnswer)
    return entries_of(send.message.peers, send.message.ages)


def request(cycle: int, entries: Entries) -> RingsRequest:
    return RingsRequest(cycle, *arrays_of(entries))


def answer(cycle: int, entries: Entries) -> RingsAnswer:
    return RingsAnswer(cycle, *arrays_of(entries))


def test_it_asks_every_period_and_nobody_while_it_knows_nobody() -> None:
    assert World(5, [], period_s=2.5).node.handle(TIMER, 0) == [SetTimer("rings", 2_500_000)]


def test_its_turn_takes_ring_neighbours_from_the_other_layers() -> None:
    world = World(5, [(3, 1), (4, 2), (6, 3), (7, 4), (9, 9), (5, 0)])
    asked = world.ask()
    assert asked.to == 7  # the oldest of those that stand on the ring; 9 does not
    assert world.row() == [4, 3, 6, NOBODY]
    assert world.ages() == {4: 3, 3: 2, 6: 4}
    assert message_entries(asked) == [(6, 4), (4, 3), (9, 9), (3, 2)]  # lower, lower, higher, wrapped


def test_two_machines_back_to_back_find_their_places() -> None:
    a, b = World(5, [(8, 4)]), World(8, [(6, 1), (4, 1), (9, 1), (1, 2)])
    asked = a.ask()
    assert asked.to == 8
    assert a.row() == [NOBODY] * 4
    answered = sent(b.node.handle(Received(5, asked.message), 1))
    assert answered.to == 5
    assert b.row() == [5, NOBODY, 5, NOBODY]  # its own turn has not come, so that it met the sender only
    assert a.node.handle(Received(8, answered.message), 2) == []
    assert a.row() == [4, 1, 6, 8]
    assert a.ages() == {4: 1, 1: 2, 6: 1, 8: 0}
    assert a.node.partner == NOBODY


def test_who_is_being_talked_to_still_carries_events_until_it_should_have_answered() -> None:
    topics = [{0, 1} if peer in (4, 5) else {0} for peer in range(PEERS)]
    world = World(5, [(3, 1), (4, 2), (6, 9)], topics, period_s=4.0)
    assert world.ask().to == 6
    assert world.row(0) == [4, 3, NOBODY, NOBODY] or 6 not in world.row(0)
    assert 6 in world.node.carriers(0, 499_999).tolist()
    assert 6 not in world.node.carriers(1, 499_999).tolist()  # it is not on that ring
    assert 6 not in world.node.carriers(0, 500_000).tolist()  # an eighth of the period is over
    assert 6 not in world.row(0)  # nothing was changed by asking


def test_a_silent_partner_leaves_all_rings_and_others_take_its_places() -> None:
    topics = [{0, 1} if peer in (4, 5, 6) else {0} for peer in range(PEERS)]
    world = World(5, [(6, 9), (7, 1), (4, 1), (8, 1)], topics)
    assert world.ask().to == 6
    assert world.row(0)[2:] == [7, NOBODY]
    assert world.row(1) == [4, NOBODY, 4, NOBODY]
    world.others = [(8, 1), (10, 1)]  # 6 is forgotten there, too
    effects = world.node.handle(TIMER, 1)
    assert Count("rings.silent") in effects
    partner = sent(effects).to
    assert partner != 6
    assert 6 not in world.node.peers
    known = (set(world.row(0)) | {partner}) - {NOBODY}
    assert known == {4, 7, 8, 10}  # 8 fills the place above, 10 is nearer below than 8 was


def test_a_hole_is_refilled_from_the_other_rows_too() -> None:
    """After a loss everybody known is considered again: a neighbour on one ring may have joined another."""
    topics = [{0, 1} for _ in range(PEERS)]
    topics[6] = {0}
    world = World(5, [(6, 1)], topics)
    world.ask()
    world.node.handle(Received(6, answer(1, [])), 0)
    assert world.row(0)[0] == 6
    assert world.row(1) == [NOBODY] * 4
    world.profiles.set_topics(6, np.array([0, 1], dtype=np.int32), np.zeros(2, dtype=np.uint8))
    world.others = [(8, 0)]
    world.node.handle(PeerLost(9), 0)
    world.ask()
    assert 6 in world.row(1)


def test_an_answer_that_nobody_waits_for_is_dropped() -> None:
    world = World(5, [(3, 1), (4, 2), (6, 3)])
    assert world.node.handle(Received(9, answer(0, [(7, 0)])), 0) == [Count("rings.late")]
    first, second = world.ask(), world.ask()
    for sender, cycle in ((first.to, 1), (second.to, 1), (11, 2)):
        assert world.node.handle(Received(sender, answer(cycle, [(7, 0)])), 1) == [Count("rings.late")]
    assert 7 not in world.row()
    assert world.node.handle(Received(second.to, answer(2, [(7, 0)])), 1) == []
    assert 7 in world.row()
    assert world.node.handle(Received(second.to, answer(2, [(8, 0)])), 1) == [Count("rings.late")]


def test_only_direct_contact_refreshes_an_age() -> None:
    world = World(5, [(3, 1), (4, 2), (6, 3)])
    world.ask()
    before = world.ages()
    world.node.handle(Received(11, request(1, [(4, 0), (3, 0)])), 1)
    assert {peer: world.ages()[peer] for peer in (3, 4)} == {peer: before[peer] for peer in (3, 4)}
    world.node.handle(Received(4, request(1, [])), 1)
    assert world.ages()[4] == 0


def test_answering_hands_out_what_it_knew_before_the_merge() -> None:
    world = World(5, [])
    reply = sent(world.node.handle(Received(8, request(3, [(7, 1), (9, 1)])), 0))
    assert (reply.to, message_entries(reply)) == (8, [])
    assert world.row() == [9, 8, 7, 8]


@settings(max_examples=200)
@given(
    Topics,
    st.lists(
        st.tuples(st.integers(0, PEERS - 1), st.integers(0, 99)), max_size=PEERS, unique_by=lambda e: e[0]
    ),
    st.tuples(st.integers(0, PEERS - 1), st.integers(0, PEERS - 1)).filter(lambda pair: pair[0] != pair[1]),
    st.integers(1, 8),
    st.integers(0, 2**62),
)
def test_the_nearest_to_the_target_are_sent_or_some_of_them_when_there_are_too_many(
    topics: list[set[int]], candidates: Entries, pair: tuple[int, int], most: int, cycle: int
) -> None:
    me, target = pair
    world = World(me, candidates, topics, gossip_size=most)
    chosen = message_entries(sent(world.node.handle(Received(target, request(cycle, [])), 0)))
    useful = useful_for(target, me, {peer for peer, _ in candidates}, topics)
    assert len({peer for peer, _ in chosen}) == len(chosen) == min(most, len(useful))
    assert {peer for peer, _ in chosen} <= useful
    assert set(chosen) <= set(candidates)  # with the ages that they had
    assert not world.scratch.row_of.any()


def test_when_there_are_too_many_everybody_has_a_chance() -> None:
    topics = [set(range(TOPICS)) if peer in (0, 6) else {peer % TOPICS} for peer in range(PEERS)]
    chosen: set[int] = set()
    for cycle in range(60):
        world = World(0, [(peer, 0) for peer in range(PEERS)], topics, gossip_size=3)
        found = message_entries(sent(world.node.handle(Received(6, request(cycle, [])), 0)))
        assert len(found) == 3
        chosen |= {peer for peer, _ in found}
    assert chosen == set(range(PEERS)) - {0, 6}


def test_a_partner_without_common_topics_gets_nothing_and_stands_on_no_ring() -> None:
    topics: list[set[int]] = [{0}] * PEERS
    topics[8] = {1}
    world = World(5, [(6, 1), (7, 1), (8, 1)], topics)
    reply = sent(world.node.handle(Received(8, request(3, [])), 0))
    assert message_entries(reply) == []
    world.ask()
    assert 8 not in world.node.peers


def test_new_topics_begin_empty_and_old_ones_keep_their_rows() -> None:
    topics = [{0, 2}] * PEERS
    world = World(5, [(4, 1), (6, 2)], topics)
    asked = world.ask()
    world.node.handle(Received(asked.to, answer(1, [])), 0)
    before, ages = world.row(1), world.ages(1)
    names = np.array([1, 2, 3], dtype=np.int32)
    world.node.resubscribe(np.array([0, 2], dtype=np.int32), names)
    world.profiles.set_topics(5, names, world.node.coverage())
    assert [world.row(row) for row in range(3)] == [[NOBODY] * 4, before, [NOBODY] * 4]
    assert world.ages(1) == ages
    assert world.node.coverage().tolist() == [0, 2, 0]
    world.node.resubscribe(names, np.zeros(0, dtype=np.int32))
    assert world.node.peers.shape == (0, 4)


def test_a_restart_keeps_the_rows_and_gives_up_the_exchange() -> None:
    world = World(5, [(3, 1), (4, 2), (6, 3)])
    asked = world.ask()
    before = world.row()
    world.node.handle(Start(), 5)
    assert world.row() == before
    assert world.node.handle(Received(asked.to, answer(1, [(7, 0)])), 6) == [Count("rings.late")]
    assert Count("rings.silent") not in world.node.handle(TIMER, 7)


def test_a_lost_peer_leaves_every_row() -> None:
    world = World(5, [(3, 1), (4, 2), (6, 3)])
    world.ask()
    assert world.node.handle(PeerLost(4), 0) == []
    assert 4 not in world.node.peers


@pytest.mark.parametrize("event", [Stop(), Publish(1, 2), TimerFired("somebody else's")])
def test_what_does_not_concern_it_is_ignored(event: Event) -> None:
    assert World(5, [(3, 1)]).node.handle(event, 0) == []


Hostile = st.tuples(
    st.integers(0, PEERS - 1),
    st.sampled_from(["request", "answer", "timer"]),
    st.integers(-(2**63), 2**63 - 1) | st.integers(0, 4),
    st.lists(st.tuples(st.integers(-1, PEERS - 1), st.integers(0, AGE_MAX)), max_size=50),
)


@given(Topics, st.lists(Hostile, max_size=20))
def test_whatever_peers_send_the_rows_stay_sound(
    topics: list[set[int]], messages: list[tuple[int, str, int, Entries]]
) -> None:
    world = World(5, [(1, 4), (4, 3), (7, 2), (5, 1)], topics, gossip_size=3)
    for sender, what, cycle, entries in messages:
        event: Event = TIMER
        if what == "request":
            event = Received(sender, request(cycle, entries))
        elif what == "answer":
            event = Received(sender, answer(cycle, entries))
        for effect in world.node.handle(event, 0):
            if isinstance(effect, Send):
                peers = [peer for peer, _ in message_entries(effect)]
                assert len(set(peers)) == len(peers) <= 3
                assert effect.to not in peers
        assert world.node.peers.shape == (len(topics[5]), 4)
        for row, topic in enumerate(sorted(topics[5])):
            known = {peer for peer in world.row(row) if peer != NOBODY}
            assert 5 not in known
            assert all(topic in topics[peer] for peer in known)
            assert sorted(known) == sorted(set(known))
            sides = set(world.row(row)[:2]) - {NOBODY}, set(world.row(row)[2:]) - {NOBODY}
            assert world.row(row)[:2] == nearest(5, sides[0], 4, PEERS)[:2]  # in order, without holes
            assert world.row(row)[2:] == nearest(5, sides[1], 4, PEERS)[2:]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"size": 3}, "size must be even"),
        ({"size": 0}, "size must be at least 2"),
        ({"gossip_size": 0}, "gossip_size must be at least 1"),
        ({"period_s": 0.0}, "period_s must be at least"),
    ],
)
def test_a_wrong_configuration_is_refused(wrong: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        RingsConfig(**wrong)  # type: ignore[arg-type]


def test_what_others_say_of_a_silent_partner_is_believed_when_it_is_news() -> None:
    world = World(5, [(3, 9), (6, 1)])
    assert world.ask().to == 3
    world.others = [(6, 1)]
    world.memory.cycle = 10
    world.ask()  # notices that 3 stayed silent
    world.memory.cycle = 14
    world.node.handle(Received(6, request(1, [(3, 5)])), 0)
    assert 3 not in world.row()
    world.node.handle(Received(6, request(1, [(3, 2)])), 0)
    assert 3 in world.row()


def test_who_speaks_is_not_silent() -> None:
    world = World(5, [(3, 9), (6, 1)])
    assert world.ask().to == 3
    world.others = []
    world.ask()
    world.node.handle(Received(3, request(1, [])), 0)
    world.node.handle(Received(6, request(1, [(3, 50)])), 0)
    assert world.ages()[3] == 0
