"""Streams on disk: the same as in memory, across closing, crashing, damage and a full disk."""

import asyncio
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.node.stream_store import NEVER_ALONE, NODE, NOW, look, with_store
from support.paths import TESTS
from support.stream_events import chain, event
from vinecast.core.errors import Bug, InputError
from vinecast.core.log import memory as streams_memory
from vinecast.core.log import stream_buffer
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.memory import MemoryStreams
from vinecast.core.log.retention import Forgotten, Retention
from vinecast.core.log.stream_buffer import FORGOTTEN_MAX, GONE_HEADS_MAX, size_of
from vinecast.core.log.streams import EMPTY, Consumers, Streams, StreamSink, StreamState
from vinecast.node.storage import streams_file, streams_store
from vinecast.node.storage.streams_file import FILE_NAME
from vinecast.node.storage.streams_store import REFUSED, StreamStore, StreamStoreConfig

# The same as in memory


def seen(streams: MemoryStreams | StreamStore, pool: list[SignedEvent]) -> list[Any]:
    """All that can be asked."""
    answers: list[Any] = [streams.topics()]
    for topic in ("a", "b", "never"):
        answers.append((streams.state(topic), streams.offset("c", topic), streams.consumers(topic)))
        for count in (3, 99):
            answers += (streams.after(topic, position, count) for position in (0, 4))
            places = ((0, b""), (pool[0].record.height, pool[0].cid))
            answers += (streams.in_order(topic, place, count) for place in places)
        answers += ((one.cid, streams.height_of(topic, one.cid)) for one in pool)
    return [*answers, *((streams.position_of(one.cid), streams.get(one.cid)) for one in pool)]


def grown(draw: random.Random, count: int) -> list[SignedEvent]:
    """Events of two topics, each after one or two of those before it, or after none."""
    pool: list[SignedEvent] = []
    for number in range(count):
        topic = draw.choice("ab")
        before = [one for one in pool if one.record.topic == topic][-4:]
        parents = draw.sample(before, min(len(before), draw.choice((0, 1, 1, 2))))
        pool.append(event(*parents, topic=topic, number=number))
    return pool


def some_retention(draw: random.Random) -> Retention:
    return draw.choice(
        (
            Retention(events=draw.randint(1, 6)),
            Retention(bytes=draw.randint(1, 1500)),
            Retention(age_s=float(draw.randint(1, 9))),
        )
    )


