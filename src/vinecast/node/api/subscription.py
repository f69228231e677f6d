"""A subscription, as the application holds it: an asynchronous iterator over events.

The node never waits for a reader. What a reader does not take in time waits in a queue that is bounded in
events and in bytes; when that is full, further events are dropped and counted (``dropped``), and the reader
goes on with those that came first. Events of streams are not dropped: they lie in the store, and are read
from there later (``peer/streams/cursor``).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Self

from msgspec import Struct

from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.blocks import cid_text
from vinecast.node.api.content import SubscriptionFilter, read_values
from vinecast.peer.streams.cursor import Cursor
from vinecast.peer.topics import Pattern

WAITING_BYTES = 64 * 1024 * 1024
"""Of all events that wait for one reader (ours): ten thousand of the largest would take gigabytes."""


class Event(Struct, frozen=True, gc=False):
    """What was published. (There are many: they spare the collector of garbage, since they refer to nothing
    that could refer to them.)"""

    _signed: SignedEvent
    hops: int
    """Connections that it travelled; −1 for one that was fetched or read again."""
    offset: int = 0
    """Its place in its topic's stream on this node, from 1; 0 outside of streams."""

    @property
    def id(self) -> str:
        """Its content id, the same everywhere."""
        return cid_text(self._signed.cid)

    @property
    def topic(self) -> str:
        """Where it was published."""
        return self._signed.record.topic

    @property
    def publisher(self) -> bytes:
        """The public key of who published it."""
        return self._signed.record.publisher

    @property
    def payload(self) -> bytes:
        """What was said."""
        return self._signed.record.payload

    @property
    def values(self) -> dict[str, int | float | str]:
        """Of an event of a schema, its values by attribute, times in ISO 8601. InputError if it is none."""
        return read_values(self.payload)

    @property
    def headers(self) -> dict[str, str | bytes]:
        """What was said about it."""
        return dict(self._signed.record.headers)

    @property
    def time(self) -> datetime:
        """When, by the publisher's clock."""
        return datetime.fromtimestamp(self._signed.record.time_us / 1e6, UTC)


class Subscription:
    """Made by ``Node.subscribe``. Iterate over it; ``close`` it when done, or use it in ``async with``."""

    def __init__(
        self,
        pattern: Pattern,
        waiting: int,
        ready: Callable[["Subscription"], Awaitable[None]],
        close: Callable[["Subscription"], Awaitable[None]],
        cursor: Cursor | None = None,
        wanted: SubscriptionFilter | None = None,
    ) -> None:
        self._pattern = pattern
        self.dropped = 0
        """Events that found no room to wait."""
        self._waiting = waiting
        self._cursor = cursor
        """How far it has come in streams; None where there are none."""
        self._wanted = wanted
        """Which events of its topic it wants; None for all."""
        self._waiting_bytes = 0
        self._events: deque[Event] = deque()
        self._came = asyncio.Event()
        self._ready, self._close = ready, close
        self._closed = False

    @property
    def topic(self) -> str:
        """What was asked for."""
        return str(self._pattern)

    @property
    def waiting(self) -> int:
        """Events that have not been read."""
        return len(self._events)

    async def ready(self) -> Self:
        """Wait until events of the topic would reach this node, or nobody else is there to publish any."""
        await self._ready(self)
        return self

    async def close(self) -> None:
        """Read no more. What waits can still be read; then the iteration ends."""
        if not self._closed:
            self._end()
            await self._close(self)

    def _offer(self, event: Event) -> bool:
        """Let an event wait for the reader; whether there was room."""
        if self._closed:
            return False
        if self._wanted is not None and not self._wanted.has(event._signed):
            return True
        waiting_bytes = self._waiting_bytes + len(event._signed.block)
        if len(self._events) >= self._waiting or waiting_bytes > WAITING_BYTES:
            self.dropped += 1
            return False
        self._waiting_bytes = waiting_bytes
        if not self._events:
            self._came.set()
        self._events.append(event)
        return True

    def _read(self, signed: SignedEvent, hops: int, position: int) -> None:
        """Let an event of a stream wait for the reader, or be read later."""
        topic, cursor = signed.record.topic, self._cursor
        if self._closed or cursor is None:
            return
        has_room = len(self._events) < self._waiting and self._waiting_bytes < WAITING_BYTES
        if not has_room or not cursor.is_next(topic, position):
            cursor.fall_behind(topic)
            self._came.set()
            return
        cursor.advance(topic, position)
        if cursor.wants(signed):
            self._put(signed, hops, position)

    def _put(self, signed: SignedEvent, hops: int, position: int) -> None:
        if self._wanted is not None and not self._wanted.has(signed):
            return
        self._waiting_bytes += len(signed.block)
        self._came.set()
        self._events.append(Event(signed, hops, position))

    async def ack(self, event: Event) -> None:
        """Say that the consumer is done with an event of a stream and with all before it: after a restart it
        goes on behind that. It is written down soon; a crash before means that events come again."""
        if self._cursor is not None:
            self._cursor.ack(event.topic, event.offset)

    def _end(self) -> None:
        """No more events will come."""
        self._closed = True
        self._came.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            if self._closed:
                raise StopAsyncIteration
            if self._cursor is not None and self._cursor.is_behind:
                self._cursor.catch_up(lambda signed, position: self._put(signed, -1, position))
                if not self._events:  # nothing that is wanted: the loop has others to serve, too
                    await asyncio.sleep(0)
                continue
            self._came.clear()
            await self._came.wait()
        event = self._events.popleft()
        self._waiting_bytes -= len(event._signed.block)
        return event

    async def __aenter__(self) -> Self:
        return await self.ready()

    async def __aexit__(self, *failure: object) -> None:
        await self.close()
