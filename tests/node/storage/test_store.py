"""The store: what it remembers across closing, crashing, damage, a full disk and a wrong clock."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vinecast.core.errors import InputError
from vinecast.node.storage.online_log import OnlineLog
from vinecast.node.storage.store import Store, StoreConfig
from vinecast.node.storage.store_file import FILE_NAME, KIND, KnownPeer
from vinecast.peer.address import Address

NODE, OTHER = bytes(32), bytes([1] * 32)
HOME = Address("::1", 7000)
NEVER_ALONE = StoreConfig(commit_after_s=3600)
"""Commits only when asked to."""

SCRIPT = """
import asyncio, sys
from pathlib import Path
from vinecast.core.errors import InputError
from vinecast.peer.address import Address
from vinecast.node.storage.store import Store, StoreConfig

NODE = bytes(32)

def say(*words):
    print(*words, flush=True)

async def main(folder):
{body}

try:
    asyncio.run(main(Path(sys.argv[1])))
except InputError as error:
    say("InputError:", error)
"""


def other_process(folder: Path, body: str) -> "subprocess.Popen[str]":
    script = SCRIPT.format(body=textwrap.indent(textwrap.dedent(body), "    "))
    command = [sys.executable, "-W", "error", "-c", script, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def with_store(
    folder: Path, use: Callable[[Store], Awaitable[Any]], config: StoreConfig | None = None
) -> Any:
    async def main() -> Any:
        store = await Store.open(folder, NODE, config)
        try:
            return await use(store)
        finally:
            await store.close()

    return asyncio.run(main())


def remembered(store: Store) -> tuple[Any, ...]:
    return store.subscriptions(), store.peers(), store.sessions(), store.meta("k")


async def look(store: Store) -> tuple[Any, ...]:
    return remembered(store)


def refusal(folder: Path, node: bytes = NODE) -> str:
    """What opening the store says, having changed no byte of it."""
    file = folder / FILE_NAME
    before = file.read_bytes()
    with pytest.raises(InputError) as caught:
        asyncio.run(Store.open(folder, node))
    assert file.read_bytes() == before
    return str(caught.value)


# What is remembered


changes = st.one_of(
    st.tuples(st.just("add_subscription"), st.sampled_from("abc")),
    st.tuples(st.just("drop_subscription"), st.sampled_from("abc")),
    st.tuples(
        st.just("add_peer"),
        st.integers(0, 5).map(lambda i: bytes([i])),
        st.builds(Address, st.just("h"), st.integers(0, 65_535)),
    ),
    st.tuples(st.just("drop_peer"), st.integers(0, 5).map(lambda i: bytes([i]))),
    st.tuples(st.just("put_meta"), st.just("k"), st.binary(max_size=3)),
    st.tuples(st.just("durable")),
    st.tuples(st.just("reopen")),
)


@settings(max_examples=40)
@given(steps=st.lists(changes, max_size=20))
def test_it_comes_back_as_it_was(
    steps: list[tuple[Any, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("store")
    config = StoreConfig(peers_max=4, commit_after_s=3600)
    clock = 0

    async def main() -> None:
        nonlocal clock
        store = await Store.open(folder, NODE, config)
        for name, *arguments in [*steps, ("reopen",)]:
            clock += 1
            if name == "durable":
                await store.durable()
            elif name == "reopen":
                before = remembered(store)
                await store.close()
                store = await Store.open(folder, NODE, config)
                assert remembered(store) == before
            elif name == "add_peer":
                store.add_peer(arguments[0], arguments[1], clock)
            else:
                getattr(store, name)(*arguments)
        await store.close()

    asyncio.run(main())


def test_peers_are_bounded_and_the_latest_come_first(tmp_path: Path) -> None:
    async def meet(store: Store) -> list[KnownPeer]:
        for i in range(10_000):
            store.add_peer(i.to_bytes(32), HOME, i)
        store.add_peer((9_995).to_bytes(32), HOME, 10_000)
        assert len(store._writer._noted) < 20  # also while nothing can be written
        return store.peers()

    config = StoreConfig(peers_max=10, commit_after_s=3600)
    peers = with_store(tmp_path, meet, config)
    assert [peer.seen_us for peer in peers] == [10_000, 9_999, 9_998, 9_997, 9_996, *range(9_994, 9_989, -1)]
    assert with_store(tmp_path, look, config)[1] == peers
    assert with_store(tmp_path, look, StoreConfig(peers_max=3))[1] == peers[:3]
    assert with_store(tmp_path, look, config)[1] == peers[:3]


def test_what_waits_to_be_written_is_bounded() -> None:
    async def main() -> None:
        store = await Store.in_memory(NODE, NEVER_ALONE)
        for i in range(2_000):
            store.add_subscription(f"t/{i}")
            store.drop_subscription(f"t/{i}")
            store.mark_on(i)
            store.mark_off(i)
            store.put_meta("k", b"%d" % i)
        assert len(store._writer._noted) < 2_010
        before = store.counters["commits"]
        await store.durable()
        assert store.counters["commits"] == before + 1
        await store.close()

    asyncio.run(main())


def test_in_memory_is_forgotten_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def main() -> None:
        for _ in range(2):
            store = await Store.in_memory(NODE)
            assert store.subscriptions() == []
            store.add_subscription("t")
            assert await store.next_sequence() == 0
            await store.durable()
            await store.close()

    asyncio.run(main())
    assert list(tmp_path.iterdir()) == []


def test_it_commits_by_itself(tmp_path: Path) -> None:
    async def wait(store: Store) -> None:
        before = store.counters["commits"]
        store.add_subscription("t")
        async with asyncio.timeout(30):
            while store.counters["commits"] == before:
                await asyncio.sleep(0.001)

    with_store(tmp_path, wait, StoreConfig(commit_after_s=0.001))


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    with_store(tmp_path / "a" / "b", look)
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "a" / "b" / FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_what_the_file_cannot_hold_is_refused_at_once(tmp_path: Path) -> None:
    async def main(store: Store) -> None:
        faults: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
            (store.add_subscription, ("\ud800",)),
            (store.add_peer, (NODE, HOME, 2**63)),
            (store.mark_on, (-(2**64),)),
            (store.put_meta, ("\ud800", b"")),
        ]
        for method, arguments in faults:
            with pytest.raises(InputError, match="a store holds"):
                method(*arguments)
        await store.durable()

    with_store(tmp_path, main)


def test_closed_is_closed(tmp_path: Path) -> None:
    async def main() -> None:
        store = await Store.open(tmp_path, NODE)
        await store.close()
        await store.close()
        store.add_subscription("late")
        for late in (store.durable, store.next_sequence):
            with pytest.raises(InputError, match="closed"):
                await late()

    asyncio.run(main())
    assert with_store(tmp_path, look)[0] == []


# Sequence numbers


def test_numbers_go_on_without_a_gap_after_closing(tmp_path: Path) -> None:
    async def take(store: Store) -> list[int]:
        return [await store.next_sequence() for _ in range(100)]

    config = StoreConfig(sequence_block=16)
    taken = [number for _ in range(3) for number in with_store(tmp_path, take, config)]
    assert taken == list(range(300))


def test_many_at_once_get_different_numbers(tmp_path: Path) -> None:
    async def take(store: Store) -> list[int]:
        return list(await asyncio.gather(*(store.next_sequence() for _ in range(100))))

    assert sorted(with_store(tmp_path, take, StoreConfig(sequence_block=2))) == list(range(100))


# Crashes


@pytest.mark.parametrize("lines", [1, 2, 40, 700])
def test_a_killed_process_loses_nothing_that_was_durable(tmp_path: Path, lines: int) -> None:
    process = other_process(
        tmp_path,
        """
        store = await Store.open(folder, NODE, StoreConfig(sequence_block=16))
        store.mark_on(1_000_000)
        for i in range(1_000_000):
            number = await store.next_sequence()
            store.add_subscription(f"t/{i % 50}")
            store.add_peer(i.to_bytes(32), Address("h", 1), i)
            store.mark_still_on(1_000_000 + i)
            if i % 10 == 0:
                await store.durable()
                say(number, i, "durable")
            else:
                say(number, i)
        """,
    )
    assert process.stdout is not None
    said = [process.stdout.readline().split() for _ in range(lines)]
    process.kill()
    said += [line.split() for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
    last = max(int(words[1]) for words in said if words[2:])

    async def check(store: Store) -> None:
        assert await store.next_sequence() > max(int(words[0]) for words in said)
        assert set(store.subscriptions()) >= {f"t/{i % 50}" for i in range(last + 1)}
        assert store.peers()[0].seen_us >= last
        (session,) = store.sessions()
        assert session.on_us == 1_000_000
        assert session.last_us >= 1_000_000 + last
        assert not session.graceful
        store.mark_on(9_000_000)
        store.mark_still_on(9_500_000)
        *_, final = store.online(9_900_000)
        assert final == (9_000_000, 9_500_000)

    with_store(tmp_path, check)


# Files that are not ours to use


def filled(folder: Path) -> Path:
    async def fill(store: Store) -> None:
        for i in range(300):
            store.add_subscription(f"topic/{i:050}")
            store.put_meta(f"{i:050}", b"value")

    with_store(folder, fill)
    return folder / FILE_NAME


def test_damage_is_reported_and_left_alone(tmp_path: Path) -> None:
    file = filled(tmp_path)
    whole = file.read_bytes()
    assert len(whole) > 5 * 4096
    pages = [(start, start + 4096) for start in range(0, len(whole), 4096)]
    for start, end in ((0, 16), (100, len(whole)), *pages):
        file.write_bytes(whole[:start] + b"\xa5" * (end - start) + whole[end:])
        assert "is damaged; it was left as it is" in refusal(tmp_path)
    file.write_bytes(whole[: len(whole) // 2])
    assert "is damaged; it was left as it is" in refusal(tmp_path)
    file.write_bytes(b"not a database, and longer than its header would be" * 9)
    assert "is damaged" in refusal(tmp_path)
    file.write_bytes(whole)
    assert len(with_store(tmp_path, look)[0]) == 300


def execute(file: Path, sql: str) -> None:
    database = sqlite3.connect(file)
    database.execute(sql)
    database.commit()
    database.close()


def test_a_newer_schema_is_left_alone(tmp_path: Path) -> None:
    file = filled(tmp_path)
    execute(file, f"PRAGMA user_version = {KIND.schema + 1}")
    assert f"newer Vinecast (its schema is {KIND.schema + 1}, this one knows {KIND.schema})" in refusal(
        tmp_path
    )


def test_another_nodes_store_is_left_alone(tmp_path: Path) -> None:
    filled(tmp_path)
    assert "belongs to another node, 0000000000000000… and not 0101" in refusal(tmp_path, OTHER)


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    execute(tmp_path / FILE_NAME, "CREATE TABLE precious (data)")
    assert "is not a store of Vinecast" in refusal(tmp_path)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder, message in (
        (tmp_path / "file", "is not a folder"),
        (tmp_path / "file" / "in", "cannot keep"),
    ):
        with pytest.raises(InputError, match=message):
            asyncio.run(Store.open(folder, NODE))


def test_one_folder_one_process(tmp_path: Path) -> None:
    holder = other_process(
        tmp_path,
        """
        store = await Store.open(folder, NODE)
        say("open")
        await asyncio.sleep(60)
        """,
    )
    with holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "open\n"
            with pytest.raises(InputError, match="is in use by another node"):
                asyncio.run(Store.open(tmp_path, NODE))  # the holder may be writing: bytes prove nothing
        finally:
            holder.kill()

    async def hold(store: Store) -> str:
        with pytest.raises(InputError, match="is in use by another node"):
            await Store.open(tmp_path, NODE)
        second = other_process(tmp_path, "await Store.open(folder, NODE)")
        said, _ = await asyncio.to_thread(second.communicate)
        await store.durable()
        return said

    assert "is in use by another node" in with_store(tmp_path, hold)


# A disk that fails


def test_a_full_disk_is_survived(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """SQLite's own limit on pages takes the very path of a full disk."""

    async def main(store: Store) -> None:
        disk = store._writer._file._database
        store.add_subscription("before")
        await store.durable()
        disk.execute("PRAGMA max_page_count = 1")  # no page more than there are
        store.put_meta("k", bytes(100_000))
        store.add_subscription("during")
        for failures in (1, 2):
            with pytest.raises(InputError, match="the disk is full"):
                await store.durable()
            assert store.counters["commits failed"] >= failures
        assert store.trouble is not None
        assert "the disk is full" in store.trouble
        assert store.subscriptions() == ["before", "during"]
        assert await store.next_sequence() == 0  # reserved before
        disk.execute("PRAGMA max_page_count = 1000000")
        async with asyncio.timeout(30):
            while store.trouble is not None:  # it is tried again by itself
                await asyncio.sleep(0.001)

    with_store(tmp_path, main, StoreConfig(commit_after_s=3600, retry_s=0.001, retry_s_max=0.01))
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert with_store(tmp_path, look)[0] == ["before", "during"]