@pytest.mark.parametrize("seed", range(6))
def test_it_is_what_it_would_be_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Whatever is kept, in whatever order: nothing is asked of the caller, and both twins agree."""
    monkeypatch.setattr(streams_store, "FORGET_AT_ONCE", 3)
    for module in (streams_file, streams_memory):
        monkeypatch.setattr(module, "FORGOTTEN_MAX", 6)
    monkeypatch.setattr(stream_buffer, "GONE_HEADS_MAX", 3)
    draw = random.Random(seed)
    pool = grown(draw, 30)

    async def main() -> None:
        told: list[bytes] = []
        memory = MemoryStreams()
        disk = await StreamStore.open(tmp_path, NODE, NEVER_ALONE, told.extend)
        for clock in range(0, 150_000_000, 1_000_000):
            topic = draw.choice("ab")
            what = draw.choice(
                ("keep", "keep", "keep", "floor", "ack", "retain", "durable", "reopen", "crash")
            )
            if what == "keep":
                events = draw.sample(pool, draw.randint(1, 8))
                if draw.random() < 0.5:
                    events.sort(key=pool.index)
                for streams in (disk, memory):
                    streams.keep(events, clock)
            elif what == "ack":
                consumer, position = draw.choice("cd"), draw.randint(0, memory.state(topic).last)
                leaves = draw.random() < 0.2
                for streams in (disk, memory):
                    if leaves:
                        streams.drop_consumer(consumer, topic)
                    else:
                        streams.ack(consumer, topic, position)
            elif what == "floor":
                floor = draw.randint(0, 5)
                for streams in (disk, memory):
                    streams.set_floor(topic, floor)
            elif what == "crash":
                memory.crash()
                await disk._writer.close()
                disk = await StreamStore.open(tmp_path, NODE, NEVER_ALONE, told.extend)
            else:
                told.clear()
                await disk.durable()
                assert set(told) == set(memory.commit())
                if what == "retain":
                    retention = some_retention(draw)
                    forgotten = memory.retain(topic, retention, clock)
                    assert await disk.keep_within(topic, retention, clock) == forgotten
                    memory.commit()
                elif what == "reopen":
                    await disk.close()
                    disk = await StreamStore.open(tmp_path, NODE, NEVER_ALONE, told.extend)
            assert seen(disk, pool) == seen(memory, pool)
        await disk.close()

    asyncio.run(main())


def test_it_is_what_a_machine_and_a_driver_ask_for(tmp_path: Path) -> None:
    async def main(store: StreamStore) -> None:
        cursor: Streams = store
        writing: StreamSink = store
        counting: Consumers = store
        assert cursor.state("t") == EMPTY
        assert cursor.after("t", -1, 9) == cursor.in_order("t", (2**70, b""), 9) == []
        writing.keep(chain(2), NOW)
        counting.ack("c", "t", 1)
        assert cursor.state("\ud800") == EMPTY
        assert cursor.after("t", 0, -1) == cursor.in_order("t", (0, b""), -1) == []

    with_store(tmp_path, main)


def test_reading_while_commits_are_under_way(tmp_path: Path) -> None:
    """What is being committed lies in memory, in the file, or in both: it is found once."""
    events = chain(250)

    async def main(store: StreamStore) -> None:
        memory = MemoryStreams()
        for number, one in enumerate(events):
            for streams in (store, memory):
                streams.keep([one], NOW)
            begin = max(0, number - 20)
            place = (events[begin].record.height, events[begin].cid)
            for _ in range(3):
                assert store.after("t", begin, 99) == memory.after("t", begin, 99)
                assert store.in_order("t", place, 99) == memory.in_order("t", place, 99)
                assert store.get(one.cid) == one
                await asyncio.sleep(0)
        assert store.counters["commits"] > 1
        assert store.state("t") == memory.state("t")

    with_store(tmp_path, main, StreamStoreConfig(commit_after_s=0))


def test_reading_while_retention_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_store, "FORGET_AT_ONCE", 7)
    events = chain(100)

    async def main(store: StreamStore) -> None:
        store.keep(events, NOW)
        await store.durable()
        twice = [asyncio.create_task(store.keep_within("t", Retention(events=10), NOW)) for _ in range(2)]
        floors = set[int]()
        while not all(task.done() for task in twice):
            floor = store.state("t").floor
            floors.add(floor)
            for found in (store.after("t", 0, 999), store.in_order("t", (0, b""), 999)):
                assert [one.signed for one in found] == events[floor:]
            assert store.state("t").first == floor + 1
            assert [bool(store.position_of(one.cid)) for one in events] == [i >= floor for i in range(100)]
            assert store.get(events[floor].cid) == events[floor]
            assert floor == 0 or store.get(events[floor - 1].cid) is None
            assert store.height_of("t", events[0].cid) == 1
            store.keep(events[90:], NOW)  # there already
            await asyncio.sleep(0)
        assert len(floors) > 5
        told = [task.result() for task in twice]
        assert sum(one.events for one in told if one) == 90
        assert store.counters["forgotten"] == 90

    with_store(tmp_path, main)
    assert with_store(tmp_path, look) == StreamState((events[99].cid,), 91, 100, 90)


def test_an_event_that_is_kept_again_while_it_goes(tmp_path: Path) -> None:
    first, *others = chain(5)

    async def main(store: StreamStore) -> None:
        store.keep([first], 0)
        store.keep(others, NOW)
        await store.durable()
        task = asyncio.create_task(store.keep_within("t", Retention(age_s=0.5), NOW))
        while not store._writer.noted.gone:
            await asyncio.sleep(0)
        assert store.position_of(first.cid) == 0
        store.keep([first], NOW)
        for _ in range(2):
            assert store.position_of(first.cid) == 6
            assert store.get(first.cid) == first
            assert [one.position for one in store.after("t", 0, 9)] == [2, 3, 4, 5, 6]
            assert [one.position for one in store.in_order("t", (0, b""), 9)] == [6, 2, 3, 4, 5]
            assert store.state("t") == StreamState((others[3].cid,), 2, 6, 1)
            await store.durable()
        await task

    with_store(tmp_path, main, NEVER_ALONE)


def test_unread_events_that_go_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    events = chain(10)

    async def main(store: StreamStore) -> None:
        store.keep(events, NOW)
        store.ack("fast", "t", 10)
        store.ack("slow", "t", 3)
        told = await store.keep_within("t", Retention(events=4), NOW)
        assert told == Forgotten("t", 6, sum(map(size_of, events[:6])), 6, {"slow": 3})
        assert store.counters["forgotten unread"] == 3
        assert store.offset("slow", "t") == 3
        assert await store.keep_within("t", Retention(events=4), NOW) is None
        assert await store.keep_within("never", Retention(events=4), NOW) is None

    with_store(tmp_path, main)
    assert "3 events of 't' went that 'slow' had not acknowledged" in caplog.text


def test_what_is_remembered_of_forgotten_events_is_bounded(tmp_path: Path) -> None:
    roots = sorted((event(say=b"%d" % i) for i in range(FORGOTTEN_MAX + 100)), key=lambda one: one.cid)

    async def main(store: StreamStore) -> None:
        store.keep(roots, NOW)
        await store.keep_within("t", Retention(events=1), NOW)
        assert len(store.state("t").heads) == GONE_HEADS_MAX + 1
        assert store.height_of("t", roots[0].cid) == 0
        assert store.height_of("t", roots[-2].cid) == 1

    with_store(tmp_path, main)
    database = sqlite3.connect(tmp_path / FILE_NAME)
    for table, rows in (("forgotten", FORGOTTEN_MAX), ("heads", GONE_HEADS_MAX + 1), ("events", 1)):
        assert database.execute(f"SELECT count(*) FROM {table}").fetchone() == (rows,)
    database.close()


# What is safe


def test_kept_is_told_when_it_is_safe_and_not_before(tmp_path: Path) -> None:
    events = chain(6)

    async def main() -> None:
        told: list[tuple[bytes, ...]] = []
        store = await StreamStore.open(tmp_path, NODE, NEVER_ALONE, told.append)
        store.keep(events[:3], NOW)
        store.keep(events[2:4], NOW)
        assert store.get(events[3].cid) == events[3]
        assert not told
        await store.durable()
        assert told == [tuple(one.cid for one in events[:4])]
        store.keep(events[4:], NOW)
        await store.close()
        await store.close()
        assert len(told) == 2
        store.keep(chain(1, topic="late"), NOW)
        assert store.counters[REFUSED] == 1
        with pytest.raises(InputError, match="closed"):
            await store.durable()

    asyncio.run(main())
    assert with_store(tmp_path, look) == StreamState((events[5].cid,), 1, 6, 0)


def test_it_commits_by_itself(tmp_path: Path) -> None:
    async def main() -> None:
        safe = asyncio.Event()
        store = await StreamStore.open(tmp_path, NODE, None, lambda cids: safe.set())
        store.keep(chain(1), NOW)
        await asyncio.wait_for(safe.wait(), 30)
        await store.close()

    asyncio.run(main())


def test_what_waits_to_be_written_is_bounded(tmp_path: Path) -> None:
    events = chain(100, say=bytes(1000))

    async def main(store: StreamStore) -> None:
        store.keep(events[:5], NOW)
        await store.room()
        store.keep(events[5:20], NOW)
        assert store.is_full
        store.keep(events[20:], NOW)
        assert store.counters[REFUSED] == 80
        assert store.state("t").last == 20
        waiting = [asyncio.create_task(store.room()) for _ in range(3)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        await store.durable()
        await asyncio.gather(*waiting)
        store.keep(events[20:], NOW)
        assert store.state("t").last == 100

    with_store(tmp_path, main, StreamStoreConfig(commit_after_s=3600, waiting_bytes_max=10_000))


def test_what_the_file_cannot_hold_is_refused_at_once(tmp_path: Path) -> None:
    async def main(store: StreamStore) -> None:
        store.keep(chain(1), NOW)
        faults: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
            (store.keep, (chain(1), 2**63)),
            (store.set_floor, ("t", -1)),
            (store.set_floor, ("\ud800", 1)),
            (store.ack, ("\ud800", "t", 1)),
            (store.ack, ("", "t", 1)),
            (store.ack, ("c" * 256, "t", 1)),
            (store.ack, ("c", "t", 2)),
        ]
        for method, arguments in faults:
            with pytest.raises((InputError, Bug)):
                method(*arguments)
        await store.durable()

    with_store(tmp_path, main)


def test_a_commit_waits_for_the_disk(tmp_path: Path) -> None:
    """No test here can cut the power: this is what SQLite needs to be told to survive that."""

    async def main(store: StreamStore) -> None:
        settings = store._writer._file._database.execute
        assert settings("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert settings("PRAGMA journal_mode").fetchone() == ("wal",)

    with_store(tmp_path, main)


WRITER = """
import asyncio, random, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from support.stream_events import event
from vinecast.core.log.retention import Retention
from vinecast.node.storage.streams_store import StreamStore, StreamStoreConfig

