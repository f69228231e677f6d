"""Gap repair, one machine and a few: every rule that it keeps."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.streams_net import CONFIG, TOPIC, Net, chain, event
from vinecast.core.events import PeerLost, Received, Send, Start, TimerFired
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.blocks import CID_HEAD
from vinecast.core.log.event_record import PARENTS_MAX
from vinecast.core.log.retention import Retention
from vinecast.core.log.streams import Keep, Kept
from vinecast.protocols.streams import (
    EARLIEST,
    NOW,
    Follow,
    Hand,
    Lower,
    Met,
    StreamAck,
    StreamEvents,
    StreamHeads,
    StreamList,
    StreamListed,
    StreamPush,
    StreamsConfig,
    StreamStatus,
    StreamWant,
    TopicReplicas,
    Unfollow,
)
from vinecast.protocols.streams.catch_up import LISTS
from vinecast.protocols.streams.holders import AWAITED_PERIODS
from vinecast.protocols.streams.topics import CONTACTS

NOBODY_HAS = CID_HEAD + bytes(32)


def kept(net: Net, me: int = 0) -> set[bytes]:
    return set(net[me].order())


def wanted(net: Net, me: int = 0) -> list[tuple[int, bytes]]:
    return [(to, cid) for to, message in net.messages(StreamWant, me) for cid in message.cids]


# Taking events.


def test_an_event_is_kept_then_handed_on_and_acknowledged_when_it_is_safe() -> None:
    net = Net(3)
    net.commits = False
    first = event(1)
    effects = net.take(0, first, sender=1, ack=True)
    assert effects == [Keep((first,))]
    assert net.take(0, first, sender=2, ack=True) == []
    assert net.tell(0, Kept((first.cid,))) == [
        Hand(first),
        Send(1, StreamAck((first.cid,))),
        Send(2, StreamAck((first.cid,))),
    ]
    assert net.take(0, first, sender=2, ack=True) == [Send(2, StreamAck((first.cid,)))]
    assert net.tell(0, Kept((first.cid,))) == []


def test_events_outside_streams_and_of_other_topics_are_none_of_its_business() -> None:
    net = Net(1)
    net.take(0, event(1, height=0))
    net.take(0, event(2, topic="another"))
    assert net[0].counts["streams.not followed"] == 2
    assert not net[0].handed


def test_parents_are_asked_of_the_sender_and_kept_first() -> None:
    net = Net(3)
    events = chain(3)
    net.give(1, events)
    net.take(0, events[2], sender=1)
    assert wanted(net) == [(1, events[1].cid)]
    net.run(0.1)
    assert [signed.cid for signed in net[0].handed] == [signed.cid for signed in events]
    assert wanted(net) == [(1, events[1].cid), (1, events[0].cid)]
    assert net[0].keeps == [3]


def test_who_does_not_answer_is_followed_by_others() -> None:
    net = Net(4)
    first, second = chain(2)
    net.give(3, [first])
    net.wire = lambda sender, to, message: to != 1
    net.take(0, second, sender=1)
    net.run(3)
    assert kept(net) == {first.cid, second.cid}
    assert wanted(net)[0][0] == 1
    assert len({to for to, _ in wanted(net)}) >= 2


def test_who_does_not_have_it_is_followed_at_once() -> None:
    net = Net(3)
    first, second = chain(2)
    net.give(2, [first])
    net.take(0, second, sender=1)
    net.run(0.1)
    assert wanted(net) == [(1, first.cid), (2, first.cid)]
    assert kept(net) == {first.cid, second.cid}


def test_a_lost_peer_is_followed_at_once() -> None:
    net = Net(3)
    first, second = chain(2)
    net.give(2, [first])
    net.take(0, second, sender=1)
    net.tell(0, PeerLost(1))
    assert [to for to, _ in wanted(net)] == [1, 2]


def test_parents_that_never_existed_are_given_up_with_all_that_waits_for_them() -> None:
    net = Net(3)
    ghost = event(7)
    events = chain(3, ghost)
    for signed in events:
        net.take(0, signed, sender=1)
    assert len(net[0].repair.intake.pending) == 3
    net.run(60)
    assert len(net[0].repair.intake.pending) == 0
    assert not net[0].handed
    assert net[0].counts["streams.given up"] == 1
    assert net[0].counts["streams.dropped waiting"] == 3
    assert len(wanted(net)) == CONFIG.tries
    assert len(net[0].repair.seeking.fetcher) == 0


def test_what_was_given_up_is_not_looked_for_again_until_that_is_forgotten() -> None:
    net = Net(2, StreamsConfig(tries=1, answer_s=0.25))
    ghost = event(7)
    net.take(0, event(8, ghost), sender=1)
    net.run(1)
    asked = len(wanted(net))
    net.take(0, event(9, ghost), sender=1)
    assert len(wanted(net)) == asked
    assert net[0].counts["streams.dropped hopeless"] == 1
    net.take(0, ghost, sender=1)
    net.take(0, event(9, ghost), sender=1)
    assert kept(net) == {ghost.cid, event(9, ghost).cid}


def test_an_event_that_waits_is_asked_for_by_nobody() -> None:
    net = Net(3)
    events = chain(3)
    net.take(0, events[2], sender=1)
    net.take(0, events[1], sender=2)
    net.take(0, events[1], sender=1, ack=True)
    assert wanted(net) == [(1, events[1].cid), (2, events[0].cid)]
    net.take(0, events[0])
    assert [signed.cid for signed in net[0].handed] == [signed.cid for signed in events]
    assert net.messages(StreamAck, 0) == [(1, StreamAck((events[1].cid,)))]


@pytest.mark.parametrize("height", [1, 2, 4, 1 << 40])
def test_a_wrong_height_is_refused_and_blamed(height: int) -> None:
    net = Net(2)
    first, second = chain(2)
    net.give(0, [first, second])
    wrong = event(9, second, height=max(height, 2))
    net.take(0, wrong, sender=1)
    assert wrong.cid not in kept(net)
    assert net[0].blamed == {(1, "wrong height"): 1}
    assert net[0].counts["streams.refused wrong height"] == 1


def test_a_wrong_height_shows_when_the_parents_come() -> None:
    net = Net(3)
    first = event(1)
    wrong = event(2, first, height=9)
    after = event(3, wrong)
    net.take(0, wrong, sender=1)
    net.take(0, after, sender=2)
    net.take(0, first, sender=2)
    assert kept(net) == {first.cid}
    assert net[0].blamed == {(1, "wrong height"): 1}
    assert net[0].counts["streams.dropped waiting"] == 1


def test_parents_of_another_topic_are_not_parents() -> None:
    net = Net(2, follow=(Follow(TOPIC), Follow("another")))
    foreign = event(1, topic="another")
    for peer in (0, 1):
        net.give(peer, [foreign])
    net.take(0, event(2, foreign), sender=1)
    net.run(60)
    assert net[0].order(TOPIC) == []
    assert net[0].counts["streams.given up"] == 1


# Answers.


def test_what_was_not_asked_for_is_refused_and_the_rest_is_asked_of_others() -> None:
    net = Net(3)
    first, second = chain(2)
    net.give(2, [first])
    net.take(0, second, sender=1)
    net.tell(0, Received(1, StreamEvents(TOPIC, (event(5), event(6)))))
    assert kept(net) == set()
    assert net[0].blamed[1, "event that was not asked for"] == 2
    assert [to for to, _ in wanted(net)] == [1, 2]
    net.run(0.1)
    assert kept(net) == {first.cid, second.cid}


def test_a_late_answer_is_no_fault() -> None:
    net = Net(3)
    first, second = chain(2)
    net.take(0, second, sender=1)
    net.wire = lambda sender, to, message: False
    net.run(5)
    net.tell(0, Received(1, StreamEvents(TOPIC, (first,))))
    net.tell(0, Received(2, StreamEvents(TOPIC, (first,))))
    assert kept(net) == {first.cid, second.cid}
    assert not net[0].blamed


def test_answers_are_bounded_in_bytes() -> None:
    net = Net(2, StreamsConfig(batch_bytes=1024, served_bytes=8192))
    events = chain(40, size=200)
    net.give(1, events)
    effects = net.tell(1, Received(0, StreamWant(TOPIC, tuple(signed.cid for signed in events))))
    answers: list[Any] = [effect.message for effect in effects if isinstance(effect, Send)]
    assert len(answers) > 2
    assert all(sum(len(signed.block) for signed in answer.events) <= 1024 for answer in answers)
    assert net[1].counts["streams.not served"] == 1
    assert net.tell(1, Received(0, StreamList(TOPIC, 0, b""))) != []
    net.run(1)
    before = len(net.sent)
    net.tell(1, Received(0, StreamWant(TOPIC, (events[0].cid,))))
    assert len(net.sent) == before + 1


# Bounds.


def test_who_floods_loses_its_own() -> None:
    net = Net(3, StreamsConfig(pending=40))
    honest = chain(3)
    net.take(0, honest[2], sender=2)
    for number in range(500):
        net.take(0, event(1000 + number, event(5000 + number)), sender=1)
    pending = net[0].repair.intake.pending
    assert honest[2].cid in pending
    assert len(pending) <= 21
    net.take(0, honest[0], sender=2)
    net.take(0, honest[1], sender=2)
    assert [signed.cid for signed in net[0].handed] == [signed.cid for signed in honest]


def test_waiting_is_bounded_in_bytes() -> None:
    net = Net(2, StreamsConfig(pending_bytes=10_000))
    for number in range(50):
        net.take(0, event(number, event(1000 + number), size=500), sender=number)
    assert len(net[0].repair.intake.pending) * 500 <= 10_000


def test_wants_are_bounded() -> None:
    net = Net(2, StreamsConfig(fetches=16))
    for number in range(50):
        net.take(0, event(number, event(1000 + number)), sender=10 + number)
    assert len(net[0].repair.seeking.fetcher) == 16
    assert net[0].counts["streams.too many fetches"] == 34


def test_who_wasted_time_too_often_is_not_waited_for() -> None:
    net = Net(2, StreamsConfig(tries=1, answer_s=0.25))
    for number in range(8):
        net.take(0, event(number, event(1000 + number)), sender=1)
        net.run(0.5)
    assert net[0].counts["streams.dropped distrusted"] >= 3
    net.run(40)
    first, second = chain(2)
    net.give(1, [first])
    net.take(0, second, sender=1)
    net.run(1)
    assert kept(net) == {first.cid, second.cid}


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


# Replicas and acknowledgements.


def test_replicas_get_a_publishers_events_in_batches_and_acknowledge_them() -> None:
    net = Net(4, follow=(), links=lambda me: [])
    net.tell(0, Follow(TOPIC))
    net.tell(0, TopicReplicas(TOPIC, (1, 2, 0)))
    for signed in chain(10):
        net.publish(0, signed)
    net.run(0.2)
    pushes = net.messages(StreamPush, 0)
    assert [(to, len(push.events)) for to, push in pushes] == [(1, 10), (2, 10)]
    assert set(net[0].acknowledged.values()) == {2}
    assert net[1].order() == net[0].order()
    assert not net[1].handed


def test_replicas_are_sent_again_what_they_do_not_acknowledge() -> None:
    net = Net(3, follow=(), links=lambda me: [])
    net.tell(0, Follow(TOPIC))
    net.tell(0, TopicReplicas(TOPIC, (1, 2)))
    tries = iter([False, False, True])
    net.wire = lambda sender, to, message: not (to == 1 and isinstance(message, StreamPush)) or next(tries)
    signed = event(1)
    net.publish(0, signed)
    net.run(0.1)
    assert net[0].acknowledged == {signed.cid: 1}
    net.run(3)
    assert net[0].acknowledged == {signed.cid: 2}
    assert len(net.messages(StreamPush, 0)) == 4


def test_a_new_replica_gets_what_the_old_ones_did_not_acknowledge() -> None:
    net = Net(3, follow=(), links=lambda me: [])
    net.tell(0, Follow(TOPIC))
    net.tell(0, TopicReplicas(TOPIC, (1,)))
    net.wire = lambda sender, to, message: to != 1
    signed = event(1)
    net.publish(0, signed)
    net.run(0.1)
    net.tell(0, TopicReplicas(TOPIC, (2,)))
    net.run(1)
    assert net[0].acknowledged == {signed.cid: 1}
    assert net[2].order() == [signed.cid]


def test_only_those_count_who_were_sent_it_and_once() -> None:
    net = Net(4)
    net.wire = lambda sender, to, message: False
    signed = event(1)
    net.publish(0, signed)
    holders = net[0].repair.holders
    holders.sent(signed.cid, 1, net.now)
    for sender in (2, 1, 1):
        net.tell(0, Received(sender, StreamAck((signed.cid, signed.cid, NOBODY_HAS))))
    assert net[0].acknowledged == {signed.cid: 1}


def test_own_events_are_remembered_in_bounds() -> None:
    net = Net(2, StreamsConfig(own=4))
    net.tell(0, TopicReplicas(TOPIC, (1,)))
    net.wire = lambda sender, to, message: False
    for signed in chain(10):
        net.publish(0, signed)
    assert len(net[0].repair.holders.cids_of(TOPIC)) == 4
    net.run(60)
    assert not net[0].repair.holders.waits


def test_a_replica_has_bounded_room_for_others() -> None:
    net = Net(2, StreamsConfig(others_topics=2, others_bytes=3000), follow=())
    for number in range(4):
        push = StreamPush(f"topic/{number}", (event(1, topic=f"topic/{number}"),))
        net.tell(0, Received(1, push))
    assert list(net[0].repair.topics) == ["topic/0", "topic/1"]
    net.tell(0, Received(1, StreamPush("topic/0", tuple(chain(50, topic="topic/0", first=2)))))
    assert 2 <= len(net[0].order("topic/0")) < 20
    assert net[0].counts["streams.no room for others"] > 2
    net.tell(0, Follow("mine"))
    net.take(0, event(1, topic="mine", size=5000))
    assert len(net[0].handed) == 1


def test_reading_a_topic_that_was_kept_for_others() -> None:
    net = Net(2, follow=())
    net.tell(0, Received(1, StreamPush(TOPIC, (event(1),))))
    net.tell(0, Follow(TOPIC))
    net.take(0, event(2, event(1)))
    assert [signed.cid for signed in net[0].handed] == [event(2, event(1)).cid]


def test_publishing_without_following_keeps_the_event() -> None:
    net = Net(2, follow=())
    net.publish(0, event(1))
    assert kept(net) == {event(1).cid}
    assert not net[0].handed


def test_leaving_a_topic_forgets_all_of_it() -> None:
    net = Net(2)
    net.take(0, event(2, event(1)))
    net.tell(0, Unfollow(TOPIC))
    repair = net[0].repair
    assert (len(repair.intake.pending), len(repair.seeking.fetcher), repair.topics) == (0, 0, {})
    net.take(0, event(1))
    assert net[0].counts["streams.not followed"] == 1


# Everything at once.


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
