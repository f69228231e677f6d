"""Gap repair, catching up: heads are compared, gaps filled, and a stream begins where it should."""

import random
from typing import Any

import pytest

from support.protocols.streams_net import TOPIC, Net, chain, event, kept, wanted
from vinecast.core.events import Received, Start
from vinecast.core.log.blocks import CID_HEAD
from vinecast.core.log.event_record import PARENTS_MAX
from vinecast.core.log.retention import Retention
from vinecast.protocols.streams import (
    EARLIEST,
    NOW,
    Follow,
    Lower,
    Met,
    StreamHeads,
    StreamList,
    StreamListed,
    StreamsConfig,
    StreamStatus,
    StreamWant,
)
from vinecast.protocols.streams.catch_up import LISTS

NOBODY_HAS = CID_HEAD + bytes(32)


# Comparing heads.


def test_the_end_of_a_stream_is_not_missed() -> None:
    net = Net(3)
    events = chain(5)
    net.give(1, events)
    net.run(4)
    assert net[0].order() == net[1].order() == net[2].order()


def test_equal_streams_are_told_and_nothing_more() -> None:
    net = Net(2)
    for peer in (0, 1):
        net.give(peer, chain(5))
    net.run(3)
    net.sent.clear()
    net.run(10)
    assert {type(message) for _, _, message in net.sent} == {StreamHeads}
    assert len(net.sent) == 20


def test_empty_streams_are_told_less_often() -> None:
    net = Net(2)
    net.run(32)
    assert len(net.sent) == 8


@pytest.mark.parametrize("start", [EARLIEST, NOW])
def test_who_comes_back_asks_again_for_a_stream_that_was_empty(start: str) -> None:
    net = Net(4, follow=(Follow(TOPIC, start),), links=lambda me: [] if me else [1, 2, 3])
    events = chain(3)
    net.run(2)
    for peer in (1, 2, 3):
        net.give(peer, events)
    net.tell(0, Start())
    net.run(2)
    assert net[0].order() == [signed.cid for signed in events]


def test_a_stream_is_not_empty_where_one_of_some_told_of_events() -> None:
    net = Net(4, follow=(), links=lambda me: [] if me else [1, 2, 3])
    events = chain(3)
    net.tell(1, Follow(TOPIC))
    net.give(1, events)
    net.tell(0, Follow(TOPIC))
    for peer, height in ((1, 3), (2, 0), (3, 0)):
        net.tell(0, Received(peer, StreamHeads((StreamStatus(TOPIC, (), height, 0, 0),), 0)))
    assert net[0].repair.topics[TOPIC].opened
    net.run(5)
    assert net[0].order() == [signed.cid for signed in events]


def test_the_first_events_are_told_to_all_who_ask_no_longer() -> None:
    net = Net(5)
    events = chain(3)
    net.run(1.5)
    net.give(1, events)
    net.run(1)
    for peer in net.peers:
        assert peer.order() == [signed.cid for signed in events]
    net.run(1)
    net.sent.clear()
    net.run(1)
    assert len(net.messages(StreamHeads)) == 5


def test_many_heads_are_told_by_turns() -> None:
    net = Net(2)
    roots = [event(number) for number in range(1, 201)]
    net.give(1, roots)
    net.run(12)
    assert kept(net) == {signed.cid for signed in roots}


def test_an_event_follows_all_heads_or_the_highest() -> None:
    net = Net(1)
    assert net[0].repair.place(TOPIC) == ((), 1)
    net.give(0, [event(1), event(2)])
    parents, height = net[0].repair.place(TOPIC)
    assert set(parents) == {event(1).cid, event(2).cid}
    assert height == 2
    high = chain(5, first=100)
    net.give(0, [*(event(number) for number in range(3, 40)), *high])
    parents, height = net[0].repair.place(TOPIC)
    assert len(parents) == PARENTS_MAX
    assert high[-1].cid in parents
    assert height == 6


def test_topics_take_turns() -> None:
    names = [f"topic/{i}" for i in range(10)]
    net = Net(2, StreamsConfig(topics_a_period=4), follow=[Follow(name) for name in names])
    net.give(0, [event(1, topic=name) for name in names])
    net.run(3)
    told = [one.topic for _, message in net.messages(StreamHeads, 0) for one in message.told]
    assert set(told) >= set(names)
    assert max(len(message.told) for _, message in net.messages(StreamHeads, 0) if message.asks) <= 4


def test_who_meets_another_compares_at_once() -> None:
    net, events = Net(2), chain(300)
    net.give(0, events[:5])
    net.give(1, events)
    net.tell(0, Met(1, (TOPIC, "another")))
    net.run(0.5)  # before the first period is over
    assert net[0].order() == net[1].order()
    net.tell(1, Met(0, (TOPIC,)))
    heads = len(net.messages(StreamHeads))
    for _ in range(5):
        net.tell(0, Met(1, (TOPIC,)))
        net.tell(1, Met(0, (TOPIC,)))
    assert len(net.messages(StreamHeads)) == heads  # they know of each other


