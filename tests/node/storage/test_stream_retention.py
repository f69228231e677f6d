"""Streams of nodes without a folder, and keeping all of a node's streams within their limits."""

import asyncio
from pathlib import Path

import pytest

from support.node.stream_store import with_store
from support.stream_events import chain, event
from vinecast.core.errors import InputError
from vinecast.core.log.retention import Retention
from vinecast.core.log.stream_buffer import size_of
from vinecast.core.log.streams import StreamState
from vinecast.node.storage.memory_streams import VolatileStreams
from vinecast.node.storage.retention import Retainer
from vinecast.node.storage.streams_store import REFUSED, StreamStore, StreamStoreConfig

NOW = 1_000_000


def limits_of(topic: str) -> Retention:
    return Retention(events=3) if topic == "short" else Retention(events=1000)


@pytest.mark.parametrize("on_disk", [True, False])
def test_every_stream_is_kept_within_its_own_limits(tmp_path: Path, on_disk: bool) -> None:
    async def main() -> None:
        store = await StreamStore.open(tmp_path, bytes(32)) if on_disk else VolatileStreams()
        retainer = Retainer(store, limits_of, lambda: NOW, every_s=0.001)
        for topic in ("short", "long"):
            store.keep(chain(10, topic=topic), NOW)
        store.ack("slow", "short", 2)
        assert await retainer.round() == 7
        assert await retainer.round() == 0
        assert store.counters["forgotten unread"] == 5
        task = asyncio.create_task(retainer.run())
        store.keep(chain(20, topic="short", say=b"more"), NOW)
        async with asyncio.timeout(30):
            while store.counters["forgotten"] < 27:
                await asyncio.sleep(0)
        task.cancel()
        assert len(store.after("short", 0, 99)) == 3
        assert len(store.after("long", 0, 99)) == 10
        await store.close()

    asyncio.run(main())


def test_retention_goes_on_after_a_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        config = StreamStoreConfig(retry_s=0.001, retry_s_max=0.01)
        store = await StreamStore.open(tmp_path, bytes(32), config)
        store.keep(chain(100, topic="short", say=bytes(1000)), NOW)
        await store.durable()
        disk = store._writer._file._database
        disk.execute("PRAGMA query_only = ON")
        task = asyncio.create_task(Retainer(store, limits_of, lambda: NOW, every_s=0.001).run())
        async with asyncio.timeout(30):
            while "not kept within its limits" not in caplog.text:
                await asyncio.sleep(0.001)
            disk.execute("PRAGMA query_only = OFF")
            while len(store.after("short", 0, 99)) > 3 or store.trouble:
                await asyncio.sleep(0.001)
        task.cancel()
        await store.close()
        store = await StreamStore.open(tmp_path, bytes(32))
        assert len(store.after("short", 0, 99)) == 3
        await store.close()

    asyncio.run(main())


def test_in_memory_it_is_safe_in_the_next_turn() -> None:
    events = chain(5)

    async def main() -> None:
        told: list[bytes] = []
        streams = VolatileStreams(told.extend)
        streams.keep(events[:2], NOW)
        streams.keep(events[2:], NOW)
        assert not told
        await asyncio.sleep(0)
        assert told == [one.cid for one in events]
        assert streams.counters["commits"] == 1
        await streams.durable()
        await streams.close()
        assert streams.state("t") == StreamState((events[4].cid,), 1, 5, 0)

    asyncio.run(main())


def test_memory_is_bounded() -> None:
    events = chain(20, say=bytes(1000))

    async def main() -> None:
        streams = VolatileStreams(bytes_max=5 * size_of(events[1]))
        await streams.room()
        for one in events:
            streams.keep([one], NOW)
        assert streams.counters[REFUSED] == 14
        waiting = asyncio.create_task(streams.room())
        await asyncio.sleep(0)
        assert not waiting.done()
        await streams.keep_within("t", Retention(events=2), NOW)
        await waiting
        assert streams.size == sum(size_of(one.signed) for one in streams.after("t", 0, 9))
        streams.keep([event(say=b"more")], NOW)
        streams.crash()
        assert streams.size == sum(size_of(one.signed) for one in streams.after("t", 0, 9)) > 0

    asyncio.run(main())


def test_retention_goes_on_when_the_file_can_be_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(store: StreamStore) -> None:
        store.keep(chain(3), NOW)
        await store.durable()
        retainer = Retainer(store, lambda topic: Retention(events=1), lambda: NOW)

        def fail() -> list[str]:
            raise InputError("the disk cannot be read")

        monkeypatch.setattr(store._reader, "topics", fail)
        assert await retainer.round() == 0
        monkeypatch.undo()
        assert await retainer.round() == 2

    with_store(tmp_path, use)
