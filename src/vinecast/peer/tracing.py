"""What a whole peer leaves in a trace: records of all that it publishes, sends, receives, delivers and drops.

Live and simulated peers leave the same ones by construction: they are made here, and come out as ``Traced``.
Every message that goes out leaves ``SENT``, one record a receiver and event. Every copy of an event that
comes leaves exactly one of ``RECEIVED_FIRST``, ``RECEIVED_AGAIN`` and ``DROPPED``: it is new to the node, or
it is not, or the node would not have it. A message without an event leaves a record where it comes only if
it is refused.
``DROPPED`` without a message says that an event ends here, not that a copy does.

What a broken connection loses leaves no record: nobody knows what has arrived.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from vinecast.core.events import Observe
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.trace import NamedRecord, TraceKind
from vinecast.peer.message_reader import MessageReader, TracedMessage
from vinecast.peer.streams import messages as wire
from vinecast.peer.wire.frames import HEAD_BYTES
from vinecast.peer.wire.messages import EventFrame

KNOWN_MAX = 65_536
"""Events that a peer remembers for its trace (ours): which it had, and on which topics."""

TOO_LARGE = "frame too large"
CANNOT_TAKE = "peer cannot take more"
TOO_SLOW = "subscriber too slow"
NO_TOPIC = "too many topics"
NOT_TAKEN = "not taken"
"""Why a copy is dropped that nobody refused: the machine has no use for it."""
GONE = "the node has left"


class TracedSystem(Protocol):
    """The peer's system, as far as it is needed here."""

    def message_reader(self, topic_of: Callable[[int], str]) -> MessageReader:
        """What reads the frames of this system; ``topic_of`` gives the topic of an event by number, or
        nothing."""

    def topic_named(self, number: int) -> str:
        """The name of a topic that is in use, or nothing."""