def test_who_has_just_met_a_peer_asks_it_of_every_stream_that_is_begun_then() -> None:
    """As a publisher does that is new: each stream is asked for once a period, not each peer."""
    other = "another/topic"
    net = Net(2, follow=())
    net.wire = lambda sender, to, message: sender != 1
    net.tell(0, Met(1, (TOPIC, other)))  # it has introduced itself
    for topic in (TOPIC, other):
        net.tell(0, Follow(topic, NOW, reads=False))
        for _ in range(3):
            net.tell(0, Met(1, (topic,)))
    asked = [[status.topic for status in message.told] for _, message in net.messages(StreamHeads, 0)]
    assert asked == [[TOPIC], [other]]


def test_of_those_met_only_some_are_asked() -> None:
    net = Net(6)
    net.give(0, chain(3))
    for peer in range(1, 6):
        net.tell(0, Met(peer, (TOPIC,)))
        net.run(0.1)
    assert [to for to, _ in net.messages(StreamHeads, 0)] == [1, 2, 3]
    silent = Net(2)
    silent.give(0, chain(3))
    silent.wire = lambda sender, to, message: sender != 1
    for _ in range(5):
        silent.tell(0, Met(1, (TOPIC,)))
    assert len(silent.messages(StreamHeads, 0)) == 1  # until the next period
    quiet = Net(2)
    quiet.tell(0, Met(1, (TOPIC,)))
    assert quiet.sent == []  # a stream that is known to be empty


# Catching up.


def test_a_long_stream_is_caught_up_with_in_order() -> None:
    net = Net(2)
    events = chain(5000)
    net.give(0, events[:1000])
    net.give(1, events)
    net[0].keeps.clear()
    net.sent.clear()
    net.run(6)
    assert net[0].order() == net[1].order()
    assert [signed.cid for signed in net[0].handed] == [signed.cid for signed in events]
    assert len(net.messages(StreamWant)) <= 40
    assert len(net.messages(StreamList)) <= 8
    assert max(net[0].keeps) > 50
    assert not net[0].blamed


def test_streams_that_parted_long_ago_meet_again() -> None:
    net = Net(2)
    common = chain(100)
    left = chain(700, common[-1], first=10_000)
    right = chain(900, common[-1], first=20_000)
    net.give(0, common + left)
    net.give(1, common + right)
    net.sent.clear()
    net.run(8)
    assert net[0].order() == net[1].order()
    assert len(net[0].order()) == 1700
    assert len(net.sent) < 200
    merged = event(99_999, left[-1], right[-1])
    net.take(0, merged)
    net.run(3)
    assert net[1].order()[-1] == merged.cid


def test_catching_up_survives_loss() -> None:
    net = Net(3)
    events = chain(3000)
    net.give(1, events)
    net.give(2, events)
    luck = random.Random(3)
    net.wire = lambda sender, to, message: luck.random() > 0.3
    net.run(60)
    assert net[0].order() == net[1].order()
    assert [signed.cid for signed in net[0].handed] == [signed.cid for signed in events]


def test_lists_of_what_does_not_exist_waste_little() -> None:
    net = Net(3)
    events = chain(200)
    net.give(2, events)

    def lie(to: int, asked: StreamList) -> None:
        junk = tuple(CID_HEAD + bytes([i]) * 32 for i in range(100))
        lies = StreamListed(asked.topic, (asked.height, asked.cid), junk, asked.height + 1)
        net.later(to, Received(1, lies))

    def wire(sender: int, to: int, message: Any) -> bool:
        if to == 1 and isinstance(message, StreamList):
            lie(sender, message)
        return to != 1

    net.wire = wire
    for _ in range(40):
        net.tell(0, Received(1, StreamHeads((StreamStatus(TOPIC, (NOBODY_HAS,), 10_000, 0, 0),), 0)))
        net.run(1)
    assert net[0].order() == net[2].order()
    assert len(net.messages(StreamList, 0)) < 42 * LISTS
    asked_of_others = [cid for to, cid in wanted(net) if to == 2]
    assert not {cid for cid in asked_of_others if cid.endswith(bytes([7]) * 32)}


# Where a stream begins.


def test_who_begins_now_gets_the_heads_and_what_follows() -> None:
    net = Net(4, follow=())
    events = chain(50)
    for peer in (1, 2, 3):
        net.tell(peer, Follow(TOPIC))
        net.give(peer, events)
    net.tell(0, Follow(TOPIC, NOW))
    net.run(5)
    assert kept(net) == {events[-1].cid}
    assert net[0].disk.state(TOPIC).floor == 51
    new = event(100, events[-1])
    net.take(0, new, sender=1)
    assert [signed.cid for signed in net[0].handed] == [events[-1].cid, new.cid]
    net.tell(0, Lower(TOPIC, 20))
    net.run(5)
    assert kept(net) == {signed.cid for signed in [*events[19:], new]}
    net.tell(0, Lower(TOPIC, 30))
    assert net[0].disk.state(TOPIC).floor == 20
    net.tell(0, Lower(TOPIC, 0))
    net.run(5)
    assert kept(net) == {signed.cid for signed in [*events, new]}


