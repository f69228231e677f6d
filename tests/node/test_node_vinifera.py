"""Vinifera on live nodes: events routed by their content, to those who want them and to nobody else."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.content import SCHEMA
from support.node.live import live, settled, take, until, village
from support.node.vinifera_stories import (
    VINIFERA,
    Trial,
    drawn_stories,
    filters_of,
    machine_of,
    order,
    prices,
    publications,
)
from vinecast.core.content.schemas_text import parse_schema
from vinecast.core.errors import InputError
from vinecast.node.api.settings import resolve, to_toml
from vinecast.node.api.subscription import Event
from vinecast.peer.content import ROUTED_MAX
from vinecast.peer.streams.replicas import replica_key
from vinecast.protocols.kademlia import point_of
from vinecast.systems.common.router import ME
from vinecast.systems.vinifera.router import vinifera_config

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
            await until(lambda: all(n._peer.count_others() == 5 for n in found.nodes), "all have met")
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
            assert found.nodes[1]._peer.neighbours() == {}
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
            assert found.nodes[1]._peer.peer_table.names_of(ME) == ()
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
                lambda: not any(any(each._peer.peer_table.topics._uses) for each in found.nodes),
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
            await until(lambda: publisher._peer.count_others() == 2, "they have met")
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
            arrivals, held = node._peer.streams._arrivals, list[tuple[Any, ...]]()
            came = arrivals._take_carried
            monkeypatch.setattr(arrivals, "_take_carried", lambda *frame: held.append(frame))
            publishing = asyncio.create_task(publisher.publish(SCHEMA, order(5)))
            await until(lambda: readers[1].waiting == 1 and bool(held), "it was fetched, and came")
            assert readers[0].waiting == 0
            for frame in held:
                came(*frame)
            await publishing
            assert [event.values["price"] for event in readers[0]._events] == [5]

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