class Tracing:
    """The trace of one peer. ``records``: those left since they were last taken; the peer sets ``now_us``."""

    def __init__(self, me: bytes, system: TracedSystem) -> None:
        self.now_us = 0
        self.records: list[NamedRecord] = []
        self._me, self._system = me, system
        self._reader = system.message_reader(self._topic_of)
        self._known: OrderedDict[int, str] = OrderedDict()
        """Events that were published or received here → their topics."""
        self._read: tuple[bytes, tuple[TracedMessage, ...]] = b"", ()
        """The frame that was read last: it often goes to several."""
        self._joined: dict[str, None] = {}
        self._from = b""
        self._copies: Sequence[TracedMessage] = ()
        """The events of the frame in hand, and who sent it."""
        self._at = -1
        """Which of them is in hand."""
        self._mark = 0
        """Where its record goes: before those of what follows from it."""
        self._fate: str | None = None
        """Why it is dropped."""
        self._heard = self._again = False
        """Whether the machine took it, and whether it was here before."""

    def _topic_of(self, number: int) -> str:
        return self._known.get(number, "")

    def _note(self, number: int, topic: str) -> None:
        self._known[number] = topic
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)

    def take(self) -> tuple[NamedRecord, ...]:
        """The records since this was last asked."""
        records, self.records = tuple(self.records), []
        self._read = b"", ()
        return records

    # Events of the node's own, and those that reach its readers.

    def publish(self, hand: Iterable[SignedEvent]) -> None:
        """The application publishes."""
        for signed in hand:
            self._note(signed.number, signed.record.topic)
            self._leave(TraceKind.PUBLISHED, signed, 0)

    def deliver(self, signed: SignedEvent, hops: int) -> None:
        """An event is handed to the reader of a subscription."""
        self._leave(TraceKind.DELIVERED, signed, hops)

    def drop(self, signed: SignedEvent, reason: str, hops: int = -1) -> None:
        """An event ends here, for one of those who should have had it."""
        self._leave(TraceKind.DROPPED, signed, hops, reason)

    def _leave(self, kind: TraceKind, signed: SignedEvent, hops: int, reason: str = "") -> None:
        topic, number = signed.record.topic, signed.number
        self.records.append(NamedRecord(self.now_us, self._me, kind, b"", "", topic, number, hops, reason))

    # Who takes part in what.

    def begin(self) -> None:
        """The node is up."""
        self.records.append(NamedRecord(self.now_us, self._me, TraceKind.JOINED))

    def join(self, topics: Iterable[str]) -> None:
        """Events of these topics would reach the node now."""
        for topic in topics:
            if topic not in self._joined:
                self._joined[topic] = None
                self.records.append(NamedRecord(self.now_us, self._me, TraceKind.JOINED, topic=topic))

    def leave(self, topic: str) -> None:
        """The node leaves a topic."""
        if topic in self._joined:
            del self._joined[topic]
            self.records.append(NamedRecord(self.now_us, self._me, TraceKind.LEFT, topic=topic))

    def end(self) -> None:
        """The node leaves in good order."""
        for topic in list(self._joined):
            self.leave(topic)
        self.records.append(NamedRecord(self.now_us, self._me, TraceKind.LEFT))

    # What goes out.

    def send(self, peer: bytes, frame: bytes) -> None:
        """A frame is about to go out."""
        messages = self._messages_in(frame)
        share, rest = divmod(len(frame) + HEAD_BYTES, len(messages))
        for kind, topic, event, hops in messages:
            self.records.append(
                NamedRecord(
                    self.now_us, self._me, TraceKind.SENT, peer, kind, topic, event, hops, "", share + rest
                )
            )
            rest = 0

    def note_unsent(self, peer: bytes, frame: bytes, reason: str) -> None:
        """It does not go out after all."""
        self._drop_all(peer, self._messages_in(frame), reason)

    def _messages_in(self, frame: bytes) -> tuple[TracedMessage, ...]:
        last, messages = self._read
        if frame != last:  # not by identity: had again from a record, it is another object
            messages = self._reader.read(frame)
            self._read = frame, messages
        return messages

    def _drop_all(self, peer: bytes, messages: Iterable[TracedMessage], reason: str) -> None:
        for kind, topic, event, hops in messages:
            self.records.append(
                NamedRecord(self.now_us, self._me, TraceKind.DROPPED, peer, kind, topic, event, hops, reason)
            )

    # What comes: the events of a frame are taken up one after the other, and each is settled by the next.

    def take_up(self, peer: bytes, frame: EventFrame) -> None:
        """Events outside of streams come."""
        kind = self._reader.kind_of(frame.form)
        self._take_up(peer, self._reader.events(kind, frame.hops, frame.events))

    def take_up_stream(self, peer: bytes, frame: wire.CarriedEvents | wire.EventBatch | wire.Push) -> None:
        """Events of streams come, through the system, because they were asked for, or to be kept here."""
        self._take_up(peer, [one for one in self._reader.read_stream(frame) if one.event >= 0])

    def _take_up(self, peer: bytes, copies: Sequence[TracedMessage]) -> None:
        self._from, self._copies, self._at, self._heard = peer, copies, -1, False

    def turn_to_next(self) -> None:
        """The next event of the frame is taken in hand."""
        self._settle()
        self._at += 1
        self._mark, self._fate = len(self.records), None
        self._heard = self._again = False

    def note_taken(self, again: bool = False) -> None:
        """The event in hand is here now. again: it was here before"""
        self._heard, self._fate, self._again = True, None, self._again or again

    def refuse_one(self, reason: str) -> None:
        """The event in hand is refused; what was taken before is not."""
        if not self._heard:
            self._fate = _bare(reason)

    def blame(self, peer: bytes, reason: str) -> None:
        """A peer did what no honest node does."""
        if peer == self._from and 0 <= self._at < len(self._copies):
            self.refuse_one(reason)

    def observe(self, seen: Observe) -> None:
        """The system's machine tells what became of an event."""
        at = self._at
        is_in_hand = 0 <= at < len(self._copies) and self._copies[at].event == seen.event
        if seen.kind is TraceKind.RECEIVED_FIRST or seen.kind is TraceKind.RECEIVED_AGAIN:
            if is_in_hand:
                self.note_taken()
        elif seen.kind is TraceKind.DROPPED:
            if is_in_hand and not self._heard:
                self._fate = seen.reason
                return
            topic = self._topic_of(seen.event) or self._system.topic_named(seen.topic)
            self.records.append(
                NamedRecord(
                    self.now_us,
                    self._me,
                    TraceKind.DROPPED,
                    topic=topic,
                    event=seen.event,
                    hops=seen.hops,
                    reason=seen.reason,
                )
            )

    def close_frame(self) -> None:
        """All of a frame was handled."""
        if self._copies:
            self._settle()
            self._copies, self._at = (), -1

    def refuse_rest(self, reason: str) -> None:
        """The event in hand is refused, unless the machine has it, and so are those after it."""
        at = max(self._at, 0)
        if self._heard:
            self._settle()
            at += 1
        rest, self._copies, self._at = self._copies[at:], (), -1
        self._drop_all(self._from, rest, _bare(reason))

    def refuse_frame(self, peer: bytes, frame: bytes, reason: str) -> None:
        """A frame is refused, or what is left of it."""
        if self._copies:
            self.refuse_rest(reason)
        else:
            self._drop_all(peer, self._reader.read(frame), reason)

    def refuse_messages(self, peer: bytes, one: TracedMessage, count: int, reason: str) -> None:
        """Messages that carry no event are refused."""
        self._drop_all(peer, [one] * count, _bare(reason))

    def _settle(self) -> None:
        """Say what became of the event in hand."""
        if self._at < 0:
            return
        kind, topic, event, hops = self._copies[self._at]
        reason = self._fate if self._fate is not None else "" if self._heard else NOT_TAKEN
        became = TraceKind.DROPPED
        if not reason:
            again = self._again or event in self._known
            became = TraceKind.RECEIVED_AGAIN if again else TraceKind.RECEIVED_FIRST
            self._note(event, topic)
        record = NamedRecord(self.now_us, self._me, became, self._from, kind, topic, event, hops, reason)
        self.records.insert(self._mark, record)


def _bare(reason: str) -> str:
    """A reason as it is counted, without the word before it."""
    return reason.removeprefix("refused: ").removeprefix("dropped: ")