def test_who_begins_an_empty_stream_now_begins_at_its_beginning_and_is_quiet() -> None:
    net = Net(4, follow=())
    for peer in range(4):
        net.tell(peer, Follow(TOPIC, NOW))
        net.run(0.3)
    net.run(5)
    assert [(peer.repair.topics[TOPIC].opened, peer.disk.state(TOPIC).floor) for peer in net.peers] == [
        (True, 0)
    ] * 4
    net.sent.clear()
    net.run(8)
    assert len(net.sent) <= 2 * 4  # one exchange of each peer in QUIET_PERIODS
    events = chain(3)
    net.give(0, events)
    net.tell(3, Lower(TOPIC, 0))  # somebody reads it from its beginning
    net.run(2)
    assert kept(net, 3) == {signed.cid for signed in events}


@pytest.mark.parametrize(
    ("follow", "at_once"), [(Follow(TOPIC, NOW, reads=False), True), (Follow(TOPIC, NOW), False)]
)
def test_who_only_publishes_is_in_a_hurry(follow: Follow, at_once: bool) -> None:
    net = Net(3, follow=())
    for peer in (1, 2):
        net.tell(peer, Follow(TOPIC))
        net[peer].repair.topics[TOPIC].opened = True
        net.give(peer, chain(5))
    net.tell(0, follow)
    for peer in (1, 2):
        net.tell(0, Met(peer, (TOPIC,)))
    net.run(0.1)
    assert net[0].repair.topics[TOPIC].opened == at_once
    assert net[0].repair.place(TOPIC) == (((chain(5)[-1].cid,), 6) if at_once else ((), 1))


def test_an_event_that_comes_before_the_beginning_is_settled_waits_for_that() -> None:
    net = Net(3, follow=())
    events = chain(5)
    for peer in (1, 2):
        net.tell(peer, Follow(TOPIC))
        net.give(peer, events)
    net.tell(0, Follow(TOPIC, NOW))
    net.wire = lambda sender, to, message: not isinstance(message, StreamWant)
    net.take(0, event(9, events[-1]), sender=1)
    net.wire = lambda sender, to, message: True
    net.run(5)
    assert kept(net) >= {event(9, events[-1]).cid, events[-1].cid}


def test_a_minority_cannot_move_the_beginning() -> None:
    net = Net(5, follow=())
    net.tell(0, Follow(TOPIC, NOW))
    for peer, height in ((1, 1 << 60), (2, 10), (3, 12)):
        net.tell(0, Received(peer, StreamHeads((StreamStatus(TOPIC, (), height, 0, 0),), 0)))
    assert net[0].disk.state(TOPIC).floor == 13
    net.tell(4, Follow(TOPIC))
    for peer, floor in ((1, 1 << 60), (2, 0), (3, 0)):
        net.tell(4, Received(peer, StreamHeads((StreamStatus(TOPIC, (), 1 << 60, floor, floor),), 0)))
    assert net[4].disk.state(TOPIC).floor == 0


def test_the_earliest_is_what_anybody_still_keeps() -> None:
    net = Net(3, follow=())
    events = chain(100)
    for peer in (1, 2):
        net.tell(peer, Follow(TOPIC))
        net.give(peer, events)
        net[peer].disk.retain(TOPIC, Retention(events=30), 0)
    net.tell(0, Follow(TOPIC))
    net.run(6)
    assert net[0].order() == [signed.cid for signed in events[70:]]
    assert net[0].disk.state(TOPIC).floor == 101
    later = chain(5, events[-1], first=500)
    net.give(1, later)
    net.run(3)
    assert net[0].order()[-5:] == [signed.cid for signed in later]


def test_who_was_away_longer_than_anything_is_kept_goes_on_where_others_begin() -> None:
    net = Net(3)
    events = chain(100)
    net.give(0, events[:10])
    net.wire = lambda sender, to, message: False
    for peer in (1, 2):
        net.give(peer, events)
        net[peer].disk.retain(TOPIC, Retention(events=30), 0)
    net.run(2)
    net.wire = lambda sender, to, message: True
    net.run(10)
    assert net[0].order() == [signed.cid for signed in [*events[:10], *events[70:]]]


def test_who_is_alone_begins_at_once() -> None:
    net = Net(1, follow=(), links=lambda me: [])
    net.tell(0, Follow(TOPIC, NOW))
    net.run(6)
    assert net[0].repair.topics[TOPIC].opened
    net.take(0, event(1))
    assert len(net[0].handed) == 1