def test_closing_on_a_full_disk_keeps_what_was_there(tmp_path: Path) -> None:
    async def main(store: Store) -> None:
        for _ in range(5):
            await store.next_sequence()
        store.add_subscription("before")
        await store.durable()
        store._writer._file._database.execute("PRAGMA max_page_count = 1")
        store.put_meta("k", bytes(100_000))

    with_store(tmp_path, main, StoreConfig(commit_after_s=3600, sequence_block=64))

    async def after(store: Store) -> None:
        assert store.subscriptions() == ["before"]
        assert store.meta("k") is None
        assert await store.next_sequence() == 64  # the block was given up, none of it is used twice

    with_store(tmp_path, after)


def test_numbers_that_cannot_be_reserved_are_not_given(tmp_path: Path) -> None:
    async def main(store: Store) -> None:
        disk = store._writer._file._database
        disk.execute("PRAGMA query_only = ON")
        assert [await store.next_sequence() for _ in range(8)] == list(range(8))
        for _ in range(3):
            with pytest.raises(InputError, match="cannot be used"):
                await store.next_sequence()
        disk.execute("PRAGMA query_only = OFF")
        assert await store.next_sequence() == 8

    with_store(tmp_path, main, StoreConfig(commit_after_s=3600, sequence_block=8))


