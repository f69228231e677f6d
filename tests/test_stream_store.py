"""Streams on disk: the same as in memory, across closing, crashing, damage and a full disk."""

import asyncio
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_events import chain, event

from vinecast.core.errors import InputError
from vinecast.core.seals import Sealed
from vinecast.core.streams import EMPTY, Consumers, Streams, StreamSink, StreamState
from vinecast.core.streams_book import FORGOTTEN_MAX, GONE_HEADS_MAX, size_of
from vinecast.core.streams_memory import MemoryStreams
from vinecast.core.streams_retention import Forgotten, Retention
from vinecast.node import streams_store
from vinecast.node.streams_file import FILE_NAME, SCHEMA
from vinecast.node.streams_store import REFUSED, StreamsConfig, StreamStore

NODE, OTHER = bytes(32), bytes([1] * 32)
NOW = 1_000_000
NEVER_ALONE = StreamsConfig(commit_after_s=3600)
"""Commits only when asked to."""


def with_store(
    folder: Path, use: Callable[[StreamStore], Awaitable[Any]], config: StreamsConfig | None = None
) -> Any:
    async def main() -> Any:
        store = await StreamStore.open(folder, NODE, config)
        try:
            return await use(store)
        finally:
            await store.close()

    return asyncio.run(main())


def refusal(folder: Path, node: bytes = NODE) -> str:
    """What opening the streams says, having changed no byte of them."""
    file = folder / FILE_NAME
    before = file.read_bytes()
    with pytest.raises(InputError) as caught:
        asyncio.run(StreamStore.open(folder, node))
    assert file.read_bytes() == before
    return str(caught.value)


def execute(file: Path, sql: str) -> None:
    database = sqlite3.connect(file)
    database.execute(sql)
    database.commit()
    database.close()


# The same as in memory


def seen(streams: MemoryStreams | StreamStore, pool: list[Sealed]) -> list[Any]:
    """All that can be asked."""
    answers: list[Any] = [streams.topics()]
    for topic in ("a", "b", "never"):
        answers.append((streams.state(topic), streams.offset("c", topic), streams.offset("d", topic)))
        for count in (1, 3, 99):
            answers += (streams.after(topic, position, count) for position in (0, 2, 5))
            places = ((0, b""), *((one.record.height, one.cid) for one in pool[:3]))
            answers += (streams.in_order(topic, place, count) for place in places)
        answers += ((one.cid, streams.height_of(topic, one.cid)) for one in pool)
    return [*answers, *((streams.position_of(one.cid), streams.get(one.cid)) for one in pool)]


pools = st.lists(
    st.tuples(st.sampled_from("ab"), st.sets(st.integers(0, 11), max_size=3)), min_size=1, max_size=12
)
topics = st.sampled_from("ab")
steps = st.one_of(
    st.tuples(st.just("keep"), st.lists(st.integers(0, 11), min_size=1, max_size=6)),
    st.tuples(st.just("keep"), st.just(list(range(12)))),
    st.tuples(st.just("set_floor"), topics, st.integers(0, 5)),
    st.tuples(st.just("ack"), st.sampled_from("cd"), topics, st.integers(0, 12)),
    st.tuples(st.just("retain"), topics, st.builds(Retention, events=st.integers(1, 5))),
    st.tuples(st.just("retain"), topics, st.builds(Retention, bytes=st.integers(1, 1500))),
    st.tuples(st.just("retain"), topics, st.builds(Retention, age_s=st.integers(1, 5).map(float))),
    st.tuples(st.sampled_from(["durable", "reopen", "crash"])),
)


def grown(shapes: list[tuple[str, set[int]]]) -> list[Sealed]:
    """Events of two topics that follow some of those before them."""
    pool: list[Sealed] = []
    for number, (topic, before) in enumerate(shapes):
        parents = [pool[i] for i in sorted(before) if i < number and pool[i].record.topic == topic]
        pool.append(event(*parents, topic=topic, number=number))
    return pool


@settings(max_examples=120, deadline=None)
@given(shapes=pools, script=st.lists(steps, max_size=14))
def test_it_is_what_it_would_be_in_memory(
    shapes: list[tuple[str, set[int]]],
    script: list[tuple[Any, ...]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Whatever is kept, in whatever order: nothing is asked of the caller, and both twins agree."""
    folder = tmp_path_factory.mktemp("streams")
    pool = grown(shapes)

    async def main() -> None:
        told: list[bytes] = []
        disk = await StreamStore.open(folder, NODE, NEVER_ALONE, told.extend)
        memory = MemoryStreams()
        clock = 0
        for name, *arguments in [*script, ("reopen",)]:
            clock += 1_000_000
            if name == "keep":
                events = [pool[i] for i in arguments[0] if i < len(pool)]
                for streams in (disk, memory):
                    streams.keep(events, clock)
            elif name == "ack":
                answers = []
                for streams in (disk, memory):
                    try:
                        answers.append(streams.ack(*arguments))
                    except InputError as error:
                        answers.append(str(error))
                assert answers[0] == answers[1]
            elif name == "set_floor":
                for streams in (disk, memory):
                    streams.set_floor(*arguments)
            elif name == "crash":
                memory.crash()
                await disk._writer.close()
                disk = await StreamStore.open(folder, NODE, NEVER_ALONE, told.extend)
            else:
                told.clear()
                await disk.durable()
                assert set(told) == set(memory.commit())
                if name == "retain":
                    assert await disk.retain(*arguments, clock) == memory.retain(*arguments, clock)
                    memory.commit()
                elif name == "reopen":
                    await disk.close()
                    disk = await StreamStore.open(folder, NODE, NEVER_ALONE, told.extend)
            assert seen(disk, pool) == seen(memory, pool)
        await disk.close()

    asyncio.run(main())
