"""When a stream counts as whole, and what is refused or served of other streams."""

import pytest

from support.protocols.streams_net import TOPIC, Net, chain, event, kept
from vinecast.core.events import Received, Send, Start
from vinecast.core.log.blocks import CID_HEAD
from vinecast.core.log.event_record import NUMBER_MAX
from vinecast.protocols.streams import EARLIEST, NOW, Follow, StreamEvents, StreamPush, StreamWant
from vinecast.protocols.streams.messages import StreamHeads, StreamStatus

NOBODY_HAS = CID_HEAD + bytes(32)
OTHER = "another/topic"


def told(height: int, *heads: bytes) -> StreamHeads:
    """A peer tells how far it has come."""
    return StreamHeads((StreamStatus(TOPIC, heads, height, 0, 0),), 0)


def test_who_was_told_of_more_is_not_level_while_it_looks_for_that_and_when_that_was_in_vain() -> None:
    net = Net(2)
    net.give(0, chain(3))
    net.tell(0, Received(1, told(3)))
    repair = net[0].repair
    assert repair.is_level(TOPIC)
    net.tell(0, Received(1, told(3, NOBODY_HAS)))
    assert repair.seeking.seeks(TOPIC)
    assert not repair.is_level(TOPIC)
    net.wire = lambda sender, to, message: not isinstance(message, StreamHeads)
    net.run(60)
    assert not repair.seeking.seeks(TOPIC)
    assert repair.is_level(TOPIC)
    net.tell(0, Received(1, told(9)))
    assert not repair.seeking.seeks(TOPIC)
    assert not repair.is_level(TOPIC)


def test_who_was_away_believes_nothing_that_it_was_told_before() -> None:
    net = Net(2)
    net.give(0, chain(3))
    net.tell(0, Received(1, told(9)))
    net.run(3)
    topic = net[0].repair.topics[TOPIC]
    assert topic.statuses
    assert topic.waited
    net.tell(0, Start())
    assert (topic.statuses, topic.waited) == ({}, 0)


@pytest.mark.parametrize("start", [NOW, EARLIEST])
def test_what_is_told_of_the_end_of_all_numbers_makes_no_floor_above_it(start: str) -> None:
    """A floor that no frame and no file has room for."""
    net = Net(2, follow=())
    net.tell(0, Follow(TOPIC, start))
    net.tell(0, Received(1, StreamHeads((StreamStatus(TOPIC, (), *[NUMBER_MAX] * 3),), 0)))
    net.run(10)
    topic = net[0].repair.topics[TOPIC]
    assert topic.opened
    assert 0 < topic.floor <= NUMBER_MAX


def test_a_push_has_events_of_its_topic_only() -> None:
    net = Net(2, follow=(Follow(TOPIC), Follow(OTHER)))
    right, wrong = event(1), event(2, topic=OTHER)
    net.tell(0, Received(1, StreamPush(TOPIC, (wrong, right))))
    assert kept(net) == {right.cid}
    assert not net[0].order(OTHER)
    assert net[0].blamed == {(1, "event of another topic"): 1}


def test_what_is_asked_for_under_another_topic_is_not_here() -> None:
    net = Net(2, follow=(Follow(TOPIC), Follow(OTHER)))
    secret = event(1, topic=OTHER)
    net.give(0, [secret])
    effects = net.tell(0, Received(1, StreamWant(TOPIC, (secret.cid,))))
    assert effects == [Send(1, StreamEvents(TOPIC, (), (secret.cid,)))]
    effects = net.tell(0, Received(1, StreamWant(OTHER, (secret.cid,))))
    assert effects == [Send(1, StreamEvents(OTHER, (secret,)))]


@pytest.mark.parametrize("is_own", [True, False])
def test_only_its_publisher_is_blamed_for_an_event_whose_parents_nobody_has(is_own: bool) -> None:
    """Others may know of a floor that this node was not told."""
    net = Net(2)
    orphan = event(8, event(7))
    net.tell(0, Received(1, told(2, orphan.cid)))
    net.take(0, orphan, 1, is_own)
    net.wire = lambda sender, to, message: not isinstance(message, StreamHeads)
    net.run(60)
    assert net[0].counts["streams.given up"] == 1
    assert bool(net[0].blamed) is is_own


def test_who_only_passed_an_event_on_is_not_blamed_for_its_height() -> None:
    net = Net(2)
    first = event(1)
    net.give(0, [first])
    wrong = event(2, first, height=7)
    net.apply(0, net[0].repair.take(wrong, 1, net.now, False, judged=False))
    assert not net[0].blamed
    assert wrong.cid not in kept(net)
    net.take(0, wrong)
    assert len(net[0].blamed) == 1
