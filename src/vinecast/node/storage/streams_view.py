"""Reading a node's streams: what is noted but not committed yet is in memory and found first, everything else
is read from the file when it is asked for.

Of a stream in use, what is small and always needed stays in memory: its state and its consumers' offsets. A
commit shows in the file a little before the writer is told of it, so an event may be found in both places.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.event_record import NUMBER_MAX, topic_fault
from vinecast.core.log.stream_buffer import Place, StreamBuffer, StreamSummary, place_of
from vinecast.core.log.streams import EMPTY, KeptEvent, StreamState
from vinecast.node.storage.streams_batch import POSITION_BITS, WriteBatch, position_in, row_of
from vinecast.node.storage.streams_reader import StreamsReader
from vinecast.node.storage.streams_writer import StreamsWriter


@dataclass(slots=True)
class OpenStream:
    """A stream that is read or written, with what is known of it in memory."""

    topic: str
    number: int
    summary: StreamSummary = field(default_factory=StreamSummary)
    offsets: dict[str, int] = field(default_factory=dict)
    is_ragged: bool = False
    """Whether something is forgotten or lacking."""
    buffer: StreamBuffer = field(default_factory=StreamBuffer)
    """Events that are not committed yet."""


class StreamsView:
    """``Streams`` of core/log/streams over a file and what waits to be written to it."""

    def __init__(self, reader: StreamsReader, writer: StreamsWriter) -> None:
        self._reader, self._writer = reader, writer
        self._streams: dict[str, OpenStream] = {}
        self._pending: dict[bytes, KeptEvent] = {}

    def state(self, topic: str) -> StreamState:
        """A stream; EMPTY when nothing is known of it."""
        stream = self._find(topic)
        return EMPTY if stream is None else stream.summary.state

    def weight(self, topic: str) -> int:
        """Bytes of a stream that are kept."""
        stream = self._find(topic)
        return 0 if stream is None else stream.summary.size

    def topics(self) -> list[str]:
        """All streams that something is known of, by name."""
        return sorted({*self._reader.topics(), *self._streams})

    def height_of(self, topic: str, cid: bytes) -> int:
        """The height of an event that is kept, is a head, or was forgotten lately; 0 for all others."""
        stream = self._find(topic)
        if stream is None:
            return 0
        keeping = stream.buffer.get(cid)
        if keeping is not None:
            return keeping.signed.record.height
        height = stream.summary.heads.get(cid)
        if height:
            return height
        row, height = self._locate(cid)
        return height if row >> POSITION_BITS == stream.number else self._forgotten_height(stream, cid)

    def get(self, cid: bytes) -> SignedEvent | None:
        """An event that is kept."""
        keeping = self._pending.get(cid) or self._reader.get(cid)
        return None if keeping is None or self._is_gone(cid, keeping.position) else keeping.signed

    def position_of(self, cid: bytes) -> int:
        """The position of an event that is kept; 0 when it is not."""
        keeping = self._pending.get(cid)
        return position_in(self._locate(cid)[0]) if keeping is None else keeping.position

    def after(self, topic: str, position: int, count: int) -> list[KeptEvent]:
        """The next events after a position, in the order of positions."""
        stream = self._find(topic)
        if stream is None or position >= stream.summary.last or count <= 0:
            return []
        position, going = max(position, 0), self._going(stream)
        found = self._reader.after(row_of(stream.number, position), count + len(going))
        if len(found) < count + len(going):  # else there is more in the file, before what is not committed
            found += stream.buffer.after(found[-1].position if found else position, count)
        return [one for one in found if one.position not in going][:count] if going else found[:count]

    def in_order(self, topic: str, after: Place, count: int) -> list[KeptEvent]:
        """The next events after (height, content id), in the order that all nodes share."""
        stream = self._find(topic)
        if stream is None or after[0] > NUMBER_MAX or count <= 0:
            return []
        going = self._going(stream)
        found = self._reader.in_order(stream.number, after, count + len(going))
        pending = stream.buffer.in_order(after, count)
        if going or pending:
            both = {place_of(one.signed): one for one in found if one.position not in going}
            both.update((place_of(one.signed), one) for one in pending)
            found = [both[place] for place in sorted(both)]
        return found[:count]

    # What is in memory, and what is not.

    def _find(self, topic: str) -> OpenStream | None:
        stream = self._streams.get(topic)
        if stream is None and not topic_fault(topic):
            found = self._reader.find(topic)
            if found is not None:
                stream = self._streams[topic] = OpenStream(topic, *found)
        return stream

    def _batches(self) -> Iterator[WriteBatch]:
        """What is not committed yet, the latest first."""
        yield self._writer.noted
        if self._writer.flying is not None:
            yield self._writer.flying

    def _is_gone(self, cid: bytes, position: int) -> bool:
        """Whether an event lies in the file only until the next commit."""
        return any(cid in batch.gone and batch.gone[cid].position == position for batch in self._batches())

    def _going(self, stream: OpenStream) -> set[int]:
        """The positions of all such events of a stream."""
        gone = (old for batch in self._batches() for old in batch.gone.values())
        return {old.position for old in gone if old.stream == stream.number}

    def _locate(self, cid: bytes) -> tuple[int, int]:
        """The row and the height of an event that lies in the file and stays; zeros where there is none."""
        row, height = self._reader.locate(cid)
        return (0, 0) if row and self._is_gone(cid, position_in(row)) else (row, height)

    def _forgotten_height(self, stream: OpenStream, cid: bytes) -> int:
        for batch in self._batches():
            height = batch.forgotten.get((stream.number, cid))
            if height is not None:
                return height
        return self._reader.forgotten_height(stream.number, cid) if stream.is_ragged else 0

    def _is_lacked(self, stream: OpenStream, parent: bytes) -> bool:
        key = stream.number, parent
        return any(key in batch.lacking for batch in self._batches()) or self._reader.is_lacked(*key)
