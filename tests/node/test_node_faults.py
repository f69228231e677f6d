"""Faults where a node waits for something: a connection lost in every state, a full disk, a clock that jumps,
an address that is taken, one that hangs. The transport and the store have tests of their own."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.node.live import FAST, PATIENCE_S, Village, live, until, village
from vinecast.core.errors import InputError
from vinecast.node.api.node import Node
from vinecast.node.api.subscription import Subscription
from vinecast.node.runtime.clock import RealClock
from vinecast.node.storage.identity_file import make_identity
from vinecast.node.storage.store import StoreConfig
from vinecast.node.storage.store_file import StoreFile
from vinecast.node.transport.connection import Connection, State
from vinecast.node.transport.interface import PeerFacts
from vinecast.node.transport.memory_transport import MemoryNetwork, MemoryTransport
from vinecast.peer.address import Address
from vinecast.peer.identity import Identity
from vinecast.peer.receipt import Receipt


async def take(subscription: Subscription, count: int = 1) -> list[bytes]:
    """The payloads of so many events."""
    async with asyncio.timeout(30):
        return [(await anext(subscription)).payload for _ in range(count)]


async def complete(found: Village, topic: str = "news") -> None:
    """The ring of a topic is complete."""
    nodes = [node for node in found.nodes if topic in node.topics()]
    await until(lambda: all(node._peer.is_ready(topic) for node in nodes), "ring complete")


# Connections.


@pytest.mark.parametrize("state", [State.OPENING, State.HANDSHAKE, State.UP, State.LEAVING])
def test_a_link_lost_in_any_state_is_made_again(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[Connection] = []

    def lose(connection: Connection) -> None:
        if len(lost) < 3 and connection not in lost:
            lost.append(connection)
            asyncio.get_running_loop().call_soon(connection.drop, "cut by the test")

    def losing(method: str) -> None:
        original = getattr(Connection, method)

        def patched(connection: Connection, *rest: Any) -> None:
            if state is State.OPENING:
                lose(connection)
            original(connection, *rest)
            if connection.state is state:
                lose(connection)

        monkeypatch.setattr(Connection, method, patched)

    losing({State.OPENING: "connection_made", State.HANDSHAKE: "connection_made", State.UP:
    "_shaken_hands"}.get(
        state, "retire"
    ))  # fmt: skip

    async def main() -> None:
        limits = replace(
            FAST.transport, dial_s=0.5, redial_s_min=0.05, idle_s=0.1 if state is State.LEAVING else 120.0
        )
        async with village(3, sockets=True, config=replace(FAST, transport=limits)) as found:
            readers = [node.subscribe("news") for node in found.nodes]
            if state is State.LEAVING:
                transport: Any = found.nodes[0]._driver.transport
                await until(lambda: bool(transport._up), "a connection")
                for connection in list(transport._up.values()):
                    transport._retire(connection, "idle")
            await until(lambda: len(lost) >= (1 if state is State.LEAVING else 3), "connections are lost")
            await complete(found)
            await found.nodes[0].publish("news", b"all the same")
            for reader in readers:
                assert await take(reader) == [b"all the same"]

    live(main())


# The disk.


@contextlib.asynccontextmanager
async def kept(folder: Path, found: Village) -> AsyncIterator[Node]:
    """A node with a store of few sequence numbers at a time."""
    config = replace(found.config, store=StoreConfig(sequence_block=4))
    node = await found.make(folder=folder, config=config).start()
    try:
        yield node
    finally:
        await node.close()


def test_a_disk_that_fills_up_stops_publishing_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = False
    commit = StoreFile.commit

    def failing(file: StoreFile, *rest: Any) -> None:
        if full and file.path != ":memory:":
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        commit(file, *rest)

    monkeypatch.setattr(StoreFile, "commit", failing)

    async def main() -> None:
        nonlocal full
        async with village(2, sockets=True) as found, kept(tmp_path / "node", found) as node:
            mine = node.subscribe("news")
            others = [other.subscribe("news") for other in found.nodes]
            found.nodes.append(node)
            await complete(found)
            found.nodes.pop()
            full = True
            many = (node.publish("news", b"mine") for _ in range(100))  # for some, numbers are in hand
            results = await asyncio.gather(*many, return_exceptions=True)
            assert {str(r) for r in results if isinstance(r, InputError)} == {str(results[-1])}
            assert "disk is full" in str(results[-1])
            told = sum(isinstance(r, Receipt) for r in results)
            for reader in (mine, *others):
                assert await take(reader, told) == [b"mine"] * told
            await found.nodes[0].publish("news", b"to everybody")
            for reader in (mine, *others):
                assert await take(reader) == [b"to everybody"]
            full = False
            await node.publish("news", b"room again")
            for reader in (mine, *others):
                assert await take(reader) == [b"room again"]

    live(main())


# The clock.


class JumpingClock(RealClock):
    """The clocks of a machine that is set by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.off_us = self._ahead_us = 0

    def now_us(self) -> int:
        self._ahead_us = max(self._ahead_us, self.off_us)  # it is never set back
        return super().now_us() + self._ahead_us

    def wall_us(self) -> int:
        return super().wall_us() + self.off_us


