"""A subscription, as the application holds it: an asynchronous iterator over events.

The node never waits for a reader. What a reader does not take in time waits in a queue that the peer keeps
within its bounds (``peer/subscriptions``): the reader says what it took. What found no room is counted
(``dropped``).
"""

import asyncio
from collections import deque
from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime
from typing import Any, Protocol, Self

from msgspec import Struct

from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.blocks import cid_text
from vinecast.node.runtime.driver import EventSink
from vinecast.peer import inputs as given
from vinecast.peer.content import read_values
from vinecast.peer.outputs import DeliverEvent

TOLD_AFTER, TOLD_AFTER_BYTES = 128, 256 * 1024
"""Events, and bytes of them, that a reader takes before it tells so (ours)."""


class SubscriptionHost(Protocol):
    """The driver, as far as it is needed here."""

    @property
    def sinks(self) -> MutableMapping[int, EventSink]:
        """The subscriptions by number."""

    def feed(self, what: given.PeerCommand) -> None:
        """Hand the peer something."""

    def request(self, make: Callable[[int], given.PeerCommand]) -> asyncio.Future[Any]:
        """Hand the peer a request, made from its number; its answer."""

    async def ask(self, make: Callable[[int], given.PeerCommand]) -> Any:
        """Hand the peer a request, and wait for its answer."""


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

    def __init__(self, driver: SubscriptionHost, number: int, topic: str, waiting: int) -> None:
        self._driver, self._number = driver, number
        self.topic = topic
        """What was asked for."""
        self.dropped = 0
        """Events that found no room to wait."""
        self._told_after = max(1, min(TOLD_AFTER, waiting // 4))
        self._taken = self._taken_bytes = 0
        """Read, and not told the peer yet."""
        self._events: deque[Event] = deque()
        self._failure: Exception | None = None
        self._came = asyncio.Event()
        self._closed = False

    @property
    def waiting(self) -> int:
        """Events that have not been read."""
        return len(self._events)

    async def ready(self) -> Self:
        """Wait until events of the topic would reach this node, or nobody else is there to publish any."""
        await self._driver.ask(lambda request: given.AwaitReady(request, self._number))
        return self

    async def close(self) -> None:
        """Read no more. What waits can still be read; then the iteration ends."""
        if not self._closed:
            self.end()
            self._driver.sinks.pop(self._number, None)
            self._driver.feed(given.CloseSubscription(self._number))

    async def ack(self, event: Event) -> None:
        """Say that the consumer is done with an event of a stream and with all before it: after a restart it
        goes on behind that. It is written down soon; a crash before means that events come again."""
        self._ack(event.topic, event.offset)

    def _ack(self, topic: str, offset: int) -> None:
        self._driver.request(lambda request: given.AckPosition(request, self._number, topic, offset)).result()

    def offer(self, event: DeliverEvent) -> None:
        """Let an event wait for the reader."""
        if not self._events:
            self._came.set()
        self._events.append(Event(event.signed, event.hops, event.position))

    def fail(self, error: Exception) -> None:
        """What comes next cannot be read."""
        self._failure = error
        self._came.set()

    def end(self) -> None:
        """No more events will come."""
        self._closed = True
        self._came.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                self._tell()
                raise failure
            if self._closed:
                raise StopAsyncIteration
            self._came.clear()
            await self._came.wait()
        event = self._events.popleft()
        self._taken += 1
        self._taken_bytes += len(event._signed.block)
        if self._taken >= self._told_after or self._taken_bytes >= TOLD_AFTER_BYTES:
            self._tell()
        return event

    def _tell(self) -> None:
        """Tell the peer what was read: there is room for more."""
        taken, size, self._taken, self._taken_bytes = self._taken, self._taken_bytes, 0, 0
        if not self._closed:
            self._driver.feed(given.EventsTaken(self._number, taken, size))

    async def __aenter__(self) -> Self:
        return await self.ready()

    async def __aexit__(self, *failure: object) -> None:
        await self.close()
