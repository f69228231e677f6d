"""Live nodes for tests, over memory or real sockets, and ways to wait without sleeping a fixed time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

from vinecast.node.api.node import Node
from vinecast.node.api.subscription import Event, Subscription
from vinecast.node.runtime.config import NodeConfig
from vinecast.node.runtime.loop import run
from vinecast.node.runtime.warm_up import warm_up
from vinecast.node.storage.identity_file import make_identity
from vinecast.node.transport.memory_transport import MemoryNetwork, MemoryTransport
from vinecast.peer.address import Address

T = TypeVar("T")

PATIENCE_S = 30.0
"""How long a test waits for what must happen."""

FAST = NodeConfig(period_s=0.05)


def live(main: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine, but not for ever. Compiling is no part of that time."""
    for system in ("poldercast", "vitis", "vinifera"):
        warm_up(NodeConfig(system=system))

    async def bounded() -> T:
        async with asyncio.timeout(4 * PATIENCE_S):
            return await main

    return run(bounded())


async def until(holds: Callable[[], bool], what: str = "") -> None:
    """Wait for something to be so."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"not within {PATIENCE_S} s: {what or holds}") from None


class Village:
    """Some nodes on one network: over TLS on loopback, or in memory."""

    def __init__(self, sockets: bool = False, config: NodeConfig = FAST, network: str = "test") -> None:
        self.memory = None if sockets else MemoryNetwork()
        self.config = config
        self.network = network
        self.nodes: list[Node] = []

    def make(self, **rest: Any) -> Node:
        """A node that joins the first one."""
        given: dict[str, Any] = {"config": self.config, "network": self.network, "join": self.join(), **rest}
        if self.memory is not None:
            identity, listen = given.setdefault("identity", make_identity()), Address("memory", 0)
            given["transport"] = MemoryTransport(
                self.memory,
                identity,
                listen,
                given["network"],
                given["config"].transport,
                system=given["config"].system,
            )
        return Node(**given)

    def join(self) -> list[str]:
        """Whom newcomers are told of."""
        return [self.nodes[0].address] if self.nodes else []

    async def add(self, **rest: Any) -> Node:
        """Start one more."""
        node = await self.make(**rest).start()
        self.nodes.append(node)
        return node

    async def grow(self, count: int) -> list[Node]:
        """Start some more."""
        return [await self.add() for _ in range(count)]


@contextlib.asynccontextmanager
async def village(nodes: int, sockets: bool = False, **rest: Any) -> AsyncIterator[Village]:
    """So many nodes, closed at the end whatever happens."""
    found = Village(sockets, **rest)
    try:
        await found.grow(nodes)
        yield found
    finally:
        await asyncio.gather(*(node.close() for node in found.nodes))


async def take(subscription: Subscription, count: int) -> list[Event]:
    """So many events, in the order in which they came."""
    async with asyncio.timeout(PATIENCE_S):
        return [await anext(subscription) for _ in range(count)]


async def settled(found: Village) -> None:
    """Everybody's rings are complete, and nobody thinks it is alone who is not."""
    truth: dict[str, int] = {}
    for node in found.nodes:
        for topic in node.topics():
            truth[topic] = truth.get(topic, 0) + 1

    def complete() -> bool:
        return all(
            node._peer.is_ready(topic) for node in found.nodes for topic in node.topics() if truth[topic] > 1
        )

    await until(complete, "all rings complete")
