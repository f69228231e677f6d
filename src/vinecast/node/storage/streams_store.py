"""A node's streams on disk: ``Streams``, ``StreamSink`` and ``Consumers`` of core/log/streams.

Reading never waits (``node/storage/streams_view``). Writing happens behind the node's back
(``node/storage/streams_writer``), and ``kept`` is told which events are safe. When too much waits to be
written the store is full: it says so, whoever can waits for room, and whatever comes nevertheless is refused
and counted.

Use it from one event loop. The store has no clock: times are arguments, in microseconds since the epoch.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from vinecast.core.config import check, limited
from vinecast.core.errors import BadNameError, InputError
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.event_record import topic_fault
from vinecast.core.log.memory import check_position, count_unread
from vinecast.core.log.retention import Aged, Forgotten, Retention, count_going
from vinecast.core.log.stream_buffer import size_of
from vinecast.core.log.streams import KeptEvent, check_consumer, check_number
from vinecast.node.storage.streams_batch import ExpiredEvent, WriteBatch, row_of
from vinecast.node.storage.streams_file import StreamsFile
from vinecast.node.storage.streams_view import OpenStream, StreamsView
from vinecast.node.storage.streams_writer import StreamsWriter

log = logging.getLogger("vinecast.node.streams")

FORGET_AT_ONCE = 256
"""Events that retention takes in one turn of the loop (ours)."""
REFUSED = "refused: too much waits to be written"

Kept = Callable[[tuple[bytes, ...]], object]
"""Told the content ids of events that are safe now, in the order of their keeping."""


@dataclass(frozen=True, slots=True)
class StreamStoreConfig:
    """How streams are written."""

    commit_after_s: float = limited(0.005, at_least=0)
    """How long events are collected before they are committed."""
    waiting_bytes_max: int = limited(16 * 1024 * 1024, at_least=1)
    """When events of so many bytes wait to be written, the store is full."""
    retry_s: float = limited(0.5, above=0)
    """When a commit that failed is first tried again; doubled with every further failure."""
    retry_s_max: float = limited(30.0, above=0)
    """The longest wait before a commit is tried again."""

    def __post_init__(self) -> None:
        check(self)


class StreamStore(StreamsView):
    """One node's streams. Open it with ``open``."""

    def __init__(
        self, file: StreamsFile, thread: ThreadPoolExecutor, config: StreamStoreConfig, kept: Kept
    ) -> None:
        times = (config.commit_after_s, config.retry_s, config.retry_s_max)
        super().__init__(file.reader, StreamsWriter(file, thread, *times, self._written))
        self._kept = kept
        self._waiting_max = config.waiting_bytes_max
        self._next_stream = self._reader.next_stream()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._closed = False

    @classmethod
    async def open(
        cls,
        folder: Path,
        node: bytes,
        config: StreamStoreConfig | None = None,
        kept: Kept = lambda cids: None,
    ) -> Self:
        """The streams in a folder, made if there are none; InputError when they cannot be this node's."""
        thread = ThreadPoolExecutor(1, thread_name_prefix="vinecast-streams")
        try:
            file = await asyncio.get_running_loop().run_in_executor(thread, StreamsFile, folder, node)
            return cls(file, thread, config or StreamStoreConfig(), kept)
        except BaseException:
            thread.shutdown(wait=False)
            raise

    async def close(self) -> None:
        """Write what is noted, and let go of the file. A failure is reported like any other, not raised."""
        if self._closed:
            return
        self._closed = True
        try:
            await self.durable()
        except InputError as error:
            log.error("closing with events that could not be written: %s", error)
        finally:
            self._has_room.set()
            await self._writer.close()

    async def durable(self) -> None:
        """Wait until everything up to now is committed; InputError when that failed (it is tried again)."""
        await self._writer.durable()

    @property
    def counters(self) -> Counter[str]:
        """Commits, commits failed, events committed, refused, forgotten, forgotten unread."""
        return self._writer.counters

    @property
    def trouble(self) -> str | None:
        """Why the last commit failed; None when it did not."""
        return self._writer.trouble

    @property
    def is_full(self) -> bool:
        """Whether too much waits to be written: nothing more is taken."""
        return self._writer.waiting >= self._waiting_max

    @property
    def is_crowded(self) -> bool:
        """Whether half of that waits: whoever can should wait too."""
        return self._writer.waiting >= self._waiting_max // 2

    def make_room(self) -> None:
        """See ``StreamPlace``: on disk retention does that."""

    async def room(self) -> None:
        """Wait while the store is full."""
        while self.is_full and not self._closed:
            self._has_room.clear()
            await self._has_room.wait()

    # StreamSink.

    def keep(self, events: Sequence[SignedEvent], now_us: int) -> None:
        """Keep events: readable at once, safe when ``kept`` is told. What is kept already stays as it is.
        InputError where the file cannot be read; of an event nothing is noted then, or all."""
        if self.is_full or self._closed:
            self.counters[REFUSED] += len(events)
            return
        check_number(now_us)
        try:
            for signed in events:
                if not self.position_of(signed.cid):
                    self._keep(signed, now_us)
        finally:
            self._writer.wake()

    def _keep(self, signed: SignedEvent, now_us: int) -> None:
        record, cid = signed.record, signed.cid
        stream = self._changing(record.topic)
        summary, number, noted = stream.summary, stream.number, self._writer.noted
        position = summary.last + 1
        others = [parent for parent in record.parents if parent not in summary.heads]
        lacking = [parent for parent in others if not self.height_of(record.topic, parent)]
        stream.is_ragged |= bool(lacking)
        was_forgotten = stream.is_ragged and self._forgotten_height(stream, cid) > 0
        is_followed = was_forgotten or (stream.is_ragged and self._is_lacked(stream, cid))
        for parent in record.parents:  # from here on nothing is read
            if parent in summary.heads:
                noted.heads[number, parent] = 0
        for parent in lacking:
            noted.lacking.setdefault((number, parent), []).append(position)
        if was_forgotten:
            noted.forgotten[number, cid] = 0
        summary.add(signed, is_followed)
        if cid in summary.heads:
            noted.heads[number, cid] = record.height
        row = row_of(number, position)
        noted.events[cid] = (
            row,
            number,
            record.height,
            now_us,
            cid,
            signed.block,
            signed.signature.to_bytes(),
        )
        noted.size += size_of(signed)
        self._pending[cid] = keeping = KeptEvent(position, signed)
        stream.buffer.put(keeping)

    def set_floor(self, topic: str, floor: int) -> None:
        """Do without what a stream has at or below this height."""
        check_number(floor)
        self._changing(topic).summary.floor = floor
        self._writer.wake()

    # Consumers.

    def offset(self, consumer: str, topic: str) -> int:
        """The last position that a consumer acknowledged; 0 before the first."""
        stream = self._find(topic)
        return 0 if stream is None else stream.offsets.get(consumer, 0)

    def ack(self, consumer: str, topic: str, position: int) -> None:
        """Note that a consumer is done with all up to a position; it never goes back."""
        check_consumer(consumer)
        check_position(position, self.state(topic), topic)
        if position > self.offset(consumer, topic):
            stream = self._changing(topic)
            stream.offsets[consumer] = self._writer.noted.offsets[stream.number, consumer] = position
            self._writer.wake()

    def consumers(self, topic: str) -> dict[str, int]:
        """The consumers of a stream that acknowledged something, with their offsets, by name."""
        stream = self._find(topic)
        return {} if stream is None else dict(sorted(stream.offsets.items()))

    def drop_consumer(self, consumer: str, topic: str) -> None:
        """Forget how far a consumer has come."""
        if self.offset(consumer, topic):
            stream = self._changing(topic)
            del stream.offsets[consumer]
            self._writer.noted.offsets[stream.number, consumer] = 0
            self._writer.wake()

    # Retention.

    async def keep_within(self, topic: str, retention: Retention, now_us: int) -> Forgotten | None:
        """Forget what a stream has beyond its limits; None where that is nothing. It is safe afterwards."""
        stream = self._find(topic)
        events = size = 0
        unread: Counter[str] = Counter()
        while stream is not None and not self._is_within(stream, retention, now_us):
            await self.durable()  # so that all that counts lies in the file
            going = self._over(stream, retention, now_us)
            if not going:
                break
            unread.update(self._forget(stream, going))
            events += len(going)
            size += sum(old.size for old in going)
            await self.durable()
        if stream is None or not events:
            return None
        for consumer, count in sorted(unread.items()):
            log.warning("%d events of %r went that %r had not acknowledged", count, topic, consumer)
        return Forgotten(topic, events, size, stream.summary.floor, dict(sorted(unread.items())))

    def _is_within(self, stream: OpenStream, retention: Retention, now_us: int) -> bool:
        """Whether a stream is within its limits, as far as that can be seen without waiting."""
        too_many = retention.events is not None and stream.summary.events > retention.events
        too_much = retention.bytes is not None and stream.summary.size > retention.bytes
        return not (too_many or too_much or self._over(stream, retention, now_us))

    def _over(self, stream: OpenStream, retention: Retention, now_us: int) -> list[ExpiredEvent]:
        """The oldest events that are beyond a stream's limits, some of them."""
        summary = stream.summary
        oldest: list[ExpiredEvent] = []
        for old in self._reader.oldest(stream.number, FORGET_AT_ONCE):
            if old.place[1] in self._pending:  # just committed, and not told yet
                break
            if not self._is_gone(old.place[1], old.position):
                oldest.append(old)
        ages = (Aged(old.kept_us, old.size) for old in oldest)
        return oldest[: count_going(ages, summary.events, summary.size, retention, now_us)]

    def _forget(self, stream: OpenStream, going: Sequence[ExpiredEvent]) -> dict[str, int]:
        """Events go; how many of them consumers have not read."""
        stream.is_ragged = True
        self._changing(stream.topic)
        noted, number = self._writer.noted, stream.number
        for old in going:
            height, cid = old.place
            noted.gone[cid] = old
            noted.forgotten[number, cid] = height
        size = sum(old.size for old in going)
        for cid in stream.summary.forget([old.place for old in going], size, self._first(stream)):
            noted.heads[number, cid] = 0
        unread = count_unread(stream.offsets, [old.position for old in going])
        self.counters["forgotten"] += len(going)
        self.counters["forgotten unread"] += sum(unread.values())
        return unread

    def _first(self, stream: OpenStream) -> int:
        """The lowest position of a stream that is kept."""
        going = self._going(stream)
        kept = self._reader.first_positions(stream.number, len(going) + 1)
        return next((position for position in kept if position not in going), stream.buffer.first)

    def _changing(self, topic: str) -> OpenStream:
        """A stream that is about to change, made if there is none."""
        stream = self._find(topic)
        if stream is None:
            fault = topic_fault(topic)
            if fault:
                raise BadNameError(f"{fault}, not {topic[:80]!r}")
            stream = self._streams[topic] = OpenStream(topic, self._next_stream)
            self._next_stream += 1
        self._writer.noted.streams[stream.number] = topic, stream.summary
        return stream

    def _written(self, batch: WriteBatch) -> None:
        """A batch is safe: what it holds is found in the file from now on."""
        for cid in batch.events:
            del self._pending[cid]
        for topic, _ in batch.streams.values():
            buffer = self._streams[topic].buffer
            if len(buffer):
                buffer.remove([cid for cid in batch.events if buffer.get(cid) is not None])
        if not self.is_full:
            self._has_room.set()
        if batch.events:
            self._kept(tuple(batch.events))
