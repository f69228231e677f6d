"""Vinifera on live nodes: events routed by their content, to those who want them and to nobody else."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from support.content import SCHEMA, events, filters, schemas
from support.live import Village, live, settled, take, until, village
from vinecast.core.content.filters import Filter, FilterSet
from vinecast.core.content.filters_text import parse_filter_set
from vinecast.core.content.schemas import Event as Values
from vinecast.core.content.schemas import Schema
from vinecast.core.content.schemas_text import parse_schema
from vinecast.core.draws import below, stream
from vinecast.core.errors import InputError
from vinecast.node.api.content import ROUTED_MAX
from vinecast.node.api.node import Node
from vinecast.node.api.settings import resolve, to_toml
from vinecast.node.api.subscription import Event, Subscription
from vinecast.node.runtime.config import NodeConfig
from vinecast.peer.streams.replicas import replica_key
from vinecast.protocols.kademlia import point_of
from vinecast.systems.common.router import ME
from vinecast.systems.vinifera.router import vinifera_config
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
    return node._driver.machine


def near(node: Node) -> list[bytes]:
    """Whom a node counts on."""
    return [node._driver.peer_table.id_of(peer) for peer in machine_of(node).neighbours()]


def is_in_order(nodes: Sequence[Node]) -> bool:
    """Whether everybody knows who is next on the circle, and where."""
    around = sorted(nodes, key=lambda node: int(node._driver.peer_table.profiles.place[ME]))
    for before, node, after in zip(around[-1:] + around[:-1], around, around[1:] + around[:1], strict=True):
        peer_table = node._driver.peer_table
        for other in (before, after):
            number = peer_table.number_of(other.id)
            if other is not node and (
                number not in machine_of(node).ring()
                or peer_table.profiles.place[number] != other._driver.peer_table.profiles.place[ME]
            ):
                return False
    return True


def prices(read: list[Event]) -> list[float]:
    return sorted(float(event.values["price"]) for event in read)


def filters_of(node: Node) -> list[str]:
    """The filters on a node's card."""
    return [name for name in node._driver.peer_table.names_of(ME) if name.startswith("#")]


# Who gets what.


@pytest.mark.parametrize("durable", [False, True], ids=["volatile", "durable"])
def test_everybody_gets_what_a_central_matcher_says(durable: bool) -> None:
    async def main() -> None:
        stories = drawn_stories(10, nodes=8, each=6)
        async with village(8, config=VINIFERA) as found:
            trial = Trial(found)
            trial.want_all(stories)
            assert await trial.check(publications(stories, 8), durable) > 50

    live(main())


# Who keeps what, and who is told of what.


def test_who_wants_some_events_keeps_none() -> None:
    async def main() -> None:
        config = replace(VINIFERA, replicas=1)
        async with village(6, config=config) as found:
            await until(lambda: all(n._driver.count_others() == 5 for n in found.nodes), "all have met")
            key = point_of(replica_key("test", SCHEMA.name))
            nearest = min(found.nodes, key=lambda node: int.from_bytes(node.id[:8], "big") ^ key)
            publisher, *others = (node for node in found.nodes if node is not nearest)
            readers = [node.subscribe(SCHEMA, filter="price < 10") for node in others]
            for reader in readers:
                await reader.ready()
            await publisher.publish(SCHEMA, order(5), durable=False)
            await publisher.publish_all(SCHEMA, [order(50), order(6)])
            for reader in readers:
                assert prices(await take(reader, 2)) == [5, 6]
            assert [node.stats()["streams"] for node in others] == [0] * 4
            assert [node.log(SCHEMA.name) for node in others] == [[]] * 4
            assert nearest.stats()["streams"] == 1
            assert len(nearest.log(SCHEMA.name)) == 2

    live(main())


def test_filters_are_no_topics() -> None:
    async def main() -> None:
        async with village(4, config=VINIFERA) as found:
            all_of_it = found.nodes[0].subscribe("#")
            some = found.nodes[1].subscribe(SCHEMA, filter="price < 10 or price > 900")
            news = found.nodes[2].subscribe("news/today")
            for reader in (some, news):
                await reader.ready()
            await until(lambda: found.nodes[0].topics() == ["news/today"], "the pattern has found a topic")
            await settled(found)
            assert len(filters_of(found.nodes[1])) == found.nodes[1].stats()["filters"] == 2
            for node in found.nodes:
                assert node.known_topics() == ["news/today"]
                assert not any("#" in topic for peer in node.peers() for topic in peer.topics)
            assert found.nodes[1].topics() == []
            assert found.nodes[1]._driver.neighbours() == {}
            await found.nodes[3].publish("news/today", b"1")
            await found.nodes[3].publish("news/today", b"2", durable=False)
            await found.nodes[3].publish(SCHEMA, order(901))
            for reader in (all_of_it, news):
                assert sorted(event.payload for event in await take(reader, 2)) == [b"1", b"2"]
            assert prices(await take(some, 1)) == [901]
            assert (all_of_it.waiting, news.waiting, some.waiting) == (0, 0, 0)

    live(main())


