"""What the messages in a frame are, as far as a trace tells: kind, topic and event, and how far they came.

A frame may hold several messages: events that travel together, notices that were joined. What counts as one
is what the receiver's machine is handed as one; an event that is fetched, or pushed to a replica, counts by
itself.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from vinecast.core.errors import RemoteError
from vinecast.core.log.batch_signature import event_number
from vinecast.core.log.blocks import ContentId
from vinecast.core.log.event_record import decode as decode_record
from vinecast.peer.codecs.frame_codec import FrameCodec
from vinecast.peer.streams import messages as wire
from vinecast.peer.streams.codec import TABLE_FRAME_SPECS
from vinecast.peer.wire.messages import (
    EventFrame,
    Gossip,
    Introduction,
    Leaving,
    StreamFrame,
    SystemFrame,
    decode,
    read_body,
)
from vinecast.protocols.streams import (
    StreamAck,
    StreamEvents,
    StreamHeads,
    StreamList,
    StreamListed,
    StreamPush,
    StreamWant,
)
from vinecast.protocols.tman import TManEcho, TManProfile
from vinecast.systems.common.tman_router import EXCHANGES
from vinecast.systems.common.wire import EventEncoding
from vinecast.systems.durable.machine import DurableEvent

INTRODUCTION, LEAVING = "peer.introduction", "peer.leaving"
"""What peers say to each other beside the messages of their machines."""
UNREADABLE = "unreadable"
"""The kind of what cannot be read."""

_STREAM_KINDS: Mapping[type[Any], str] = {
    wire.Heads: StreamHeads.kind,
    wire.ListStream: StreamList.kind,
    wire.StreamListing: StreamListed.kind,
    wire.WantEvents: StreamWant.kind,
    wire.EventBatch: StreamEvents.kind,
    wire.Push: StreamPush.kind,
    wire.HolderAck: StreamAck.kind,
    **{spec.frame: spec.message.kind for spec in TABLE_FRAME_SPECS},
}


class TracedMessage(NamedTuple):
    """A message in a frame."""

    kind: str
    topic: str = ""
    event: int = -1
    hops: int = -1


class MessageReader:
    """Reads the frames of one node's system. ``carries``: its messages that carry an event; ``decoder`` reads
    what is in its other frames, ``frames`` knows their messages; ``topic_of`` gives the topic of an event
    that came by lately, by number, or nothing."""

    def __init__(
        self,
        carries: Sequence[type[Any]],
        encoding: EventEncoding,
        frames: FrameCodec,
        decoder: Any,
        cid_of: ContentId,
        topic_of: Callable[[int], str],
    ) -> None:
        by_form = carries if encoding.count == len(carries) else [carries[0]] * encoding.count
        self._event_kinds = [message.kind for message in by_form]
        self._frames, self._decoder, self._cid_of, self._topic_of = frames, decoder, cid_of, topic_of

    def read(self, data: bytes) -> tuple[TracedMessage, ...]:
        """The messages in a frame; one of the kind ``UNREADABLE`` where it cannot be read."""
        try:
            return tuple(self._read(data))
        except RemoteError:
            return (TracedMessage(UNREADABLE),)

    def _read(self, data: bytes) -> Sequence[TracedMessage]:
        match decode(data):
            case EventFrame(hops, events, form):
                return self.events(self.kind_of(form), hops, events)
            case StreamFrame() as frame:
                return self.read_stream(wire.decode_stream(frame))
            case Gossip(kind=kind):
                return (TracedMessage(kind),)
            case SystemFrame(body):
                return self._read_system(read_body(self._decoder, body))
            case Introduction():
                return (TracedMessage(INTRODUCTION),)
            case Leaving():
                return (TracedMessage(LEAVING),)

    def kind_of(self, form: int) -> str:
        """The kind of the message that an event outside of streams travels in."""
        return self._event_kinds[form] if form < len(self._event_kinds) else UNREADABLE

    def events(
        self, kind: str, hops: int, events: Iterable[tuple[bytes, bytes]], topic: str = ""
    ) -> list[TracedMessage]:
        """A message for each of some events. ``topic``: of all of them, if that is known"""
        found = []
        for block, _ in events:
            number = event_number(self._cid_of(block))
            found.append(TracedMessage(kind, topic or self._topic(number, block), number, hops))
        return found

    def _topic(self, number: int, block: bytes) -> str:
        known = self._topic_of(number)
        if known:
            return known
        try:
            return decode_record(block).topic
        except RemoteError:
            return ""

    def read_stream(self, inner: wire.Inner) -> Sequence[TracedMessage]:
        """The messages in a frame about streams, or Kademlia's."""
        match inner:
            case wire.CarriedEvents(hops=hops, events=events):
                return self.events(DurableEvent.kind, hops, events)
            case wire.EventBatch(topic=topic) | wire.Push(topic=topic) if inner.events:
                return self.events(_STREAM_KINDS[type(inner)], -1, inner.events, topic)
        return (TracedMessage(_STREAM_KINDS[type(inner)], getattr(inner, "topic", "")),)

    def _read_system(self, inner: Any) -> Sequence[TracedMessage]:
        spec = self._frames.of_frame.get(type(inner))
        if spec is not None:
            one = TracedMessage(
                spec.message.kind, getattr(inner, "topic", ""), hops=getattr(inner, "hops", -1)
            )
            return (one,) * (len(getattr(inner, spec.joins)) if spec.joins_of else 1)
        if hasattr(inner, "is_answer"):  # else it is an exchange: see ``StatusGossip``
            return (TracedMessage(TManEcho.kind if inner.is_answer else TManProfile.kind),)
        return (TracedMessage(EXCHANGES[inner.kind].kind),)
