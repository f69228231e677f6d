"""Streams in memory, for simulated nodes and for nodes without a folder: the plain twin of the store on disk.

Whoever owns it says when things become safe (``commit``) and when the node dies (``crash``, which undoes what
was not safe yet), so that a simulation can lose exactly what a crash may lose.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from vinecast.core.errors import InputError
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.retention import Aged, Forgotten, Retention, count_going
from vinecast.core.log.stream_buffer import (
    FORGOTTEN_MAX,
    Place,
    StreamBuffer,
    StreamSummary,
    place_of,
    size_of,
)
from vinecast.core.log.streams import EMPTY, KeptEvent, StreamState


@dataclass(slots=True)
class _Known:
    """What is known of one stream besides its events."""

    summary: StreamSummary = field(default_factory=StreamSummary)
    lacking: dict[bytes, tuple[bytes, ...]] = field(default_factory=dict)
    """The parents that were not there when an event was kept, by that event."""
    lacked: Counter[bytes] = field(default_factory=Counter)
    """How many kept events found this parent not there."""
    forgotten: dict[bytes, int] = field(default_factory=dict)
    """Heights of the last that went, in the order of their going."""

    def copy(self) -> "_Known":
        return _Known(self.summary.copy(), dict(self.lacking), Counter(self.lacked), dict(self.forgotten))


class _Stream:
    """One stream. ``safe`` is what is known that a crash does not undo, None where that is nothing at all."""

    def __init__(self) -> None:
        self.known = _Known()
        self.buffer = StreamBuffer()
        self.kept_us: dict[bytes, int] = {}
        self.safe: _Known | None = None
        self.added: dict[bytes, None] = {}
        """Kept since, in order."""
        self.taken: list[tuple[KeptEvent, int]] = []
        """Not kept any longer since then: the events, and when they were kept."""


class MemoryStreams:
    """A node's streams: ``Streams``, ``StreamSink`` and ``Consumers`` of core/log/streams."""

    def __init__(self) -> None:
        self.size = 0
        """Bytes of all events together."""
        self._streams: dict[str, _Stream] = {}
        self._topic_of: dict[bytes, str] = {}
        self._offsets: dict[tuple[str, str], int] = {}
        self._unsafe: dict[str, _Stream] = {}
        self._offsets_before: dict[tuple[str, str], int] = {}

    # What is safe.

    def commit(self) -> tuple[bytes, ...]:
        """Make all that was kept safe; what ``Kept`` tells, stream by stream in the order of keeping."""
        safe = tuple(cid for stream in self._unsafe.values() for cid in stream.added)
        for stream in self._unsafe.values():
            stream.added, stream.taken, stream.safe = {}, [], None
        self._unsafe, self._offsets_before = {}, {}
        return safe

    def crash(self) -> None:
        """Lose what was not safe."""
        for topic, stream in self._unsafe.items():
            for cid in stream.added:
                self._take(stream, cid)
            stream.buffer.remove(stream.added)
            if stream.safe is None:
                del self._streams[topic]
                continue
            for keeping, kept_us in stream.taken:
                self._put(stream, keeping, kept_us)
            stream.known = stream.safe
            stream.added, stream.taken, stream.safe = {}, [], None
        self._offsets.update(self._offsets_before)
        self._unsafe, self._offsets_before = {}, {}

    # Streams.

    def state(self, topic: str) -> StreamState:
        """A stream; EMPTY when nothing is known of it."""
        stream = self._streams.get(topic)
        return EMPTY if stream is None else stream.known.summary.state

    def weight(self, topic: str) -> int:
        """Bytes of a stream that are kept."""
        stream = self._streams.get(topic)
        return 0 if stream is None else stream.known.summary.size

    def topics(self) -> list[str]:
        """All streams that something is known of, by name."""
        return sorted(self._streams)

    def height_of(self, topic: str, cid: bytes) -> int:
        """The height of an event that is kept, is a head, or was forgotten lately; 0 for all others."""
        stream = self._streams.get(topic)
        if stream is None:
            return 0
        keeping = stream.buffer.get(cid)
        if keeping is not None:
            return keeping.signed.record.height
        return stream.known.summary.heads.get(cid) or stream.known.forgotten.get(cid, 0)

    def get(self, cid: bytes) -> SignedEvent | None:
        """An event that is kept."""
        keeping = self._find(cid)
        return None if keeping is None else keeping.signed

    def position_of(self, cid: bytes) -> int:
        """The position of an event that is kept; 0 when it is not."""
        keeping = self._find(cid)
        return 0 if keeping is None else keeping.position

    def after(self, topic: str, position: int, count: int) -> list[KeptEvent]:
        """The next events after a position, in the order of positions."""
        stream = self._streams.get(topic)
        return [] if stream is None else stream.buffer.after(position, count)

    def in_order(self, topic: str, after: Place, count: int) -> list[KeptEvent]:
        """The next events after (height, content id), in the order that all nodes share."""
        stream = self._streams.get(topic)
        return [] if stream is None else stream.buffer.in_order(after, count)

    def _find(self, cid: bytes) -> KeptEvent | None:
        topic = self._topic_of.get(cid)
        return None if topic is None else self._streams[topic].buffer.get(cid)

    # StreamSink.

    def keep(self, events: Sequence[SignedEvent], now_us: int) -> None:
        """Keep events: readable at once, safe with ``commit``. What is kept already is left as it is."""
        for signed in events:
            if signed.cid not in self._topic_of:
                self._keep(signed, now_us)

    def _keep(self, signed: SignedEvent, now_us: int) -> None:
        record, cid = signed.record, signed.cid
        stream = self._changing(record.topic)
        known = stream.known
        lacking = tuple(parent for parent in record.parents if not self.height_of(record.topic, parent))
        if lacking:
            known.lacking[cid] = lacking
            known.lacked.update(lacking)
        position = known.summary.add(signed, cid in known.forgotten or cid in known.lacked)
        known.forgotten.pop(cid, None)
        self._put(stream, KeptEvent(position, signed), now_us)
        stream.added[cid] = None

    def set_floor(self, topic: str, floor: int) -> None:
        """Do without what a stream has at or below this height."""
        self._changing(topic).known.summary.floor = floor

    def _changing(self, topic: str) -> _Stream:
        """A stream that is about to change."""
        if topic not in self._unsafe:
            if topic in self._streams:
                self._streams[topic].safe = self._streams[topic].known.copy()
            else:
                self._streams[topic] = _Stream()
            self._unsafe[topic] = self._streams[topic]
        return self._streams[topic]

    def _put(self, stream: _Stream, keeping: KeptEvent, kept_us: int) -> None:
        stream.buffer.put(keeping)
        stream.kept_us[keeping.signed.cid] = kept_us
        self._topic_of[keeping.signed.cid] = keeping.signed.record.topic
        self.size += size_of(keeping.signed)

    def _take(self, stream: _Stream, cid: bytes) -> int:
        """Let go of an event that is still in its buffer; when it was kept."""
        keeping = stream.buffer.get(cid)
        if keeping is not None:
            self.size -= size_of(keeping.signed)
        del self._topic_of[cid]
        return stream.kept_us.pop(cid)

    # Consumers.

    def offset(self, consumer: str, topic: str) -> int:
        """The last position that a consumer acknowledged; 0 before the first."""
        return self._offsets.get((consumer, topic), 0)

    def ack(self, consumer: str, topic: str, position: int) -> None:
        """Note that a consumer is done with all up to a position; it never goes back."""
        check_position(position, self.state(topic), topic)
        before = self.offset(consumer, topic)
        if position > before:
            self._offsets_before.setdefault((consumer, topic), before)
            self._offsets[consumer, topic] = position

    def consumers(self, topic: str) -> dict[str, int]:
        """The consumers of a stream that acknowledged something, with their offsets, by name."""
        found = ((name, offset) for (name, of), offset in self._offsets.items() if of == topic and offset)
        return dict(sorted(found))

    def drop_consumer(self, consumer: str, topic: str) -> None:
        """Forget how far a consumer has come."""
        before = self._offsets.pop((consumer, topic), 0)
        self._offsets_before.setdefault((consumer, topic), before)

    # Retention.

    def retain(self, topic: str, retention: Retention, now_us: int) -> Forgotten | None:
        """Forget what a stream has beyond its limits; None where that is nothing."""
        stream = self._streams.get(topic)
        if stream is None:
            return None
        summary, buffer = stream.known.summary, stream.buffer
        oldest = buffer.in_order((0, b""), len(buffer))
        ages = (Aged(stream.kept_us[event.signed.cid], size_of(event.signed)) for event in oldest)
        going = oldest[: count_going(ages, summary.events, summary.size, retention, now_us)]
        if not going:
            return None
        stream = self._changing(topic)
        for event in going:
            self._forget(stream, event)
        buffer.remove(event.signed.cid for event in going)
        forgotten = stream.known.forgotten
        for cid in list(forgotten)[: max(0, len(forgotten) - FORGOTTEN_MAX)]:
            del forgotten[cid]
        size = sum(size_of(event.signed) for event in going)
        summary.forget([place_of(event.signed) for event in going], size, buffer.first)
        unread = count_unread(self.consumers(topic), [event.position for event in going])
        return Forgotten(topic, len(going), size, summary.floor, unread)

    def _forget(self, stream: _Stream, event: KeptEvent) -> None:
        cid, known = event.signed.cid, stream.known
        kept_us = self._take(stream, cid)
        if cid in stream.added:
            del stream.added[cid]
        else:
            stream.taken.append((event, kept_us))
        known.forgotten[cid] = event.signed.record.height
        for parent in known.lacking.pop(cid, ()):
            known.lacked[parent] -= 1
            if not known.lacked[parent]:
                del known.lacked[parent]


def check_position(position: int, state: StreamState, topic: str) -> None:
    """Refuse what no consumer can have read."""
    if not 0 <= position <= state.last:
        raise InputError(f"the stream {topic!r} has positions up to {state.last}, not {position}")


def count_unread(offsets: dict[str, int], positions: Sequence[int]) -> dict[str, int]:
    """How many of these positions each consumer did not acknowledge, where it is any."""
    counts = {name: sum(position > offset for position in positions) for name, offset in offsets.items()}
    return {name: count for name, count in sorted(counts.items()) if count}
