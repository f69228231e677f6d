"""Content on live nodes: schemas that others find, events that match and no others, also when replayed."""

import re
from pathlib import Path

import pytest

from support.content import SCHEMA
from support.node.live import live, settled, take, until, village
from support.paths import DOCS
from vinecast.core.content.filters import everything
from vinecast.core.content.filters_index import INDEXED_FROM
from vinecast.core.content.filters_text import parse_filter_set
from vinecast.core.content.names import SCHEMA as HEADER
from vinecast.core.content.names import digest_of
from vinecast.core.content.schemas import Attribute, Schema
from vinecast.core.content.schemas_text import parse_schema
from vinecast.core.errors import InputError
from vinecast.node.api.node import Node
from vinecast.node.api.subscription import Event
from vinecast.node.api.sync import SyncNode
from vinecast.peer.content import ANOTHER_SCHEMA, NOT_ALLOWED

CHEAP = 'price < 10 and order = "buy"'


def order(price: float, order: str = "buy", count: int = 1) -> dict[str, object]:
    return {"price": price, "order": order, "count": count, "at": "2026-05-01T12:00:00Z"}


def prices(events: list[Event]) -> list[float]:
    return sorted(float(event.values["price"]) for event in events)


# Between nodes


@pytest.mark.parametrize("durable", [True, False])
def test_a_subscriber_gets_what_matches_and_nothing_else(durable: bool) -> None:
    async def main() -> None:
        async with village(3) as found:
            first, second, third = found.nodes
            async with (
                second.subscribe(SCHEMA, filter=CHEAP) as cheap,
                third.subscribe(SCHEMA, filter="price >= 10 or count = 7") as dear,
                third.subscribe(SCHEMA) as everything_,
            ):
                await settled(found)
                await until(lambda: "stocks" in first.known_topics(), "the publisher knows a subscriber")
                orders = [order(5), order(50), order(9.5), order(5, "sell"), order(1, "sell", 7), order(9.75)]
                for one in orders[:2]:
                    await first.publish(SCHEMA, one, durable=durable)
                await first.publish_all(SCHEMA, orders[2:], durable=durable)
                assert prices(await take(cheap, 3)) == [5, 9.5, 9.75]
                assert prices(await take(dear, 2)) == [1, 50]
                assert prices(await take(everything_, 6)) == [1, 5, 5, 9.5, 9.75, 50]
                assert (cheap.waiting, dear.waiting) == (0, 0)

    live(main())


def test_schemas_are_found_by_others_over_sockets() -> None:
    async def main() -> None:
        async with village(3, sockets=True) as found:
            owner, other = found.nodes[0], found.nodes[2]
            await until(lambda: len(other._peer.peer_table.known()) == 2, "everybody known")
            await owner.schemas.create(SCHEMA, "orders of a day")
            await owner.names.create("plain")
            key = owner._peer.peer_table.card.public
            schema = await other.schemas.find("stocks", key)
            assert schema == SCHEMA == await owner.schemas.find("stocks")
            with pytest.raises(InputError, match="the topic 'plain' has no schema"):
                await other.schemas.find("plain", key)
            with pytest.raises(InputError, match="nobody knows a topic 'stocks' of this node's own"):
                await other.schemas.find("stocks")
            fork = await other.names.fork("stocks", key, "mine/stocks")
            assert (
                fork.descriptor.metadata["schema"]
                == (await other.names.show("mine/stocks")).told["metadata"]["schema"]
            )
            mine = await owner.schemas.find("mine/stocks", other._peer.peer_table.card.public)
            assert (mine.name, mine.attributes) == ("mine/stocks", SCHEMA.attributes)
            async with other.subscribe(schema, filter=CHEAP) as cheap:
                await until(lambda: "stocks" in owner.known_topics(), "the publisher knows the subscriber")
                await owner.publish(schema, order(11))
                await owner.publish(schema, order(9))
                assert prices(await take(cheap, 1)) == [9]

    live(main())


def test_a_schema_that_cannot_be_read_is_the_callers_to_know() -> None:
    async def main() -> None:
        async with village(1) as found:
            (node,) = found.nodes
            await node.names.create("odd", {"schema": "price money"})
            with pytest.raises(
                InputError, match="the schema of 'odd' cannot be read: price needs a type here"
            ):
                await node.schemas.find("odd")

    live(main())


def test_a_replay_is_filtered_and_a_consumer_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with village(1) as found:
            (other,) = found.nodes
            node = await found.add(folder=tmp_path)
            identity = node._identity
            await until(lambda: bool(node._peer.peer_table.known()), "they have met")
            await other.publish_all(SCHEMA, [order(n % 20, count=n % 100) for n in range(600)])
            filter_like = "price = 3 and count < 50"
            expected = [3 + 20 * n for n in range(30) if (3 + 20 * n) % 100 < 50]

            def counts(events: list[Event]) -> list[object]:
                return [event.values["count"] for event in events]

            reader = node.subscribe(SCHEMA, start="earliest", consumer="me", filter=filter_like)
            begun = await take(reader, 4)
            assert counts(begun) == [n % 100 for n in expected[:4]]
            await reader.ack(begun[-1])
            await node.close()
            found.nodes.remove(node)
            node = await found.add(folder=tmp_path, identity=identity)
            reader = node.subscribe(SCHEMA, start="earliest", consumer="me", filter=filter_like)
            rest = await take(reader, len(expected) - 4)
            assert counts(rest) == [n % 100 for n in expected[4:]]
            nothing = node.subscribe(SCHEMA, start="earliest", filter="nothing")
            await other.publish(SCHEMA, order(3, count=49))
            assert counts(await take(reader, 1)) == [49]
            assert nothing.waiting == 0

    live(main())


