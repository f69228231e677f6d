"""Streams of one node on disk, opened and looked at."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from vinecast.core.log.streams import StreamState
from vinecast.node.storage.streams_store import StreamStore, StreamStoreConfig

NODE, OTHER = bytes(32), bytes([1] * 32)
NOW = 1_000_000
NEVER_ALONE = StreamStoreConfig(commit_after_s=3600)
"""Commits only when asked to."""


def with_store(
    folder: Path, use: Callable[[StreamStore], Awaitable[Any]], config: StreamStoreConfig | None = None
) -> Any:
    async def main() -> Any:
        store = await StreamStore.open(folder, NODE, config)
        try:
            return await use(store)
        finally:
            await store.close()

    return asyncio.run(main())


async def look(store: StreamStore) -> StreamState:
    return store.state("t")
