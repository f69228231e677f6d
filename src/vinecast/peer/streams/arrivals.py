"""What comes of streams: events on their way, events that were asked for or are to be kept, and the messages
of gap repair. When too much waits to be written no events are taken: others still have them.
"""

from collections.abc import Callable

from vinecast.core.errors import RemoteError
from vinecast.core.events import Received
from vinecast.core.log.batch_signature import event_number, read_signed_event
from vinecast.peer.limits.misbehaviour import BenignRefusal
from vinecast.peer.limits.rate_limit import RateLimit
from vinecast.peer.routing import Routing
from vinecast.peer.streams import messages as wire
from vinecast.peer.streams.codec import read_stream
from vinecast.peer.streams.ports import StreamHost
from vinecast.peer.streams.replicas import ReplicaFinder
from vinecast.peer.volatile_events import UNKNOWN_FORM
from vinecast.protocols.streams import Follow, GapRepair, StreamEvents, StreamHeads, StreamPush
from vinecast.systems.durable.machine import DurableEvent, DurableInput

TOO_MUCH = "dropped: too much waits to be written"


class StreamArrivals:
    """The messages that come to one node's streams. ``tell`` hands the machine something, ``want_replicas``
    looks for those of a topic."""

    def __init__(
        self,
        host: StreamHost,
        system: Routing,
        repair: GapRepair,
        replicas: ReplicaFinder,
        rate_limit: RateLimit,
        tell: Callable[[DurableInput], None],
        want_replicas: Callable[[str], None],
    ) -> None:
        self._host, self._system, self._event_encoding = host, system, system.event_encoding
        self._repair, self._replicas, self._rate_limit = repair, replicas, rate_limit
        self._tell, self._want_replicas = tell, want_replicas

    def take(self, peer: bytes, sender: int, frame: wire.CarriedEvents | wire.StreamBody) -> None:
        """A message of a peer. RemoteError when it has to be refused."""
        if not isinstance(frame, wire.CarriedEvents | wire.EventBatch | wire.Push):
            self._take_stream(peer, sender, frame)
            return
        tracing = self._host.tracing
        if tracing is not None:
            tracing.take_up_stream(peer, frame)
        if not self._repair.has_room():
            self._host.counters[TOO_MUCH] += len(frame.events)
            if tracing is not None:
                tracing.refuse_rest(TOO_MUCH)
        elif isinstance(frame, wire.CarriedEvents):
            self._take_carried(peer, sender, frame)
        else:
            self._take_stream(peer, sender, frame)

    def _take_carried(self, peer: bytes, sender: int, frame: wire.CarriedEvents) -> None:
        form, tracing, knows = frame.form, self._host.tracing, self._repair.intake.knows
        if form >= self._event_encoding.count:
            raise RemoteError(UNKNOWN_FORM)
        for block, signature in frame.events:
            if tracing is not None:
                tracing.turn_to_next()
            cid = self._host.cid_of(block)
            if not frame.ack and self._system.is_of_no_use(event_number(cid)):
                self._host.counters["events received again"] += 1
                if tracing is not None:
                    tracing.note_taken(again=True)
                continue
            signed = read_signed_event(block, cid, signature)
            if not signed.record.height:
                raise RemoteError("event of no stream among those of streams")
            number = self._system.take_topic(signed.record.topic, form, signed.number)
            if number is None:
                self._host.refuse_topic(peer)
                continue
            carried = self._event_encoding.read(form, number, signed, frame.hops)
            knew = tracing is not None and knows(signed.record.topic, cid)
            self._tell(Received(sender, DurableEvent(carried, signed, frame.ack)))
            if tracing is not None and (knew or knows(signed.record.topic, cid)):
                tracing.note_taken(knew)

    def _take_events(self, sender: int, message: StreamEvents | StreamPush) -> None:
        """Events that were asked for, or are to be kept here."""
        tracing, knows = self._host.tracing, self._repair.intake.knows
        knew = [tracing is not None and knows(message.topic, signed.cid) for signed in message.events]
        self._tell(Received(sender, message))
        if tracing is not None:
            for again, signed in zip(knew, message.events, strict=True):
                tracing.turn_to_next()
                if again or knows(message.topic, signed.cid):
                    tracing.note_taken(again)

    def _take_stream(self, peer: bytes, sender: int, frame: wire.StreamBody) -> None:
        if not isinstance(frame, wire.EventBatch | wire.Push | wire.HolderAck):
            self._rate_limit.note(peer, self._host.now_us())
        message = read_stream(frame, self._host.cid_of)
        topics = self._repair.topics
        if isinstance(message, StreamPush):
            if message.topic not in topics and not self._replicas.is_near(message.topic):
                raise BenignRefusal("events to keep of a topic that is far from here")
            self._take_events(sender, message)
            self._want_replicas(message.topic)
            return
        if isinstance(message, StreamHeads):
            for told in message.told:
                topic = topics.get(told.topic)
                if topic is None and told.height and self._replicas.is_near(told.topic):
                    self._tell(Follow(told.topic, reads=False))
        if isinstance(message, StreamEvents):
            self._take_events(sender, message)
        else:
            self._tell(Received(sender, message))
