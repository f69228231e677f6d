"""Keeping all streams of a node within their limits, one after the other, for as long as it runs."""

import asyncio
import logging
from collections.abc import Callable

from vinecast.core.errors import InputError
from vinecast.core.log.retention import Retention
from vinecast.node.storage.memory_streams import VolatileStreams
from vinecast.node.storage.streams_store import StreamStore

log = logging.getLogger("vinecast.node.streams")

EVERY_S = 10.0
"""Between two rounds, in seconds (ours): by how much a stream may be older than it should."""


class Retainer:
    """Runs beside a node. ``limits_of``: a stream's limits by its topic; ``clock``: microseconds since the
    epoch."""

    def __init__(
        self,
        store: StreamStore | VolatileStreams,
        limits_of: Callable[[str], Retention],
        clock: Callable[[], int],
        every_s: float | None = None,
    ) -> None:
        self._store, self._limits_of, self._clock = store, limits_of, clock
        self._every_s = EVERY_S if every_s is None else every_s

    async def run(self) -> None:
        """Go round until cancelled."""
        while True:
            await self.round()
            await asyncio.sleep(self._every_s)

    async def round(self) -> int:
        """Look at every stream once; how many events went. What fails is tried again in the next round."""
        went = 0
        try:
            topics = self._store.topics()
        except InputError as error:
            log.warning("no stream is kept within its limits: %s", error)
            return 0
        for topic in topics:
            try:
                told = await self._store.keep_within(topic, self._limits_of(topic), self._clock())
                went += told.events if told else 0
            except InputError as error:
                log.warning("the stream %r is not kept within its limits: %s", topic, error)
            await asyncio.sleep(0)
        return went
