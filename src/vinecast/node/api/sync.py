"""A node for scripts and notebooks: the same as ``Node``, without ``await``.

    with SyncNode(join=["host:7000"]) as node:
        subscription = node.subscribe("sports/tennis").ready()
        node.publish("sports/tennis", "15:0")
        for event in subscription:
            print(event.payload)

The node runs in a thread of its own, with its own event loop, whatever the caller does meanwhile. Calls may
come from any thread but that one.
"""

import asyncio
import concurrent.futures
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from vinecast.core.content.schemas import Schema
from vinecast.core.errors import ClosedError, InputError, NotStartedError, TimedOutError
from vinecast.node.api.content import FilterLike, Values
from vinecast.node.api.node import Node, PeerInfo
from vinecast.node.api.subscription import Event, Subscription
from vinecast.node.runtime.config import NodeConfig
from vinecast.node.runtime.loop import new_event_loop
from vinecast.peer.receipt import Receipt
from vinecast.peer.streams.cursor import Start
from vinecast.protocols.streams import NOW

T = TypeVar("T")

_AT_ONCE = 256  # ours: events that cross from one thread to the other together


class SyncNode:
    """See the module's text; the parameters are those of ``Node``."""

    def __init__(
        self,
        listen: str = "127.0.0.1:0",
        join: Iterable[str] = (),
        folder: str | Path | None = None,
        network: str = "default",
        config: NodeConfig | None = None,
        *,
        advertise: str | None = None,
    ) -> None:
        self.node = Node(listen, join, folder, network, config, advertise=advertise)
        """The node itself; only for use in its own thread (``do``)."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> Self:
        """Come up, and begin to look for others."""
        if self._loop is not None:
            fault = InputError if self._thread is not None and self._thread.is_alive() else ClosedError
            raise fault("a node starts once; make another one to come back")
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._live, name="vinecast-node", daemon=True)
        self._thread.start()
        try:
            self.do(self.node.start)
        except BaseException:
            self._end()
            raise
        return self

    def close(self) -> None:
        """Take leave of the others, and let go of everything."""
        if self._loop is not None and self._thread is not None and self._thread.is_alive():
            try:
                self.do(self.node.close)
            finally:
                self._end()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *failure: object) -> None:
        self.close()

    @property
    def id(self) -> bytes:
        """The node's id: the hash of its public key."""
        return self.node.id

    @property
    def address(self) -> str:
        """Where others reach it."""
        return self.ask(lambda: self.node.address)

    def topics(self) -> list[str]:
        """What it subscribes to."""
        return self.ask(self.node.topics)

    def known_topics(self) -> list[str]:
        """All topics that it or a peer that it knows subscribes to."""
        return self.ask(self.node.known_topics)

    def peers(self) -> list[PeerInfo]:
        """Whom it knows."""
        return self.ask(self.node.peers)

    def stats(self) -> dict[str, Any]:
        """The node in numbers."""
        return self.ask(self.node.stats)

    def publish(
        self,
        topic: str | Schema,
        payload: bytes | str | Values,
        headers: Mapping[str, str | bytes] | None = None,
        durable: bool = True,
    ) -> Receipt:
        """Publish an event; see ``Node.publish``."""
        return self.do(lambda: self.node.publish(topic, payload, headers, durable))

    def publish_all(
        self,
        topic: str | Schema,
        payloads: Iterable[bytes | str | Values],
        headers: Mapping[str, str | bytes] | None = None,
        durable: bool = True,
    ) -> list[Receipt]:
        """Publish many events of a topic at once, which is much faster than one by one."""
        return self.do(lambda: self.node.publish_all(topic, payloads, headers, durable))

    def subscribe(
        self, topic: str | Schema, start: Start = NOW, consumer: str | None = None, filter: FilterLike = None
    ) -> "SyncSubscription":
        """Read a topic, all that fit a pattern and that the node knows, or the events of a schema that match
        a filter; see ``Node.subscribe``."""
        return SyncSubscription(self, self.ask(lambda: self.node.subscribe(topic, start, consumer, filter)))

    def log(self, topic: str, after: str | None = None, count: int = 100) -> list[Event]:
        """What the node keeps of a topic's stream, in the order that all nodes share."""
        return self.ask(lambda: self.node.log(topic, after, count))

    def caught_up(self, topic: str) -> None:
        """Wait until the node has all of a topic's stream that others tell of."""
        self.do(lambda: self.node.caught_up(topic))

    def unsubscribe(self, topic: str) -> None:
        """Leave a topic, whoever reads it."""
        self.do(lambda: self.node.unsubscribe(topic))

    def ask(self, what: Callable[[], T]) -> T:
        """Call something in the node's own thread."""

        async def call() -> T:
            return what()

        return self.do(call)

    def do(self, what: Callable[[], Coroutine[Any, Any, T]], timeout_s: float | None = None) -> T:
        """Await something in the node's own thread; TimedOutError when that takes too long."""
        if self._loop is None:
            raise NotStartedError("the node has not been started: use it in 'with', or call start()")
        if self._thread is None or not self._thread.is_alive():
            raise ClosedError("the node is closed: make another one to go on")
        if self._thread is threading.current_thread():
            raise InputError("the node's own thread cannot wait for itself")
        future = asyncio.run_coroutine_threadsafe(what(), self._loop)
        try:
            return future.result(timeout_s)
        except TimeoutError as error:
            future.cancel()
            if timeout_s is None or isinstance(error, TimedOutError):
                raise
            raise TimedOutError(
                f"the node was not done within {timeout_s:g} s: wait longer, or try again"
            ) from None
        except (concurrent.futures.CancelledError, asyncio.CancelledError):
            raise ClosedError("the node is closed: make another one to go on") from None
        except BaseException:  # Ctrl-C while waiting: do not go on behind the caller's back
            future.cancel()
            raise

    def _live(self) -> None:
        loop = self._loop
        assert loop is not None
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    def _end(self) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