async def main(folder, seed):
    draw, numbers, last = random.Random(seed), {}, []
    def kept(cids):
        print("kept", *(numbers.pop(cid) for cid in cids), flush=True)
    config = StreamStoreConfig(commit_after_s=draw.choice((0, 0.001)), waiting_bytes_max=50_000)
    store = await StreamStore.open(folder, bytes(32), config, kept)
    at = 0
    while True:  # until killed
        for _ in range(draw.randint(1, 40)):
            last = [event(*last, number=at)]
            numbers[last[0].cid] = at
            await store.room()
            store.keep(last, at)
            at += 1
        store.ack("c", "t", max(0, at - 5))
        if draw.random() < 0.1:
            told = await store.keep_within("t", Retention(events=300), at)
            if told:
                print("floor", told.floor, flush=True)
        await asyncio.sleep(0)

asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
"""


@pytest.mark.parametrize("seed", range(6))
def test_a_killed_process_loses_nothing_that_was_acknowledged(tmp_path: Path, seed: int) -> None:
    lines = random.Random(seed).choice((1, 3, 10, 40))
    command = [sys.executable, "-c", WRITER, str(tmp_path), str(seed), str(TESTS)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(lines)]
    process.kill()
    said += [line for line in process.stdout.readlines() if line.endswith("\n")]
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
    words = [line.split() for line in said]
    acknowledged = [int(number) for kind, *rest in words for number in rest if kind == "kept"]
    floor_told = max((int(rest[0]) for kind, *rest in words if kind == "floor"), default=0)

    async def check(store: StreamStore) -> None:
        state = store.state("t")
        events = chain(state.last + 3)
        assert acknowledged == list(range(len(acknowledged)))
        assert state.last >= len(acknowledged) > 0
        assert floor_told <= state.floor
        kept = [one.signed for one in store.after("t", 0, 10**6)]
        assert kept == [one.signed for one in store.in_order("t", (0, b""), 10**6)]
        assert kept == events[state.floor : state.last]  # all of it above what retention took, and in order
        assert state.heads == (events[state.last - 1].cid,)
        assert store.offset("c", "t") <= state.last
        store.keep(events[state.last :], NOW)
        assert store.state("t").last == state.last + 3

    with_store(tmp_path, check)