def test_a_filter_that_wants_everything_is_the_topic() -> None:
    async def main() -> None:
        async with village(4, config=VINIFERA) as found:
            node = found.nodes[1]
            reader = await node.subscribe(SCHEMA, filter="everything").ready()
            assert node.topics() == [SCHEMA.name]
            assert filters_of(node) == []
            plain = await node.subscribe(SCHEMA.name).ready()
            for durable in (False, True):
                await found.nodes[3].publish(SCHEMA, order(1), durable=durable)
                assert prices(await take(reader, 1)) == [1]
                assert len(await take(plain, 1)) == 1
            await plain.close()
            assert node.topics() == [SCHEMA.name]
            await found.nodes[3].publish(SCHEMA, order(2))
            assert prices(await take(reader, 1)) == [2]
            await reader.close()
            assert node.topics() == []
            assert reader.waiting == plain.waiting == 0

    live(main())


def test_who_wants_nothing_asks_for_nothing() -> None:
    async def main() -> None:
        async with village(3, config=VINIFERA) as found:
            reader = await found.nodes[1].subscribe(SCHEMA, filter="nothing").ready()
            assert found.nodes[1]._driver.peer_table.names_of(ME) == ()
            await found.nodes[2].publish(SCHEMA, order(1))
            await found.nodes[2]._driver.next_cycle()
            assert reader.waiting == 0

    live(main())


def test_filters_are_withdrawn_with_their_subscription() -> None:
    async def main() -> None:
        async with village(4, config=VINIFERA) as found:
            node, other = found.nodes[1], found.nodes[2]
            two = node.subscribe(SCHEMA, filter="price < 10 or price > 900")
            one = node.subscribe(SCHEMA, filter="price < 10")
            same = other.subscribe(SCHEMA, filter="price > 900")
            for reader in (two, one, same):
                await reader.ready()
            low, high = filters_of(node)
            assert filters_of(other) == [high]
            await two.close()
            await two.close()
            assert filters_of(node) == [low]
            await found.nodes[3].publish(SCHEMA, order(5), durable=False)
            await found.nodes[3].publish(SCHEMA, order(905), durable=False)
            assert prices(await take(one, 1)) == [5]
            assert prices(await take(same, 1)) == [905]
            assert (one.waiting, two.waiting) == (0, 0)
            await one.close()
            await same.close()
            assert (filters_of(node), filters_of(other)) == ([], [])
            with pytest.raises(StopAsyncIteration):
                await anext(one)
            await until(
                lambda: not any(any(each._driver.peer_table.topics._uses) for each in found.nodes),
                "nobody knows them any more",
            )
            assert not any(len(machine_of(each).requests) for each in found.nodes)

    live(main())


