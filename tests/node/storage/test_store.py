"""The store: what it remembers, the numbers that it gives, and its on-line log under a wrong clock."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.node.node_store import NEVER_ALONE, NODE, look, remembered, with_store
from vinecast.core.errors import InputError
from vinecast.node.storage.online_log import OnlineLog
from vinecast.node.storage.store import Store, StoreConfig
from vinecast.node.storage.store_file import FILE_NAME, KnownPeer
from vinecast.peer.address import Address

HOME = Address("::1", 7000)


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
