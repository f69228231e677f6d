"""A small world of transports for tests: the same tests over TLS (on both loops) and over memory."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, cast

from vinecast.node.runtime.loop import run
from vinecast.node.storage.identity_file import make_identity
from vinecast.node.transport.connection import Connection
from vinecast.node.transport.connection_transport import ConnectionTransport
from vinecast.node.transport.interface import PeerFacts, SessionDraws, TransportConfig
from vinecast.node.transport.memory_transport import MemoryNetwork, MemoryTransport
from vinecast.node.transport.tls import contexts
from vinecast.node.transport.tls_transport import TlsTransport
from vinecast.peer.address import Address
from vinecast.peer.identity import Identity, NodeId
from vinecast.peer.wire.frames import FrameKind, Splitter, control
from vinecast.peer.wire.handshake import DEFAULT_SYSTEM, Handshake

DRAWS = SessionDraws(lambda: 1.0, lambda: os.urandom(8))
KINDS = ("memory", "TLS", "TLS on plain asyncio")
PATIENCE_S = 30.0
"""How long a test waits before it fails; none waits so long when all is well."""


class Node:
    """A transport and what it told."""

    def __init__(self, transport: ConnectionTransport, config: TransportConfig) -> None:
        self.transport = transport
        self.config = config
        self.id = transport.identity.id
        self.address = Address("", 0)
        self.ups: list[tuple[NodeId, Address, PeerFacts]] = []
        self.downs: list[tuple[NodeId, str]] = []
        self.unreachable: list[NodeId] = []
        self.refused: Counter[str] = Counter()
        self.frames: list[bytes] = []
        self.raises = False
        self._changed = asyncio.Event()

    def on_up(self, peer: NodeId, address: Address, facts: PeerFacts) -> None:
        self.ups.append((peer, address, facts))
        self._changed.set()

    def on_frame(self, peer: NodeId, frame: bytes) -> None:
        if self.raises:
            raise ZeroDivisionError
        self.frames.append(frame)
        self._changed.set()

    def on_down(self, peer: NodeId, reason: str) -> None:
        self.downs.append((peer, reason))
        self._changed.set()

    def on_unreachable(self, peer: NodeId) -> None:
        self.unreachable.append(peer)
        self._changed.set()

    def on_refused(self, reason: str) -> None:
        self.refused[reason] += 1
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something is so; only what this node is told can make it so."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def send(self, other: "Node", frame: bytes) -> bool:
        return self.transport.send(other.id, other.address, frame)

    def connection_to(self, peer: NodeId) -> Connection:
        return self.transport._up[peer]

    @property
    def connections(self) -> int:
        return len(self.transport._connections)


class Stranger(asyncio.Protocol):
    """Somebody who speaks TLS with a key of its own, and then says whatever it likes."""

    def __init__(self) -> None:
        self.stream: asyncio.Transport | None = None
        self.frames: list[tuple[int, bytes]] = []
        self.gone = False
        self._splitter = Splitter(2**20)
        self._changed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.stream = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.frames += self._splitter.feed(data)
        self._changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone = True
        self._changed.set()

    def say(self, data: bytes) -> None:
        assert self.stream is not None
        self.stream.write(data)

    def stop_reading(self) -> None:
        assert self.stream is not None
        self.stream.pause_reading()

    def read_on(self) -> None:
        assert self.stream is not None
        self.stream.resume_reading()

    def leave(self) -> None:
        assert self.stream is not None
        self.stream.abort()

    def greet(self, **changes: Any) -> None:
        """Say HELLO as a decent node would, but for the changes."""
        handshake = Handshake(1, 1, "tests", "0", "127.0.0.1", 9, b"stranger")
        self.say(
            Handshake(
                **{f: changes.get(f, getattr(handshake, f)) for f in handshake.__struct_fields__}
            ).frame()
        )

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def reasons(self) -> list[str]:
        """Why it was refused."""
        return [body.decode() for kind, body in self.frames if kind == FrameKind.REFUSED]


class World:
    """Makes transports of one kind, and runs tests with them."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.memory = MemoryNetwork()
        self._nodes: list[Node] = []
        self._strangers: list[Stranger] = []
        self._errors: list[dict[str, Any]] = []

    def run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a test, close everything, and see that nothing failed on the side or was left over."""

        async def all_of_it() -> None:
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _, context: self._errors.append(context))
            try:
                async with asyncio.timeout(2 * PATIENCE_S):
                    await main()
            finally:
                for stranger in self._strangers:
                    stranger.leave()
                    await stranger.until(lambda stranger=stranger: stranger.gone)  # type: ignore[misc]
                await asyncio.gather(*(node.transport.close() for node in self._nodes))
            assert [node.connections for node in self._nodes] == [0] * len(self._nodes)
            assert len(asyncio.all_tasks()) == 1

        asyncio.run(all_of_it()) if "asyncio" in self.kind else run(all_of_it())
        assert not self._errors

    async def node(
        self,
        identity: Identity | None = None,
        network: str = "tests",
        versions: tuple[int, int] = (1, 1),
        listen: Address | None = None,
        system: str = DEFAULT_SYSTEM,
        **config: Any,
    ) -> Node:
        """A started transport."""
        identity = identity or make_identity()
        limits = replace(TransportConfig(close_s=1.0), **config)
        told: dict[str, Any] = {"system": system, "versions": versions}
        transport: ConnectionTransport
        if self.kind == "memory":
            transport = MemoryTransport(self.memory, identity, listen, network, limits, **told)
        else:
            place = listen or Address("127.0.0.1", 0)
            transport = TlsTransport(identity, place, network, DRAWS, limits, **told)
        node = Node(transport, limits)
        node.address = await transport.start(node)
        self._nodes.append(node)
        return node

    async def pair(self, **config: Any) -> tuple[Node, Node]:
        """Two nodes with a connection; the first has dialled."""
        one, other = await self.node(**config), await self.node(**config)
        assert await one.transport.connect(other.address) == other.id
        await other.until(lambda: bool(other.ups))
        return one, other

    async def stranger(self, target: Node, identity: Identity | None = None) -> Stranger:
        """Somebody who is connected to a node and has said nothing yet."""
        identity = identity or make_identity()
        stranger = Stranger()
        self._strangers.append(stranger)
        if self.kind == "memory":
            connection = target.transport._accept("memory")
            assert connection is not None
            self.memory.connect(identity, stranger, target.transport.identity, connection)
        else:
            await asyncio.get_running_loop().create_connection(
                lambda: stranger,
                target.address.host,
                target.address.port,
                ssl=contexts(identity)[1],
                server_hostname="",
            )
        return stranger

    async def guest(self, target: Node, identity: Identity | None = None, **handshake: Any) -> Stranger:
        """A stranger whose connection is up."""
        stranger = await self.stranger(target, identity)
        stranger.greet(**handshake)
        await target.until(lambda: bool(target.ups))
        await stranger.until(lambda: bool(stranger.frames))
        return stranger


def ping(number: int = 1) -> bytes:
    return control(FrameKind.PING, number.to_bytes(8, "big"))


async def still_serves(world: World, node: Node) -> None:
    """A decent peer can talk to the node, whatever came before."""
    decent = await world.node()
    assert decent.send(node, b"decent")
    await node.until(lambda: node.frames[-1:] == [b"decent"])
