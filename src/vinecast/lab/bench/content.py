"""What it saves to route by content: the same filters and events on several live networks, on loopback.

In PolderCast events of a schema reach every subscriber of its topic, and each node filters for itself; in
Vinifera they go where they match, and from neighbour to neighbour besides, unless ``to_friends`` is off.
Every node has one filter, over two attributes, that one event in so many matches, and every event must come
to all whose filters match, once.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vinecast.core.content.filters import Filter, make_filter
from vinecast.core.content.schemas import Attribute, Schema
from vinecast.core.draws import below_array, purpose, stream, unit_array
from vinecast.core.errors import InputError
from vinecast.core.rule import COMPILED
from vinecast.lab.bench.node import Tell
from vinecast.lab.bench.result import Result
from vinecast.node.api.node import Node
from vinecast.node.api.subscription import Subscription
from vinecast.node.runtime.config import NodeConfig
from vinecast.node.runtime.loop import run
from vinecast.systems.vinifera.settings import ViniferaSettings

PLAIN, ROUTED = "poldercast", "vinifera"
NETWORKS = {
    PLAIN: NodeConfig(system="poldercast"),
    ROUTED: NodeConfig(system="vinifera"),
    "vinifera, to_friends = false": NodeConfig(
        system="vinifera", vinifera=ViniferaSettings(to_friends=False)
    ),
}
SCHEMA = Schema("readings", (Attribute("station", "number", 0, 1), Attribute("level", "number", 0, 1)))
SEED = 1
RATE = 50.0  # ours: events a second, so that nobody waits
REST_S = 4.0  # ours: seconds for which a network at rest is watched
PATIENCE_S = 20.0  # ours: seconds for the last events to arrive
_FILTERS, _EVENTS, _PUBLISHERS = (purpose(f"bench content.{what}") for what in ("filters", "events", "who"))


@dataclass(frozen=True, slots=True)
class ContentSizes:
    """How large the networks of the benchmark are, and how many events go through them."""

    nodes: int = 40
    events: int = 400
    one_in: int = 16
    """Of all events, one in so many matches a filter."""

    def __post_init__(self) -> None:
        if self.nodes < 3 or self.one_in < 4:
            raise InputError("the benchmark needs 3 nodes or more, and filters for one event in 4 or fewer")


QUICK = ContentSizes(nodes=12, events=40, one_in=16)


def bench_content(sizes: ContentSizes, tell: Tell = lambda text: None) -> Iterator[Result]:
    """All figures, one network after the other."""
    if not COMPILED:
        yield Result("rules", "plain Python", 0.0, "compiled", False)
    filters, values = _filters(sizes), _values(sizes)
    due = [sum(one.matches(SCHEMA.event(value)) for value in values) for one in filters]
    copies = {}
    for system, config in NETWORKS.items():
        tell(f"a network of {system}")
        found = run(_measure(config, sizes, filters, values, due))
        right = found.got == due
        yield Result(
            f"{system}: events that nodes wanted and got", f"{sum(found.got):,} of {sum(due):,}",
            float(sum(found.got)), "each, and no others", right,
        )  # fmt: skip
        copies[system] = found.copies / max(sum(due), 1)
        yield Result(
            f"{system}: copies of events received, for each that was wanted", f"{copies[system]:.1f}",
            copies[system],
        )  # fmt: skip
        for what, value in (("at rest", found.rest), ("while events are published", found.busy)):
            yield Result(f"{system}: received a second and node, {what}", f"{value / 1000:.2f} kB", value)
    ratio = copies[ROUTED] / copies[PLAIN]
    yield Result("copies received, Vinifera to PolderCast", f"{ratio:.2f}", ratio, "< 1", ratio < 1)


def _filters(sizes: ContentSizes) -> list[Filter]:
    """Ranges of both attributes that are as wide as they must be together."""
    width = sizes.one_in**-0.5
    lows = unit_array(stream(SEED, _FILTERS, 0, 0), np.arange(2 * sizes.nodes)).reshape(-1, 2) * (1 - width)
    return [
        make_filter(SCHEMA, {"station": (a, a + width), "level": (b, b + width)}) for a, b in lows.tolist()
    ]


def _values(sizes: ContentSizes) -> list[dict[str, float]]:
    drawn = unit_array(stream(SEED, _EVENTS, 0, 0), np.arange(2 * sizes.events)).reshape(-1, 2)
    return [{"station": a, "level": b} for a, b in drawn.tolist()]


@dataclass(frozen=True, slots=True)
class _Found:
    got: list[int]
    """[node]"""
    copies: int
    rest: float
    """Bytes a second and node."""
    busy: float


@asynccontextmanager
async def _network(config: NodeConfig, count: int) -> AsyncIterator[list[Node]]:
    nodes: list[Node] = []
    try:
        for _ in range(count):
            joined = [nodes[0].address] if nodes else []
            nodes.append(await Node(join=joined, config=config).start())
        yield nodes
    finally:
        await asyncio.gather(*(node.close() for node in nodes))


async def _measure(
    config: NodeConfig,
    sizes: ContentSizes,
    filters: Sequence[Filter],
    values: Sequence[dict[str, float]],
    due: Sequence[int],
) -> _Found:
    async with _network(config, sizes.nodes) as nodes:
        wants = zip(nodes, filters, strict=True)
        readers = [node.subscribe(SCHEMA, filter=one) for node, one in wants]
        await asyncio.gather(*(reader.ready() for reader in readers))
        rest = await _traffic(nodes, lambda: asyncio.sleep(REST_S))
        publishers = _publishers(sizes)
        busy = await _traffic(nodes, lambda: _publish(nodes, publishers, values))
        got = await _settle(readers, sum(due))
        counters = [node._peer.counters for node in nodes]
        copies = sum(c["events received first"] + c["events received again"] for c in counters)
        return _Found(got, copies, rest, busy)


def _publishers(sizes: ContentSizes) -> NDArray[np.int64]:
    return below_array(stream(SEED, _PUBLISHERS, 0, 0), np.arange(sizes.events), sizes.nodes)


async def _publish(nodes: Sequence[Node], who: NDArray[np.int64], values: Sequence[dict[str, float]]) -> None:
    for number, value in zip(who.tolist(), values, strict=True):
        await nodes[number].publish(SCHEMA, value, durable=False)
        await asyncio.sleep(1 / RATE)


async def _settle(readers: Sequence[Subscription], expected: int) -> list[int]:
    """What everybody has once all is there, or when it takes too long."""
    end = asyncio.get_running_loop().time() + PATIENCE_S
    while sum(r.waiting for r in readers) < expected and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(0.05)
    return [reader.waiting for reader in readers]


async def _traffic(nodes: Sequence[Node], work: Callable[[], Awaitable[None]]) -> float:
    """Bytes a second and node that arrive over connections while something is done."""
    loop = asyncio.get_running_loop()
    before, begin = [_received(node) for node in nodes], loop.time()
    await work()
    took = loop.time() - begin
    grown = 0
    for node, was in zip(nodes, before, strict=True):
        grown += sum(now - was.get(peer, 0) for peer, now in _received(node).items())
    return grown / took / len(nodes)


def _received(node: Node) -> dict[bytes, int]:
    return {peer: connection.bytes_in for peer, connection in node._driver.transport.connections().items()}