def test_a_disk_that_is_full_at_the_start(tmp_path: Path) -> None:
    process = other_process(
        tmp_path,
        """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
        await Store.open(folder, NODE)
        """,
    )
    said, _ = process.communicate()
    assert said.startswith("InputError: the store ")
    assert process.returncode == 0
    with_store(tmp_path, look)  # with room again, it is as if nothing had been


# The on-line log


GAP = 300
times = st.integers(0, 5_000)
marks = st.lists(st.tuples(st.sampled_from(["on", "still", "off", "crash"]), times), max_size=40)


@given(marks, times)
def test_sessions_are_apart_and_true(steps: list[tuple[str, int]], now: int) -> None:
    """Whatever the clock does, nothing is claimed that was not marked closely enough."""
    log, is_on, marked, last = OnlineLog(100, GAP), False, set[int](), None
    for kind, at in steps:
        if kind == "crash":
            log, is_on = OnlineLog(100, GAP, log.sessions()), False
        elif kind == "on" and not is_on:
            log.mark_on(at)
            is_on, last = True, at
        elif kind in ("still", "off") and is_on:
            (log.mark_still_on if kind == "still" else log.mark_off)(at)
            assert last is not None
            if 0 <= at - last <= GAP:
                marked |= set(range(last, at))
            is_on, last = kind == "still", at
        else:
            with pytest.raises(InputError, match="on line"):
                log.mark_on(at) if kind == "on" else log.mark_off(at)
    spans = log.online(now)
    assert all(on < off <= now for on, off in spans)
    assert all(a[1] < b[0] for a, b in pairwise(spans))
    assert {second for span in spans for second in range(*span)} == {at for at in marked if at < now}


