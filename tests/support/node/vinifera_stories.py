"""Stories of content on live nodes of Vinifera: who wants what, what is published, who must get it."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from support.content import events, filters, schemas
from support.node.live import Village, until
from vinecast.core.content.filters import Filter, FilterSet
from vinecast.core.content.schemas import Event as Values
from vinecast.core.content.schemas import Schema
from vinecast.node.api.node import Node
from vinecast.node.api.subscription import Event, Subscription
from vinecast.node.runtime.config import NodeConfig
from vinecast.systems.common.router import ME
from vinecast.systems.vinifera.settings import ViniferaSettings

VINIFERA = NodeConfig(period_s=0.1, system="vinifera")
STILL = replace(VINIFERA, vinifera=ViniferaSettings(beta=0))
"""Nobody moves."""
ROUNDS = 3
ARRIVE_CYCLES = 20
"""Cycles after which an event that has not come will not."""


def order(price: float, order: str = "buy", count: int = 1) -> dict[str, object]:
    return {"price": price, "order": order, "count": count, "at": "2026-05-01T12:00:00Z"}


class Story(NamedTuple):
    """A schema, what everybody wants of it, and what is published."""

    schema: Schema
    wants: Sequence[FilterSet]
    """By node; of some, nothing."""
    events: Sequence[Values]


def drawn_stories(count: int, nodes: int, each: int) -> list[Story]:
    """So many, always the same; each with so many events."""
    found: list[Story] = []

    @settings(max_examples=count, database=None, phases=[Phase.generate])
    @given(st.data())
    def draw(data: st.DataObject) -> None:
        schema = Schema(f"drawn/{len(found)}", data.draw(schemas()).attributes)
        known = data.draw(st.lists(filters(schema), min_size=nodes, max_size=nodes + 4))
        wants: list[list[Filter]] = [[] for _ in range(nodes)]
        for at, one in enumerate(known):
            wants[data.draw(st.integers(0, nodes - 1)) if at % 3 else at % nodes].append(one)
        published = data.draw(st.lists(events(schema, known), min_size=each, max_size=each))
        found.append(Story(schema, [FilterSet(schema, tuple(mine)) for mine in wants], published))

    draw()
    assert len(found) >= count
    return found[:count]


class Publication(NamedTuple):
    """Who publishes what."""

    sender: int
    schema: Schema
    event: Values


def publications(stories: Iterable[Story], nodes: int) -> list[Publication]:
    """All events of some stories, by everybody in turn."""
    return [
        Publication((n + at) % nodes, schema, event)
        for n, (schema, _, published) in enumerate(stories)
        for at, event in enumerate(published)
    ]


class Trial:
    """A village whose nodes want some events, and what a central matcher says they should get."""

    def __init__(self, found: Village) -> None:
        self.village = found
        self.readers: dict[tuple[int, str], tuple[Subscription, FilterSet]] = {}
        """By node and schema."""
        self.got: Counter[tuple[int, str, str]] = Counter()
        """(node, schema, event) → how often"""

    def want(self, node: int, filter_set: FilterSet) -> None:
        schema = filter_set.schema
        reader = self.village.nodes[node].subscribe(schema, filter=filter_set)
        self.readers[node, schema.name] = reader, filter_set

    def want_all(self, stories: Iterable[Story]) -> None:
        for _, wants, _ in stories:
            for node, filter_set in enumerate(wants):
                if filter_set.filters:
                    self.want(node, filter_set)

    async def ready(self) -> None:
        await asyncio.gather(*(reader.ready() for reader, _ in self.readers.values()))
        await until(lambda: is_in_order(self.village.nodes), "everybody has its place")
        await self.pass_cycles(2)  # and has asked from there

    async def pass_cycles(self, count: int) -> None:
        for _ in range(count):
            await asyncio.gather(*(node._driver.next_cycle() for node in self.village.nodes))

    async def check(self, given: Sequence[Publication], durable: bool, pause: int = 0) -> int:
        """Everybody gets what is due to it, once, and never anything else; how much that was. pause: a cycle
        passes after so many events

        On a machine with too much to do, links change while events are on their way, and some can be missed:
        of a few rounds one must be without a fault. In all of them nothing is due to nobody.
        """
        for _ in range(ROUNDS):
            await self.ready()
            due: set[tuple[int, str, str]] = set()
            for n, one in enumerate(given):
                due |= await self._publish(one, durable)
                if pause and n % pause == 0:
                    await self.pass_cycles(1)
            for _ in range(ARRIVE_CYCLES):
                await self.pass_cycles(1)
                self._read()
                if self.got.keys() >= due:
                    break
            await self.pass_cycles(2)  # for copies and strays
            self._read()
            assert self.got.keys() <= due
            assert set(self.got.values()) <= {1}
            missed = due - self.got.keys()
            self.got.clear()
            if not missed:
                return len(due)
        raise AssertionError(f"missed of {len(due)} in the last round: {sorted(missed)}")

    async def _publish(self, one: Publication, durable: bool) -> set[tuple[int, str, str]]:
        names = [attribute.name for attribute in one.schema.attributes]
        values = dict(zip(names, one.event, strict=True))
        receipt = await self.village.nodes[one.sender].publish(one.schema, values, durable=durable)
        return {
            (node, name, receipt.id)
            for (node, name), (_, filter_set) in self.readers.items()
            if name == one.schema.name and filter_set.matches(one.event)
        }

    def _read(self) -> None:
        for (node, name), (reader, _) in self.readers.items():
            while reader.waiting:
                self.got[node, name, reader._events.popleft().id] += 1


def machine_of(node: Node) -> Any:
    return node._peer.machine


def near(node: Node) -> list[bytes]:
    """Whom a node counts on."""
    return [node._peer.peer_table.id_of(peer) for peer in machine_of(node).neighbours()]


def is_in_order(nodes: Sequence[Node]) -> bool:
    """Whether everybody knows who is next on the circle, and where."""
    around = sorted(nodes, key=lambda node: int(node._peer.peer_table.profiles.place[ME]))
    for before, node, after in zip(around[-1:] + around[:-1], around, around[1:] + around[:1], strict=True):
        peer_table = node._peer.peer_table
        for other in (before, after):
            number = peer_table.number_of(other.id)
            if other is not node and (
                number not in machine_of(node).ring()
                or peer_table.profiles.place[number] != other._peer.peer_table.profiles.place[ME]
            ):
                return False
    return True


def prices(read: list[Event]) -> list[float]:
    return sorted(float(event.values["price"]) for event in read)


def filters_of(node: Node) -> list[str]:
    """The filters on a node's card."""
    return [name for name in node._peer.peer_table.names_of(ME) if name.startswith("#")]
