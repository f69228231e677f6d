"""Streams in memory, for simulated nodes and for nodes without a folder: the plain twin of the store on disk.

Whoever owns it says when things become safe (``commit``) and when the node dies (``crash``, which undoes what
was not safe yet), so that a simulation can lose exactly what a crash may lose. A commit that takes its time
covers what was there when its batch was closed (``close_batch``): what changes until it ends waits for the
next one.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

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
from vinecast.core.log.streams import EMPTY, KeptEvent, StreamState, check_consumer, check_number


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


@dataclass(slots=True)
class _Undo:
    """How one stream was before a batch changed it. ``known``: None where nothing was known of it."""

    known: _Known | None
    added: dict[bytes, None] = field(default_factory=dict)
    """Kept since, in order."""
    taken: list[tuple[KeptEvent, int]] = field(default_factory=list)
    """Not kept any longer since then: the events, and when they were kept."""


@dataclass(slots=True)
class _Batch:
    """What becomes safe together, as what a crash undoes."""

    streams: dict[str, _Undo] = field(default_factory=dict)
    offsets: dict[tuple[str, str], int] = field(default_factory=dict)
    """How far consumers were before."""


class _Stream:
    """One stream, whatever of it is safe."""

    def __init__(self) -> None:
        self.known = _Known()
        self.buffer = StreamBuffer()
        self.kept_us: dict[bytes, int] = {}


class MemoryStreams:
    """A node's streams: ``Streams``, ``StreamSink`` and ``Consumers`` of core/log/streams."""

    def __init__(self) -> None:
        self.size = 0
        """Bytes of all events together."""
        self._streams: dict[str, _Stream] = {}
        self._topic_of: dict[bytes, str] = {}
        self._offsets: dict[tuple[str, str], int] = {}
        self._noted = _Batch()
        """What was changed since the last batch was closed."""
        self._flying: _Batch | None = None
        """The batch that was closed and is not safe yet."""

    # What is safe.

    def close_batch(self) -> None:
        """A commit begins: it covers what was changed up to now. One that has begun already goes on."""
        if self._flying is None:
            self._flying, self._noted = self._noted, _Batch()

    def commit(self) -> tuple[bytes, ...]:
        """Make the batch that was closed safe, all up to now where none was; what ``Kept`` tells, stream by
        stream in the order of keeping."""
        self.close_batch()
        assert self._flying is not None
        batch, self._flying = self._flying, None
        added = (cid for undo in batch.streams.values() for cid in undo.added)
        return tuple(cid for cid in added if cid in self._topic_of)

    def is_unsafe(self, cid: bytes) -> bool:
        """Whether an event was kept, and no commit that covers it is over."""
        topic = self._topic_of.get(cid)
        if topic is None:
            return False
        undos = (batch.streams.get(topic) for batch in self._unsafe())
        return any(undo is not None and cid in undo.added for undo in undos)

    def crash(self) -> None:
        """Lose what was not safe, the last first."""
        for batch in self._unsafe():
            for topic, undo in batch.streams.items():
                self._undo(topic, undo)
            self._offsets.update(batch.offsets)
        self._noted, self._flying = _Batch(), None

    def _unsafe(self) -> tuple[_Batch, ...]:
        return (self._noted,) if self._flying is None else (self._noted, self._flying)

    def _undo(self, topic: str, undo: _Undo) -> None:
        stream = self._streams[topic]
        for cid in undo.added:
            self._take(stream, cid)
        stream.buffer.remove(undo.added)
        if undo.known is None:
            del self._streams[topic]
            return
        for keeping, kept_us in undo.taken:
            self._put(stream, keeping, kept_us)
        stream.known = undo.known

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
        self._noted.streams[record.topic].added[cid] = None

    def set_floor(self, topic: str, floor: int) -> None:
        """Do without what a stream has at or below this height."""
        check_number(floor)
        self._changing(topic).known.summary.floor = floor

    def _changing(self, topic: str) -> _Stream:
        """A stream that is about to change."""
        if topic not in self._noted.streams:
            before = self._streams.get(topic)
            if before is None:
                self._streams[topic] = _Stream()
            self._noted.streams[topic] = _Undo(None if before is None else before.known.copy())
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
        check_consumer(consumer)
        check_position(position, self.state(topic), topic)
        before = self.offset(consumer, topic)
        if position > before:
            self._noted.offsets.setdefault((consumer, topic), before)
            self._offsets[consumer, topic] = position

    def consumers(self, topic: str) -> dict[str, int]:
        """The consumers of a stream that acknowledged something, with their offsets, by name."""
        found = ((name, offset) for (name, of), offset in self._offsets.items() if of == topic and offset)
        return dict(sorted(found))

    def drop_consumer(self, consumer: str, topic: str) -> None:
        """Forget how far a consumer has come."""
        before = self._offsets.pop((consumer, topic), 0)
        self._noted.offsets.setdefault((consumer, topic), before)

    # Retention.

    def retain(self, topic: str, retention: Retention, now_us: int) -> Forgotten | None:
        """Forget what a stream has beyond its limits, up to the first event that must stay; None where that
        is nothing."""
        stream = self._streams.get(topic)
        if stream is None:
            return None
        summary, buffer = stream.known.summary, stream.buffer
        in_order = buffer.in_order((0, b""), len(buffer))
        oldest = list(takewhile(lambda event: self._may_go(event.signed.cid), in_order))
        ages = (Aged(stream.kept_us[event.signed.cid], size_of(event.signed)) for event in oldest)
        going = oldest[: count_going(ages, summary.events, summary.size, retention, now_us)]
        if not going:
            return None
        stream = self._changing(topic)
        for event in going:
            self._forget(topic, stream, event)
        buffer.remove(event.signed.cid for event in going)
        forgotten = stream.known.forgotten
        for cid in list(forgotten)[: max(0, len(forgotten) - FORGOTTEN_MAX)]:
            del forgotten[cid]
        size = sum(size_of(event.signed) for event in going)
        summary.forget([place_of(event.signed) for event in going], size, buffer.first)
        unread = count_unread(self.consumers(topic), [event.position for event in going])
        return Forgotten(topic, len(going), size, summary.floor, unread)

    def _may_go(self, cid: bytes) -> bool:
        """Whether retention may take an event."""
        return True

    def _forget(self, topic: str, stream: _Stream, event: KeptEvent) -> None:
        cid, known, undo = event.signed.cid, stream.known, self._noted.streams[topic]
        kept_us = self._take(stream, cid)
        if cid in undo.added:
            del undo.added[cid]
        else:
            undo.taken.append((event, kept_us))
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