DAY_US = 24 * 3600 * 1_000_000


def test_cards_grow_newer_whatever_the_clock_says() -> None:
    async def main() -> None:
        async with village(2) as found:
            one, other = found.nodes
            clock = JumpingClock()
            one._driver.clock = clock
            reader = await other.subscribe("a").ready()
            number = other._peer.peer_table.number_of(one.id)
            for n, jump_us in enumerate((0, 400 * DAY_US, -4000 * DAY_US, 0)):
                clock.off_us = jump_us
                before = one._peer.peer_table.card.version
                one.subscribe(f"topic/{n}")
                assert one._peer.peer_table.card.version > before
                await until(
                    lambda: other._peer.peer_table.topics_of(number) == tuple(one.topics()), "card taken"
                )
                await one.publish("a", str(n))
                assert await take(reader) == [str(n).encode()]

    live(main())


class SleepyClock(RealClock):
    """The monotonic clock of a machine that slept."""

    def __init__(self) -> None:
        super().__init__()
        self.slept_us = 0

    def now_us(self) -> int:
        return super().now_us() + self.slept_us


def test_a_machine_that_slept_goes_on() -> None:
    async def main() -> None:
        async with village(3) as found:
            readers = [node.subscribe("news") for node in found.nodes]
            await complete(found)
            clock = SleepyClock()
            found.nodes[0]._driver.clock = clock
            for n in range(3):
                clock.slept_us += DAY_US
                await found.nodes[n].publish("news", str(n))
                for reader in readers:
                    assert await take(reader) == [str(n).encode()]
            await complete(found)

    live(main())


# Addresses.


def test_an_address_that_is_taken_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with village(1, sockets=True) as found:
            before = asyncio.all_tasks()
            with pytest.raises(InputError, match="cannot listen on"):
                await Node(found.nodes[0].address, folder=tmp_path / "node").start()
            assert asyncio.all_tasks() == before
            again = await found.make(folder=tmp_path / "node").start()  # the store was let go of
            found.nodes.append(again)

    live(main())


def test_an_address_that_hangs_is_given_up_and_the_next_one_tried() -> None:
    async def main() -> None:
        writers: list[asyncio.StreamWriter] = []
        hanging = await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", 0)
        silent = str(Address("127.0.0.1", hanging.sockets[0].getsockname()[1]))
        limits = replace(FAST.transport, dial_s=0.2)
        async with village(1, sockets=True, config=replace(FAST, transport=limits)) as found:
            reader = found.nodes[0].subscribe("news")
            node = await found.make(join=[silent, found.nodes[0].address]).start()
            found.nodes.append(node)
            await node.subscribe("news").ready()
            await until(lambda: silent in node.join_trouble, "it is given up")
            await node.publish("news", b"found them")
            assert await take(reader) == [b"found them"]
        for writer in writers:
            writer.close()
        hanging.close()

    live(main())


class Rude:
    """Cuts every connection as soon as it is up."""

    def __init__(self, network: MemoryNetwork, me: Identity) -> None:
        self._network, self._me = network, me

    def on_up(self, peer: bytes, address: Address, facts: PeerFacts) -> None:
        self._network.cut(self._me.id, peer)

    def on_frame(self, peer: bytes, frame: bytes) -> None: ...
    def on_down(self, peer: bytes, reason: str) -> None: ...
    def on_unreachable(self, peer: bytes) -> None: ...
    def on_refused(self, reason: str) -> None: ...


def test_who_leaves_right_after_the_greeting_is_not_waited_for() -> None:
    async def main() -> None:
        limits = replace(FAST.transport, dial_s=10 * PATIENCE_S)
        async with village(1, config=replace(FAST, transport=limits)) as found:
            assert found.memory is not None
            rude = MemoryTransport(found.memory, make_identity(), network=found.network)
            silent = str(await rude.start(Rude(found.memory, rude.identity)))
            node = await found.add(join=[silent, found.nodes[0].address])
            await until(node._driver.joined.is_set, "the next one is tried")
            await until(lambda: node.join_trouble.get(silent) == "it left without a word")
            await rude.close()

    live(main())


def test_closing_while_an_address_hangs_does_not_wait_for_it() -> None:
    async def main() -> None:
        writers: list[asyncio.StreamWriter] = []
        hanging = await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", 0)
        silent = str(Address("127.0.0.1", hanging.sockets[0].getsockname()[1]))
        node = await Node(join=[silent], config=FAST).start()
        waiting = asyncio.create_task(node.subscribe("news").ready())
        await until(lambda: bool(writers), "it dials")
        began = asyncio.get_running_loop().time()
        await node.close()
        assert asyncio.get_running_loop().time() - began < FAST.transport.dial_s / 2
        with pytest.raises(InputError, match="closed"):
            await waiting
        for writer in writers:
            writer.close()
        hanging.close()

    live(main())
