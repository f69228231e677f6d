"""The streams of a node without a folder: as ``node/storage/streams_store``, but in memory, and gone when it
ends.

What is kept counts as safe in the next turn of the loop. There is no disk to wait for: the store is full when
it holds as many bytes as it may, until retention makes room, or whoever owns it thins it out.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence

from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.memory import MemoryStreams
from vinecast.core.log.retention import Forgotten, Retention
from vinecast.node.storage.streams_store import REFUSED, Kept

BYTES_MAX = 64 * 1024 * 1024
"""Of all streams of a node without a folder (ours)."""


class VolatileStreams(MemoryStreams):
    """A node's streams while it runs. Use it from one event loop."""

    def __init__(self, kept: Kept = lambda cids: None, bytes_max: int = BYTES_MAX) -> None:
        super().__init__()
        self.counters: Counter[str] = Counter()
        """Commits, events committed, refused, forgotten, forgotten unread."""
        self.trouble: str | None = None
        self._kept, self._bytes_max = kept, bytes_max
        self._soon: asyncio.Handle | None = None
        self._has_room = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether nothing more is taken."""
        return self.size >= self._bytes_max

    @property
    def is_crowded(self) -> bool:
        """Whether it should be thinned out."""
        return 4 * self.size >= 3 * self._bytes_max

    def make_room(self) -> None:
        """Where it is crowded, forget the oldest half of the largest stream, and again, until half of all
        room is free."""
        if not self.is_crowded:
            return
        self._commit()
        while 2 * self.size > self._bytes_max:
            topic = max(self.topics(), key=lambda topic: (self.weight(topic), topic))
            told = self.retain(topic, Retention(bytes=max(1, self.weight(topic) // 2)), 0)
            if told is None:
                break
            self._count(told)
        self.commit()

    async def room(self) -> None:
        """Wait while the store is full."""
        while self.is_full:
            self._has_room.clear()
            await self._has_room.wait()

    def keep(self, events: Sequence[SignedEvent], now_us: int) -> None:
        """Keep events: readable at once. What is kept already stays as it is."""
        if self.is_full:
            self.counters[REFUSED] += len(events)
            return
        super().keep(events, now_us)
        if self._soon is None:
            self._soon = asyncio.get_running_loop().call_soon(self._commit)

    async def durable(self) -> None:
        """All up to now counts as safe."""
        self._commit()

    async def keep_within(self, topic: str, retention: Retention, now_us: int) -> Forgotten | None:
        """Forget what a stream has beyond its limits; None where that is nothing."""
        self._commit()
        told = self.retain(topic, retention, now_us)
        if told is not None:
            self.commit()
            self._count(told)
        return told

    def _count(self, told: Forgotten) -> None:
        self.counters["forgotten"] += told.events
        self.counters["forgotten unread"] += sum(told.unread.values())
        self._has_room.set()

    async def close(self) -> None:
        """Tell what was kept, and that is all."""
        self._commit()
        self._has_room.set()

    def _commit(self) -> None:
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        cids = self.commit()
        if cids:
            self.counters["commits"] += 1
            self.counters["events"] += len(cids)
            self._kept(cids)
