"""Gap repair, whatever happens: any graph of events, any message, crashes; all waits end."""

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from support.protocols.streams_net import TOPIC, Net, chain, event, kept
from vinecast.core.events import Received, TimerFired
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.blocks import CID_HEAD
from vinecast.core.log.retention import Retention
from vinecast.protocols.streams import (
    Follow,
    StreamAck,
    StreamEvents,
    StreamHeads,
    StreamList,
    StreamListed,
    StreamPush,
    StreamStatus,
    StreamWant,
    TopicReplicas,
    Unfollow,
)
from vinecast.protocols.streams.holders import AWAITED_PERIODS
from vinecast.protocols.streams.topics import CONTACTS

NOBODY_HAS = CID_HEAD + bytes(32)


def some_graph(luck: random.Random, count: int) -> list[SignedEvent]:
    """A random graph of events, parents first."""
    events: list[SignedEvent] = []
    for number in range(1, count + 1):
        recent = events[-12:]
        parents = luck.sample(recent, min(len(recent), luck.randrange(4)))
        events.append(event(number, *parents))
    return events


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 30), count=st.integers(1, 120), loss=st.sampled_from([0.0, 0.3]))
def test_whatever_each_has_they_end_with_all(seed: int, count: int, loss: float) -> None:
    luck = random.Random(seed)
    events = some_graph(luck, count)
    net = Net(3)
    net.wire = lambda sender, to, message: False
    everything = set()
    for peer in range(3):
        have: set[bytes] = set()
        for signed in events:
            if luck.random() < 0.8 and have.issuperset(signed.record.parents):
                have.add(signed.cid)
                net.take(peer, signed, peer)
        everything |= have
    net.wire = lambda sender, to, message: luck.random() >= loss
    for _ in range(60):
        net.run(2)
        if all(kept(net, peer) == everything for peer in range(3)):
            break
    assert net[0].order() == net[1].order() == net[2].order()
    assert kept(net) == everything
    for each in net.peers:
        seen: set[bytes] = set()
        for signed in each.handed:
            assert seen.issuperset(signed.record.parents)
            assert signed.cid not in seen
            seen.add(signed.cid)


cids = st.sampled_from([NOBODY_HAS, *(signed.cid for signed in chain(4)), b"", b"short", bytes(36)])
sealeds = st.sampled_from([*chain(4), event(9, event(8), height=77), event(3, topic="b"), event(5, height=0)])
numbers = st.sampled_from([-1, 0, 1, 3, 1 << 62, 1 << 70])
topics = st.sampled_from([TOPIC, "b", ""])
messages = st.one_of(
    st.builds(
        StreamHeads,
        st.lists(
            st.builds(
                StreamStatus, topics, st.lists(cids, max_size=70).map(tuple), numbers, numbers, numbers
            ),
            max_size=3,
        ).map(tuple),
        st.sampled_from([0, 1, 2, 5]),
    ),
    st.builds(StreamList, topics, numbers, cids),
    st.builds(StreamListed, topics, st.tuples(numbers, cids), st.lists(cids, max_size=4).map(tuple), numbers),
    st.builds(StreamWant, topics, st.lists(cids, max_size=300).map(tuple)),
    st.builds(StreamEvents, topics, st.lists(sealeds).map(tuple), st.lists(cids).map(tuple)),
    st.builds(StreamPush, topics, st.lists(sealeds).map(tuple)),
    st.builds(StreamAck, st.lists(cids).map(tuple)),
)


@settings(max_examples=150, deadline=None)
@given(said=st.lists(st.tuples(st.sampled_from([1, 2]), messages), max_size=25))
def test_whatever_is_said_nothing_breaks_and_all_waits_end(said: list[tuple[int, Any]]) -> None:
    net = Net(3)
    net.wire = lambda sender, to, message: sender != 0
    for sender, message in said:
        net.tell(0, Received(sender, message))
        net.run(0.3)
    net.run(120)
    repair = net[0].repair
    assert (len(repair.intake.pending), len(repair.seeking.fetcher), repair.seeking.is_busy) == (0, 0, False)


def test_the_same_happens_again() -> None:
    def once() -> list[Any]:
        luck = random.Random(5)
        net = Net(3)
        net.give(1, some_graph(luck, 60))
        net.wire = lambda sender, to, message: luck.random() > 0.2
        net.run(20)
        return net.sent

    assert once() == once()


def test_timers_of_others_are_ignored() -> None:
    net = Net(1)
    assert net.tell(0, TimerFired("cyclon")) == []


def test_a_crash_while_joining_forgets_nothing_that_others_have() -> None:
    net = Net(3, follow=())
    events = chain(300)
    for peer in (1, 2):
        net.tell(peer, Follow(TOPIC))
        net.give(peer, events)
        net[peer].disk.retain(TOPIC, Retention(events=200), 0)
    net.tell(0, Follow(TOPIC))
    net.wire = lambda sender, to, message: not isinstance(message, StreamEvents)
    net.run(6)
    assert net[0].repair.topics[TOPIC].joining
    assert net[0].disk.state(TOPIC).floor == 0
    net.wire = lambda sender, to, message: True
    net.run(12)
    assert net[0].order() == [signed.cid for signed in events[100:]]
    assert net[0].disk.state(TOPIC).floor == 301


def test_whose_numbers_are_in_use() -> None:
    net = Net(5)
    net.tell(0, TopicReplicas(TOPIC, (1, 2)))
    net.take(0, event(2, event(1)), sender=3)
    assert net[0].repair.peers_in_use() == {1, 2, 3}


def test_whose_word_is_awaited_keeps_its_number_for_a_while() -> None:
    net = Net(6)
    net.wire = lambda sender, to, message: False
    net.tell(0, TopicReplicas(TOPIC, (1, 2)))
    own = event(1)
    net.publish(0, own)
    net[0].repair.holders.sent(own.cid, 3, net.now)
    net.run(0.2)
    net.tell(0, Unfollow(TOPIC))
    assert net[0].repair.peers_in_use() == {1, 2, 3}
    net.run(AWAITED_PERIODS + 8)
    assert net[0].repair.peers_in_use() == set()


def test_who_told_something_keeps_its_number() -> None:
    net = Net(3, follow=[Follow(TOPIC)])
    topic = net[0].repair.topics[TOPIC]
    for peer in range(1, 2 + CONTACTS):
        net.tell(0, Received(peer, StreamHeads((StreamStatus(TOPIC, (), 0, 0, 0),), 0)))
    assert 1 not in topic.contacts
    assert 1 in net[0].repair.peers_in_use()