def test_a_jumping_clock_ends_a_session(tmp_path: Path) -> None:
    minute = 60_000_000

    async def main(store: Store) -> list[tuple[int, int]]:
        store.mark_on(0)
        store.mark_still_on(minute)
        store.mark_still_on(600 * minute)  # the machine slept, or somebody set the clock
        store.mark_still_on(601 * minute)
        store.mark_still_on(300 * minute)  # and set it back
        store.mark_off(301 * minute)
        return store.online(700 * minute)

    expected = [(0, minute), (300 * minute, 301 * minute), (600 * minute, 601 * minute)]
    assert with_store(tmp_path, main) == expected

    async def again(store: Store) -> None:
        assert store.online(700 * minute) == expected
        assert (
            store.online(500 * minute) == expected[:2]
        )  # what a wrong clock put into the future is left out
        assert [session.graceful for session in store.sessions()] == [False, False, True]

    with_store(tmp_path, again)


def test_the_log_is_bounded(tmp_path: Path) -> None:
    async def main(store: Store) -> list[int]:
        for i in range(50):
            store.mark_on(10 * i)
            store.mark_off(10 * i + 1)
            if i % 7 == 0:
                await store.durable()
        return [session.number for session in store.sessions()]

    config = StoreConfig(sessions_max=10)
    assert with_store(tmp_path, main, config) == list(range(41, 51))
    assert [session.number for session in with_store(tmp_path, look)[2]] == list(range(41, 51))