class SyncSubscription:
    """Made by ``SyncNode.subscribe``. Iterate over it; ``close`` it when done, or use it in ``with``."""

    def __init__(self, node: SyncNode, subscription: Subscription) -> None:
        self._node, self._subscription = node, subscription
        self._here: deque[Event] = deque()

    @property
    def topic(self) -> str:
        """What was asked for."""
        return self._subscription.topic

    @property
    def dropped(self) -> int:
        """Events that found no room to wait."""
        return self._subscription.dropped

    @property
    def waiting(self) -> int:
        """Events that have not been read."""
        return len(self._here) + self._subscription.waiting

    def ready(self, timeout_s: float | None = None) -> Self:
        """Wait until events of the topic would reach this node, or nobody else is there to publish any."""
        self._node.do(self._subscription.ready, timeout_s)
        return self

    def next(self, timeout_s: float | None = None) -> Event:
        """The next event. TimedOutError when none comes in time; StopIteration when none will come."""
        if not self._here:
            with contextlib.suppress(ClosedError):
                self._here.extend(self._node.do(self._take, timeout_s))
        if not self._here:
            raise StopIteration
        return self._here.popleft()

    def ack(self, event: Event) -> None:
        """Say that the consumer is done with an event and all before it."""
        self._node.do(lambda: self._subscription.ack(event))

    def close(self) -> None:
        """Read no more. What waits can still be read; then the iteration ends."""
        self._node.do(self._subscription.close)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        return self.next()

    def __enter__(self) -> Self:
        return self.ready()

    def __exit__(self, *failure: object) -> None:
        self.close()

    async def _take(self) -> list[Event]:
        """Wait for an event and take those that came with it; none when the subscription has ended."""
        taken = []
        async for event in self._subscription:
            taken.append(event)
            if len(taken) >= _AT_ONCE or not self._subscription.waiting:
                break
        return taken