def test_what_is_no_event_of_the_schema_is_counted_and_left_out() -> None:
    async def main() -> None:
        async with village(2) as found:
            first, second = found.nodes
            narrow = Schema("stocks", (Attribute("price", "number", 0, 5),))
            async with second.subscribe(SCHEMA) as reader:
                await until(lambda: "stocks" in first.known_topics(), "the publisher knows the subscriber")
                await first.publish("stocks", "not of any schema")
                await first.publish(narrow, {"price": 1})
                headers = {HEADER: digest_of(SCHEMA)}
                for bad in ("[1]", '{"price": NaN}', '{"price": 1e9}', "[" * 100_000, '{"price": 1}'):
                    await first.publish(SCHEMA.name, bad, headers)
                await first.publish(SCHEMA, order(1))
                assert prices(await take(reader, 1)) == [1]
                counters = second.stats()["counters"]
                assert (counters[ANOTHER_SCHEMA], counters[NOT_ALLOWED]) == (2, 5)

    live(main())


def test_what_cannot_be_is_one_sentence() -> None:
    async def main() -> None:
        async with village(1) as found:
            (node,) = found.nodes
            narrow = Schema("narrow", (Attribute("price", "number", 0, 5),))
            with pytest.raises(InputError, match="a filter goes with a schema"):
                node.subscribe("stocks", filter="price < 3")
            with pytest.raises(InputError, match="did you mean price"):
                node.subscribe(SCHEMA, filter="prise < 3")
            with pytest.raises(InputError, match=r"another schema \(narrow\) than stocks"):
                node.subscribe(SCHEMA, filter=everything(narrow))
            with pytest.raises(InputError, match="a filter is a string"):
                node.subscribe(SCHEMA, filter=3)  # type: ignore[arg-type]
            with pytest.raises(InputError, match="go up to 0"):
                node.subscribe(SCHEMA, start=9, filter="price < 3")
            with pytest.raises(InputError, match="is a mapping of attributes to values, not str"):
                await node.publish(SCHEMA, "15:0")
            with pytest.raises(InputError, match="an event of stocks lacks count, at, order"):
                await node.publish(SCHEMA, {"price": 3})
            with pytest.raises(InputError, match="price must be from 0 to 1000, not 2000"):
                await node.publish_all(SCHEMA, [order(1), order(2000)])
            with pytest.raises(InputError, match="a payload is bytes or a string"):
                await node.publish("stocks", {"price": 3})
            assert node.topics() == []

    live(main())


def test_without_await() -> None:
    with SyncNode() as node, node.subscribe(SCHEMA, filter=CHEAP) as reader:
        node.publish_all(SCHEMA, [order(99), order(3)])
        assert reader.next(30).values == order(3)


# At its desks


def test_the_index_is_made_beside_the_loop() -> None:
    async def main() -> None:
        async with village(1) as found:
            (node,) = found.nodes
            readers = [node.subscribe(SCHEMA, filter=f"count = {n}") for n in range(INDEXED_FROM)]
            (desk,) = node._peer.subscriptions._desks.values()
            await node.publish(SCHEMA, order(1, count=3))
            await until(lambda: desk._index is not None, "the index is there")
            await node.publish(SCHEMA, order(2, count=3))
            assert prices(await take(readers[3], 2)) == [1, 2]
            assert sum(reader.waiting for reader in readers) == 0
            for reader in readers:
                await reader.close()
            assert (len(desk), desk.filters) == (0, 0)

    live(main())


def test_a_node_forgets_desks_that_nobody_uses() -> None:
    async def main() -> None:
        async with village(1) as found:
            node: Node = found.nodes[0]
            for n in range(5):
                schema = Schema(f"s{n}", SCHEMA.attributes)
                async with node.subscribe(schema):
                    assert len(node._peer.subscriptions._desks) == 1

    live(main())


# What the documentation shows


def test_the_examples_of_the_documentation(capsys: pytest.CaptureFixture[str]) -> None:
    text = (DOCS / "content.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(example, "docs/content.md", "exec"), {"__name__": "__main__"})
    cheap, again = capsys.readouterr().out.splitlines()
    assert cheap == "{'price': 9.5, 'order': 'buy'}"
    assert again == "again: {'price': 12.0, 'order': 'buy'}"


def test_the_schemas_and_filters_of_the_documentation() -> None:
    text = (DOCS / "content.md").read_text()
    schema = parse_schema("stocks", re.findall(r"^`(price number.*)`$", text, re.MULTILINE)[0])
    assert schema == SCHEMA
    for row in re.findall(r"^\| (`.*?) \| ", text.split("## Filters")[1], re.MULTILINE):
        for condition in re.findall(r"`([^`]+)`", row):
            assert " " not in condition or parse_filter_set(schema, condition).filters
    with pytest.raises(InputError) as refused:
        parse_filter_set(schema, 'order = "buy" and prise < 10')
    assert str(refused.value) in text
