"""Events outside of streams on a live node: in and out of its machine, checked once, and kept by nobody.

What is sent of the events that are handled together shares frames (``peer/wire/batcher``).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from vinecast.core.errors import RemoteError
from vinecast.core.events import Deliver, Effect, Event, Publish, Received, Send
from vinecast.core.log.batch_signature import SignatureChecker, SignedEvent, event_number, read_signed_event
from vinecast.core.log.blocks import ContentId
from vinecast.peer.limits.misbehaviour import BenignRefusal
from vinecast.peer.limits.replay_window import ReplayWindow
from vinecast.peer.routing import Routing
from vinecast.peer.table.peer_table import PeerTable
from vinecast.peer.tracing import NO_TOPIC, Tracing
from vinecast.peer.wire.batcher import Batcher, EncodedEvent
from vinecast.peer.wire.event_cache import EventCache
from vinecast.peer.wire.messages import EventFrame
from vinecast.systems.common.notices import Pull

UNKNOWN_FORM = "events in a message of another system"


class EventHost(Protocol):
    """The peer, as far as it is needed here."""

    counters: Counter[str]
    cid_of: ContentId
    """What content ids are."""
    tracing: Tracing | None

    def now_us(self) -> int:
        """The time, of a clock that never goes back."""

    def carry_out(self, effect: Effect) -> None:
        """What the node's machine asks for besides."""

    def send_frame(self, to: int, frame: bytes, things: int = 1) -> bool:
        """Send a frame; whether it will go out."""

    def refuse_topic(self, peer: bytes) -> None:
        """A peer sent an event on a topic that is not subscribed to."""


class VolatileEvents:
    """The volatile events of one node. ``deliver`` takes an event that the application subscribed to, and how
    many connections it travelled."""

    def __init__(
        self,
        host: EventHost,
        system: Routing,
        peer_table: PeerTable,
        checker: SignatureChecker,
        deliver: Callable[[SignedEvent, int], None],
    ) -> None:
        self._host, self._system, self._peer_table = host, system, peer_table
        self._event_encoding = system.event_encoding
        self._checker, self._deliver = checker, deliver
        self.replay_window = ReplayWindow()
        self._batcher = Batcher(host.send_frame)
        self._event_cache = EventCache() if system.row.pulls is not None else None

    def publish(self, hand: Iterable[SignedEvent]) -> list[int]:
        """Send events of one's own on their way; how many peers each was handed to, or told of."""
        hand, encoded_events, tracing = list(hand), [], self._host.tracing
        if tracing is not None:
            tracing.publish(hand)
        try:
            for signed in hand:
                encoded = EncodedEvent(signed.block, signed.signature.to_bytes())
                encoded_events.append(encoded)
                number = self._peer_table.topics.take(signed.record.topic)
                if number is None:
                    self._host.counters[f"dropped: {NO_TOPIC}"] += 1
                    if tracing is not None:
                        tracing.drop(signed, NO_TOPIC)
                    continue
                self._system.publishes(signed)
                try:
                    self._handle(signed, encoded, Publish(number, signed.number))
                finally:
                    self._peer_table.topics.leave(number)
        finally:
            told = self._system.release()
            self._batcher.flush()
        if told:
            return [told.get(signed.number, 0) for signed in hand]
        return [encoded.taken for encoded in encoded_events]

    def answer(self, sender: int, pulls: Sequence[Pull]) -> list[Pull]:
        """Send a peer the events that it asks for; what is left of them, since it is not at hand."""
        left = []
        for pull in pulls:
            kept = self._event_cache.get(pull.number) if self._event_cache is not None else None
            if kept is None:
                left.append(pull)
            else:
                self._handle(*kept, Received(sender, pull))
        self._batcher.flush()
        return left

    def take(self, peer: bytes, frame: EventFrame) -> None:
        """Events of a peer: what is wrong with one of them ends it, what is not wanted is left out."""
        hops, form, tracing = frame.hops, frame.form, self._host.tracing
        if form >= self._event_encoding.count:
            raise RemoteError(UNKNOWN_FORM)
        if tracing is not None:
            tracing.take_up(peer, frame)
        try:
            for block, signature in frame.events:
                if tracing is not None:
                    tracing.turn_to_next()
                try:
                    self._take_event(peer, block, signature, hops, form)
                except BenignRefusal as error:
                    self._host.counters[f"refused: {error}"] += 1
                    if tracing is not None:
                        tracing.refuse_one(str(error))
        finally:
            self._system.release()
            self._batcher.flush()

    def _take_event(self, peer: bytes, block: bytes, signature: bytes, hops: int, form: int) -> None:
        sender = self._peer_table.number_of(
            peer
        )  # nobody yet, if the event overtook the sender's introduction
        cid = self._host.cid_of(block)
        number = event_number(cid)
        if self._system.is_of_no_use(number):
            self._host.counters["events received again"] += 1
            if self._host.tracing is not None:
                self._host.tracing.note_taken(again=True)
            return
        signed = read_signed_event(block, cid, signature)
        if signed.record.height:
            raise RemoteError("event of a stream among those of none")
        topic = self._system.take_topic(signed.record.topic, form, number)
        if topic is None:
            self._host.refuse_topic(peer)
            return
        if not self._checker.holds(signed):
            raise RemoteError("forged event")
        is_new = self.replay_window.is_new(signed.record.publisher, signed.record.sequence)
        if not is_new and not self._system.may_come_again(number, topic):
            raise BenignRefusal("event replayed")
        event = Received(sender, self._event_encoding.read(form, topic, signed, hops))
        self._handle(signed, EncodedEvent(block, signature), event)

    def _handle(self, signed: SignedEvent, encoded: EncodedEvent, event: Event) -> None:
        """Handle something about one event; what is sent of it waits in the batcher."""
        form_of = self._event_encoding.form_of
        if self._event_cache is not None:
            self._event_cache.put(signed, encoded)
        for effect in self._system.handle(event, self._host.now_us()):
            match effect:
                case Send(to, message, otherwise) if (form := form_of(message)) is not None:
                    carried: Any = message
                    self._batcher.put(to, carried.hops, encoded, otherwise, form)
                case Deliver(_, _, hops):
                    self._deliver(signed, hops)
                case _:
                    self._host.carry_out(effect)