def test_more_filters_than_are_told_of_are_joined_and_exact() -> None:
    async def main() -> None:
        schema = parse_schema("s", "x integer 0..100000, word string")
        async with village(4, config=VINIFERA) as found:
            node = found.nodes[1]
            wanted = [7 * n for n in range(2 * ROUTED_MAX)]
            apart = wanted[: ROUTED_MAX // 2]
            together = node.subscribe(
                schema, filter=" or ".join(f"x = {x}" for x in wanted[ROUTED_MAX // 2 :])
            )
            readers = {x: node.subscribe(schema, filter=f"x = {x}") for x in apart}
            for reader in (together, *readers.values()):
                await reader.ready()
            assert 1 < len(filters_of(node)) <= ROUTED_MAX
            published = [7 * n // 2 for n in range(4 * ROUTED_MAX)]
            for x in published:
                await found.nodes[2].publish(schema, {"x": x, "word": "w"}, durable=False)
            for x, reader in readers.items():
                assert [event.values["x"] for event in await take(reader, published.count(x))] == [x]
                await reader.close()
            rest = sorted(x for x in published if x in wanted[ROUTED_MAX // 2 :])
            assert sorted(event.values["x"] for event in await take(together, len(rest))) == rest
            await node._driver.next_cycle()
            assert together.waiting == sum(reader.waiting for reader in readers.values()) == 0
            assert len(filters_of(node)) <= ROUTED_MAX

    live(main())


# Streams of content.


def test_a_replay_is_filtered_and_a_consumer_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with village(3, config=VINIFERA) as found:
            publisher = found.nodes[1]
            await until(lambda: publisher._driver.count_others() == 2, "they have met")
            await publisher.publish_all(SCHEMA, [order(n % 20, count=n % 100) for n in range(200)])
            filter_like, expected = "price = 3 and count < 50", [3, 23, 43, 3, 23, 43]

            def counts(read: list[Event]) -> list[object]:
                return [event.values["count"] for event in read]

            node = await found.add(folder=tmp_path)
            identity = node._identity
            reader = node.subscribe(SCHEMA, start="earliest", consumer="me", filter=filter_like)
            once = node.subscribe(SCHEMA, start="earliest", filter="count = 99")
            now = await node.subscribe(SCHEMA, filter=filter_like).ready()
            begun = await take(reader, 4)
            assert counts(begun) == expected[:4]
            assert counts(await take(once, 2)) == [99, 99]
            await reader.ack(begun[-1])
            assert now.waiting == 0
            await node.close()
            found.nodes.remove(node)
            node = await found.add(folder=tmp_path, identity=identity)
            reader = node.subscribe(SCHEMA, start="earliest", consumer="me", filter=filter_like)
            assert counts(await take(reader, 2)) == expected[4:]
            assert filters_of(node) == []
            await publisher.publish(SCHEMA, order(3, count=49))
            assert counts(await take(reader, 1)) == [49]
            assert reader.waiting == 0

    live(main())


def test_readers_of_a_stream_and_of_what_is_routed_side_by_side() -> None:
    async def main() -> None:
        async with village(5, config=VINIFERA) as found:
            node = found.nodes[1]
            routed = [
                node.subscribe(SCHEMA, filter=filter_like) for filter_like in ("price < 10", "price < 5")
            ]
            streams = [
                node.subscribe(SCHEMA, start="earliest", filter="price < 10"),
                node.subscribe(SCHEMA, consumer="me", filter="price < 10"),
            ]
            plain = node.subscribe(SCHEMA.name)
            for reader in (*routed, *streams, plain):
                await reader.ready()
            given = [1, 20, 7, 3, 40, 4]
            for at, price in enumerate(given):
                await found.nodes[at % 5].publish(SCHEMA, order(price), durable=at % 2 == 0)
                await found.nodes[at % 5].publish(SCHEMA, order(price + 0.5), durable=True)
            cheap = [1, 1.5, 3, 3.5, 4, 4.5, 7, 7.5]
            assert prices(await take(routed[0], 8)) == cheap
            assert prices(await take(routed[1], 6)) == cheap[:6]
            for reader in streams:
                assert prices(await take(reader, 8)) == cheap
            assert prices(await take(plain, 12)) == sorted([*given, *(price + 0.5 for price in given)])
            for reader in (*streams, plain):
                await reader.close()
            for price in (2, 30):
                await found.nodes[3].publish(SCHEMA, order(price))
            assert prices(await take(routed[0], 1)) == [2]
            assert prices(await take(routed[1], 1)) == [2]
            for _ in range(3):
                await node._driver.next_cycle()
            assert [reader.waiting for reader in (*routed, *streams, plain)] == [0] * 5

    live(main())


def test_what_a_stream_brings_first_is_routed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that follows the stream may fetch an event before it comes for its content."""

    async def main() -> None:
        async with village(3, config=replace(VINIFERA, replicas=0)) as found:
            node, publisher = found.nodes[1:]
            readers = [node.subscribe(SCHEMA, filter="price < 10"), node.subscribe(SCHEMA.name)]
            readers.append(publisher.subscribe(SCHEMA.name))
            for reader in readers:
                await reader.ready()
            streams, held = node._driver.streams, list[tuple[Any, ...]]()
            came = streams._take_carried
            monkeypatch.setattr(streams, "_take_carried", lambda *frame: held.append(frame))
            publishing = asyncio.create_task(publisher.publish(SCHEMA, order(5)))
            await until(lambda: readers[1].waiting == 1 and bool(held), "it was fetched, and came")
            assert readers[0].waiting == 0
            for frame in held:
                came(*frame)
            await publishing
            assert [event.values["price"] for event in readers[0]._events] == [5]

    live(main())


# Nodes that come, go and move.


def test_who_is_ready_has_asked_from_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """That nobody else wants the same says nothing: there may be somebody who publishes it."""

    async def main() -> None:
        async with village(4, config=STILL) as found:
            node = found.nodes[1]
            await until(lambda: node._driver.count_others() == 3, "they have met")
            is_ready = node._driver.system.is_ready
            monkeypatch.setattr(node._driver.system, "is_ready", lambda topic: False)
            readers = [node.subscribe(SCHEMA, filter="price < 10"), node.subscribe("news")]
            waiting = [asyncio.create_task(reader.ready()) for reader in readers]
            for _ in range(STILL.alone_cycles + 4):
                await node._driver.next_cycle()
            assert not any(task.done() for task in waiting)
            monkeypatch.setattr(node._driver.system, "is_ready", is_ready)
            await asyncio.gather(*waiting)
            assert all(map(node._driver.is_ready, node._driver.peer_table.names_of(ME)))
            lonely = await Village(config=STILL).add()
            await lonely.subscribe(SCHEMA, filter="price < 10").ready()
            await lonely.close()

    live(main())


def test_after_a_crash_and_with_a_newcomer_everything_arrives_again() -> None:
    async def main() -> None:
        stories = drawn_stories(4, nodes=8, each=6)
        async with village(8, config=VINIFERA) as found:
            trial, memory = Trial(found), found.memory
            assert memory is not None
            trial.want_all(stories)
            await trial.ready()
            lost = found.nodes[3]
            memory.unreachable.add(lost.id)
            memory.freeze(lost.id)
            memory.cut(lost.id)
            found.nodes[3] = await found.make().start()
            await until(lambda: not any(lost.id in near(node) for node in found.nodes), "nobody counts on it")
            for _, wants, _ in stories:
                if wants[3].filters:
                    trial.want(3, wants[3])
            assert await trial.check(publications(stories, 8), durable=False) > 20
            memory.thaw(lost.id)
            await lost.close()

    live(main())


def test_nodes_that_move_lose_nothing() -> None:
    """All events have nearly the same values, and whoever owns these has much more to do than others."""

    async def main() -> None:
        config = replace(VINIFERA, vinifera=ViniferaSettings(beta=1))
        async with village(8, config=config) as found:
            key, trial = stream(7, 0, 0, 0), Trial(found)
            for node in range(6):
                low = below(key, node, 20)
                trial.want(
                    node, parse_filter_set(SCHEMA, f"price between {low} and {low + 15} and count < 90")
                )
            given = [
                Publication(
                    n % 8,
                    SCHEMA,
                    SCHEMA.event(order(below(key, 100 + n, 4000) / 100, count=below(key, 500 + n, 100))),
                )
                for n in range(200)
            ]
            assert await trial.check(given, durable=False, pause=10) > 200
            assert sum(node._driver.counters["load_balance.moves"] for node in found.nodes) > 5

    live(main())


def test_two_nodes_at_one_place_step_aside() -> None:
    async def main() -> None:
        async with village(5, config=STILL) as found:
            trial = Trial(found)
            for node in range(5):
                trial.want(
                    node, parse_filter_set(SCHEMA, f"price between {100 * node} and {100 * node + 300}")
                )
            await trial.ready()
            places = [node._driver.peer_table.profiles.place for node in found.nodes]
            for place in places[1:3]:
                place[ME] = places[0][ME]
            await until(lambda: len({int(place[ME]) for place in places}) == 5, "all are apart")
            given = [Publication(n % 5, SCHEMA, SCHEMA.event(order(40 * n))) for n in range(20)]
            assert await trial.check(given, durable=False) > 20

    live(main())


def test_over_real_sockets() -> None:
    async def main() -> None:
        stories = drawn_stories(4, nodes=6, each=4)
        async with village(6, sockets=True, config=replace(VINIFERA, period_s=0.3)) as found:
            trial = Trial(found)
            trial.want_all(stories)
            assert await trial.check(publications(stories, 6), durable=True) > 10

    live(main())


# Settings.


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        ([("vinifera.table_size", 3)], "--set: vinifera.table_size must be at least 4, not 3"),
        (
            [("vinifera.table_size", 8), ("vinifera.long_links", 7)],
            "--set: vinifera: long_links + 2 must be at most table_size (8), not 9",
        ),
        ([("vinifera.beta", -1)], "--set: vinifera.beta must be at least 0, not -1"),
        ([("vinifera.requests", 1)], "--set: vinifera.requests must be at least 64, not 1"),
        ([("vinifera.betta", 1)], "--set: unknown key vinifera.betta (did you mean beta?)"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(pairs: list[tuple[str, Any]], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve(None, {}, {}, pairs)
    assert str(caught.value) == sentence


def test_settings_reach_the_machine() -> None:
    environment = {"VINECAST_NODE_SYSTEM": "vinifera", "VINECAST_NODE_VINIFERA_TABLE_SIZE": "9"}
    found = resolve(None, environment, {}, [("vinifera.long_links", 2), ("vinifera.beta", 7)])
    own = vinifera_config(found.config)
    assert (own.tman.table_size, own.long_links, own.beta) == (9, 2, 7)
    assert own.period_us == 1_000_000
    assert "[vinifera]\ntable_size = 9\n" in to_toml(found)
