"""Several subscriptions as one feed of news for JSON: ready, event, dropped; for the command line.

Nobody who reads slowly holds the node up: a few news wait here, further events in the subscriptions' bounded
queues, and what finds no room there is counted.
"""

import asyncio
import base64
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Self

from vinecast.core.errors import InputError
from vinecast.node.api.node import Node
from vinecast.node.api.subscription import Event, Subscription
from vinecast.peer.streams.cursor import Start
from vinecast.protocols.streams import NOW

WAITING = 64  # ours: news that wait here
LOG_BYTES = 1024 * 1024  # ours: of events in one answer
REMEMBERED = 10_000  # ours: events that two subscriptions of a stream may both get

News = dict[str, Any]


def event_told(event: Event) -> News:
    """An event for JSON: the payload as ``text`` if it is UTF-8, else as ``data`` in base64."""
    told: News = {
        "id": event.id,
        "topic": event.topic,
        "publisher": event.publisher.hex(),
        "time": event.time.isoformat(),
        "hops": event.hops,
        "offset": event.offset,
        "headers": {
            key: value if isinstance(value, str) else {"data": _base64(value)}
            for key, value in event.headers.items()
        },
    }
    try:
        told["text"] = event.payload.decode()
    except UnicodeDecodeError:
        told["data"] = _base64(event.payload)
    return told


def log_told(events: Iterable[Event]) -> list[News]:
    """Events of a stream for JSON, as many as one line should hold; one at least, if there is any."""
    told: list[News] = []
    size = 0
    for event in events:
        size += len(event._signed.block)
        if told and size > LOG_BYTES:
            break
        told.append({**event_told(event), "height": event._signed.record.height})
    return told


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


class EventFeed:
    """Open it in the node's loop, call ``next`` until it gives None, and ``close`` it."""

    def __init__(self, subscriptions: list[Subscription]) -> None:
        self.subscriptions = subscriptions
        self._news: asyncio.Queue[News | None] = asyncio.Queue(WAITING)
        self._passed_on: dict[bytes, None] = {}
        self._tasks = [asyncio.create_task(self._pass_all_on()), asyncio.create_task(self._say_when_ready())]

    @classmethod
    async def open(
        cls, node: Node, topics: Iterable[str], start: Start = NOW, consumer: str | None = None
    ) -> Self:
        """Subscribe to all of these topics and patterns, or, with an InputError, to none."""
        subscriptions: list[Subscription] = []
        try:
            for topic in dict.fromkeys(topics):
                one = node.subscribe(topic, start, consumer)
                subscriptions.append(one)
        except BaseException:
            for subscription in subscriptions:
                await subscription.close()
            raise
        return cls(subscriptions)

    @property
    def topics(self) -> list[str]:
        """What was subscribed to."""
        return [subscription.topic for subscription in self.subscriptions]

    def ack(self, topic: str, offset: int) -> None:
        """The consumer is done with an event that was passed on, and with all before it."""
        self.subscriptions[0]._ack(topic, offset)

    async def next(self) -> News | None:
        """What is new; None when nothing will be any more."""
        return await self._news.get()

    async def close(self) -> None:
        """Leave the topics."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for subscription in self.subscriptions:
            await subscription.close()

    async def _pass_all_on(self) -> None:
        async with asyncio.TaskGroup() as group:
            for subscription in self.subscriptions:
                group.create_task(self._pass_on(subscription))
        await self._news.put(None)

    async def _pass_on(self, subscription: Subscription) -> None:
        """Pass on what one subscription gets, unless another one of the same stream had it before."""
        dropped = 0
        async for event in subscription:
            if len(self.subscriptions) > 1 and self._had(event):
                continue
            await self._news.put({"event": event_told(event)})
            if subscription.dropped > dropped:
                dropped = subscription.dropped
                await self._news.put({"dropped": sum(one.dropped for one in self.subscriptions)})

    def _had(self, event: Event) -> bool:
        """Whether an event was passed on lately; now it was."""
        digest = event._signed.digest
        if digest in self._passed_on:
            return True
        self._passed_on[digest] = None
        if len(self._passed_on) > REMEMBERED:
            del self._passed_on[next(iter(self._passed_on))]
        return False

    async def _say_when_ready(self) -> None:
        with suppress(InputError):  # the node was closed before
            for subscription in self.subscriptions:
                await subscription.ready()
            await self._news.put({"ready": True})
