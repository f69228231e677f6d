"""The trace of one peer: what becomes of what it is sent, whatever that is, and of what it cannot send."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from support.lone_peer import LonePeer
from vinecast.core.events import TimerFired
from vinecast.core.log.batch_signature import SignedEvent, sign_events
from vinecast.core.log.event_record import EventRecord
from vinecast.core.trace import NamedRecord, TraceKind
from vinecast.node.storage.identity_file import make_identity
from vinecast.peer.config import PeerConfig
from vinecast.peer.identity import Identity
from vinecast.peer.inputs import FrameCame, FrameUnsent, LeaveTopic, NodeEnds, OpenSubscription, StoreCloses
from vinecast.peer.outputs import PeerOutput, SendFrame, Traced
from vinecast.peer.peer import UNWANTED
from vinecast.peer.streams.arrivals import TOO_MUCH
from vinecast.peer.streams.durable_runtime import CLOSED
from vinecast.peer.streams.messages import CarriedEvents, Push, encode_stream
from vinecast.peer.tracing import CANNOT_TAKE, GONE, TOO_LARGE, TOO_SLOW
from vinecast.peer.wire.messages import EventFrame, encode, system_frame
from vinecast.systems.pulsarcast.messages import NO_ROOM, Join
from vinecast.systems.vitis.messages import NOT_CARRIED, HaveEvent

FIRST, AGAIN = TraceKind.RECEIVED_FIRST, TraceKind.RECEIVED_AGAIN
DROPPED, DELIVERED, SENT = TraceKind.DROPPED, TraceKind.DELIVERED, TraceKind.SENT
TRACED = PeerConfig(traced=True)


def traces(out: Iterable[PeerOutput]) -> list[NamedRecord]:
    """The records in some outputs."""
    return [record for one in out if isinstance(one, Traced) for record in one.records]


class Scene:
    """A peer that reads "news" from a start, or nothing, and a publisher to whom it has a connection."""

    def __init__(self, config: PeerConfig = TRACED, start: str = "now") -> None:
        self.lone = LonePeer(config)
        self.author: Identity = make_identity()
        self.other = self.lone.introduce("news")
        if start:
            self.lone.feed(OpenSubscription(1, 1, "news", start))
        self._sequence = 0

    def events(self, count: int, topic: str = "news", height: int = 0) -> list[SignedEvent]:
        """Events of the publisher, never sent before."""
        records = []
        for _ in range(count):
            self._sequence += 1
            record = EventRecord(topic, self.author.public, self._sequence, 1, b"said", {})
            records.append(record._replace(height=height))
        return sign_events("test", records, self.author.sign)

    def take(self, *events: SignedEvent, hops: int = 3) -> list[tuple[TraceKind, int, str]]:
        """What the trace says of events that come in one frame, outside of streams."""
        return self.say(encode(EventFrame(hops, carried(events))))

    def say(self, data: bytes) -> list[tuple[TraceKind, int, str]]:
        """What the trace says of a frame: the kind, the event and the reason of each record, without what is
        sent on."""
        records = traces(self.lone.feed(FrameCame(self.other, data)))
        return [(one.kind, one.event, one.reason) for one in records if one.kind is not SENT]


def carried(events: Iterable[SignedEvent]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((one.block, one.signature.to_bytes()) for one in events)


def forged(event: SignedEvent) -> SignedEvent:
    """The same event under a signature of nobody."""
    return event._replace(signature=event.signature._replace(root_signature=bytes(64)))


# What comes.


def test_the_first_copy_is_news_and_the_next_is_not() -> None:
    scene = Scene()
    (event,) = scene.events(1)
    assert scene.take(event) == [(FIRST, event.number, ""), (DELIVERED, event.number, "")]
    assert scene.take(event) == [(AGAIN, event.number, "")]


def test_each_event_of_a_frame_has_its_own_fate() -> None:
    """What was taken before a forged event was taken; what comes after it is not looked at."""
    scene = Scene()
    good, alien, bad, late = *scene.events(1), *scene.events(1, "weather"), *scene.events(2)
    found = scene.take(good, alien, forged(bad), late)
    assert found == [
        (FIRST, good.number, ""),
        (DELIVERED, good.number, ""),
        (DROPPED, alien.number, UNWANTED.removeprefix("refused: ")),
        (DROPPED, bad.number, "forged event"),
        (DROPPED, late.number, "forged event"),
    ]
    record = traces(scene.lone.feed(FrameCame(scene.other, encode(EventFrame(3, carried([bad]))))))[0]
    assert record[1:] == (
        *(
            scene.lone.peer.peer_table.me,
            FIRST,
            scene.other,
            "poldercast.event",
            "news",
            bad.number,
            3,
            "",
            0,
        ),
    )


def test_a_frame_that_cannot_be_read_is_dropped_as_one_message() -> None:
    scene = Scene()
    (found,) = scene.say(b"\xc1")
    assert found[:2] == (DROPPED, -1)
    assert "malformed frame" in found[2]


def test_what_finds_no_room_with_a_reader_is_dropped_there() -> None:
    scene = Scene(replace(TRACED, waiting=1))
    first, second = scene.events(2)
    found = scene.take(first, second)
    assert [one for one in found if one[0] is not FIRST] == [
        (DELIVERED, first.number, ""),
        (DROPPED, second.number, TOO_SLOW),
    ]
    assert [one[1] for one in found if one[0] is FIRST] == [first.number, second.number]


def test_events_of_streams_that_too_much_waits_for_are_dropped() -> None:
    scene = Scene(start="earliest")
    event, after = scene.events(2, height=1)
    assert scene.say(encode_stream(CarriedEvents(1, False, carried([event]))))[0] == (FIRST, event.number, "")
    scene.lone.peer.streams.store.is_crowded = True  # type: ignore[misc]
    reason = TOO_MUCH.removeprefix("dropped: ")
    for frame in (CarriedEvents(1, False, carried([after, event])), Push("news", carried([after, event]))):
        assert scene.say(encode_stream(frame)) == [(DROPPED, one.number, reason) for one in (after, event)]


def test_events_to_keep_are_taken_or_not() -> None:
    scene = Scene()
    good, again, bad = *scene.events(1, height=1), *scene.events(1, height=1), *scene.events(1, height=1)
    scene.say(encode_stream(CarriedEvents(1, True, carried([again]))))
    found = scene.say(encode_stream(Push("news", carried([good, again, forged(bad)]))))
    assert found == [(FIRST, good.number, ""), (AGAIN, again.number, ""), (DROPPED, bad.number, "not taken")]


def test_an_event_that_waits_for_its_parents_is_here() -> None:
    scene = Scene()
    (event,) = scene.events(1)
    record = event.record._replace(height=2, parents=(event.cid,))
    (child,) = sign_events("test", [record], scene.author.sign)
    assert scene.say(encode_stream(CarriedEvents(1, False, carried([child])))) == [(FIRST, child.number, "")]


@pytest.mark.parametrize(
    ("system", "frame", "reason", "count"),
    [
        ("vitis", HaveEvent("weather", 2, False, (5, 6)), NOT_CARRIED, 2),
        ("pulsarcast", Join("news"), NO_ROOM, 0),
    ],
)
def test_other_messages_leave_a_record_only_if_they_are_refused(
    system: str, frame: Join | HaveEvent, reason: str, count: int
) -> None:
    scene = Scene(replace(TRACED, system=system))
    found = [one for one in scene.say(system_frame(frame)) if one[0] is DROPPED]
    assert found == [(DROPPED, -1, reason.removeprefix("refused: "))] * count


def test_after_the_end_nothing_is_taken() -> None:
    scene = Scene()
    (event,) = scene.events(1)
    scene.lone.feed(StoreCloses())
    assert scene.say(encode_stream(CarriedEvents(1, False, carried([event])))) == [
        (DROPPED, event.number, CLOSED)
    ]
    left = traces(scene.lone.feed(NodeEnds()))[-1]
    assert (left.kind, left.topic) == (TraceKind.LEFT, "")
    assert scene.take(event) == [(DROPPED, event.number, GONE)]


# What goes out.


def test_what_did_not_go_out_is_sent_and_dropped() -> None:
    scene = Scene(start="")
    out = scene.lone.publish(2, 10)
    (frame,) = [one for one in out if isinstance(one, SendFrame)]
    sent = [one for one in traces(out) if one.kind is SENT]
    found = traces(scene.lone.feed(FrameUnsent(frame.peer, frame.things, frame.frame)))
    assert len(sent) == 2
    assert [(one.peer, one.message, one.event, one.reason) for one in found] == [
        (scene.other, "poldercast.event", one.event, CANNOT_TAKE) for one in sent
    ]
    assert sum(one.size for one in sent) == len(frame.frame) + 4


def test_so_is_a_frame_that_is_too_large() -> None:
    scene = Scene(start="")
    limits = scene.lone.peer.links
    limits.limits = limits.limits._replace(frame_bytes_max=1000)
    records = [one for one in traces(scene.lone.publish(1, 2000)) if one.kind in (SENT, DROPPED)]
    assert [(one.kind, one.reason) for one in records] == [(SENT, ""), (DROPPED, TOO_LARGE)]


# Who takes part.


def test_a_topic_is_joined_when_its_events_would_come_and_left_with_its_last_reader() -> None:
    lone = LonePeer(TRACED)
    begun = [(one.kind, one.topic) for one in traces(lone.begun)]
    assert begun == [(TraceKind.JOINED, "")]
    opened = traces(lone.feed(OpenSubscription(1, 1, "news", "now")))  # alone: nobody could publish to it
    assert [(one.kind, one.topic) for one in opened] == [(TraceKind.JOINED, "news")]
    again = traces(lone.feed(OpenSubscription(2, 2, "news", "now")))
    assert not again
    left = traces(lone.feed(LeaveTopic("news")))
    assert [(one.kind, one.topic) for one in left] == [(TraceKind.LEFT, "news")]


def test_nothing_is_traced_where_nobody_wants_it() -> None:
    lone = LonePeer(PeerConfig())
    assert lone.peer.tracing is None
    lone.introduce("news")
    assert not traces([*lone.begun, *lone.publish(1, 10), *lone.feed(TimerFired("cyclon"))])
