"""Gap repair, one machine and a few: every rule that it keeps."""

from typing import Any

import pytest

from support.protocols.streams_net import CONFIG, TOPIC, Net, chain, event, kept, wanted
from vinecast.core.events import PeerLost, Received, Send
from vinecast.core.log.blocks import CID_HEAD
from vinecast.core.log.streams import Keep, Kept
from vinecast.protocols.streams import (
    Follow,
    Hand,
    StreamAck,
    StreamEvents,
    StreamList,
    StreamPush,
    StreamsConfig,
    StreamWant,
    TopicReplicas,
    Unfollow,
)

NOBODY_HAS = CID_HEAD + bytes(32)


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


def test_what_follows_from_what_was_given_up_is_not_fetched_again_and_again() -> None:
    """Peer 1 does without what its events follow, the others cannot; it tells of them in every period."""
    net = Net(3)
    ghost = event(7)
    events = chain(20, ghost)
    net[1].disk.set_floor(TOPIC, events[0].record.height)
    net[1].repair.topics[TOPIC].stored_floor = events[0].record.height
    net.give(1, events)
    assert len(kept(net, 1)) == 20
    net.run(15)
    begun = len(wanted(net))
    assert begun > 20
    net.run(12)
    assert len(wanted(net)) == begun
    net.take(0, ghost, sender=2)
    net.run(4)
    assert kept(net) == {ghost.cid, *kept(net, 1)}


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
