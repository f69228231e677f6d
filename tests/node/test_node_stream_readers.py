"""Readers of durable streams on live nodes: where they begin, what they are spared, where they go on."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from support.node.live import FAST, PATIENCE_S, live, take, until, village
from support.node.streams import payloads, read
from vinecast.core.errors import InputError
from vinecast.node.api.node import Node
from vinecast.peer.streams import publisher_probe


def test_now_earliest_an_offset_and_an_id() -> None:
    async def main() -> None:
        async with village(2) as found:
            one, other = found.nodes
            await other.subscribe("news").ready()
            receipts = await one.publish_all("news", ["a", "b", "c"])
            await until(lambda: other._peer.streams.safe_position("news") == 3)
            now = other.subscribe("news")
            assert payloads(await read(other, "news", 3, start="earliest")) == [b"a", b"b", b"c"]
            assert payloads(await read(other, "news", 3, start=0)) == [b"a", b"b", b"c"]
            assert payloads(await read(other, "news", 2, start=1)) == [b"b", b"c"]
            assert payloads(await read(other, "news", 1, start=receipts[1].id)) == [b"c"]
            await one.publish("news", "d")
            assert payloads(await take(now, 1)) == [b"d"]
            assert payloads(other.log("news")) == [b"a", b"b", b"c", b"d"]
            assert payloads(other.log("news", receipts[1].id, 1)) == [b"c"]
            stranger = receipts[0].id[:-3] + "aaa"
            for start in (-1, 9, True, None, "yesterday", stranger):
                with pytest.raises(InputError):
                    other.subscribe("news", start)  # type: ignore[arg-type]
            with pytest.raises(InputError):
                other.subscribe("news/#", 1)
            with pytest.raises(InputError):
                other.log("news", stranger)
            assert len(other._peer.subscriptions._by_topic["news"]) == 6

    live(main())


def test_who_began_now_is_spared_the_history_that_another_reader_fetches() -> None:
    async def main() -> None:
        async with village(1) as found:
            (one,) = found.nodes
            one.subscribe("news")
            await one.publish_all("news", ["old", "older"])
            other = await found.add()
            reader = await other.subscribe("news").ready()
            await until(lambda: other._peer.streams.repair.topics["news"].opened, "where it begins is known")
            await one.publish("news", "new")
            assert payloads(await take(reader, 1)) == [b"new"]
            events = await read(other, "news", 3, start="earliest")
            assert sorted(payloads(events)) == [b"new", b"old", b"older"]
            await one.publish("news", "newest")
            assert payloads(await take(reader, 1)) == [b"newest"]

    live(main())


def test_who_began_now_is_spared_a_branch_that_it_hears_of_later() -> None:
    async def main() -> None:
        async with village(1) as found:
            (one,) = found.nodes
            one.subscribe("news")
            await one.publish("news", "a branch of one event")
            far = await found.add(join=[])
            far.subscribe("news")
            await far.publish_all("news", ["another", "of three", "events"])
            late = await found.add(join=[one.address])
            new = await late.subscribe("news").ready()
            await until(lambda: late._peer.streams.repair.is_level("news"), "the first branch is known")
            await found.add(join=[one.address, far.address])
            await until(lambda: b"events" in payloads(late.log("news")), "so is the other")
            await one.publish("news", "new")
            assert payloads(await take(new, 1)) == [b"new"]

    live(main())


def test_a_guest_follows_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        for bound in ("MOMENT_US", "LONGEST_US"):
            monkeypatch.setattr(publisher_probe, bound, round(PATIENCE_S * 1e6))
        async with village(8) as found:
            readers = found.nodes[:2]
            for node in readers:
                node.subscribe("news")
            await until(lambda: all(node._peer.is_ready("news") for node in readers), "rings complete")
            await until(
                lambda: all(len(n._peer.peer_table.known()) == 7 for n in found.nodes), "everybody known"
            )
            await readers[0].publish_all("news", [b"%d" % n for n in range(5)])

            def strangers() -> list[Node]:
                return [node for node in found.nodes if "news" not in node._peer.streams.repair.topics]

            def have(count: int) -> bool:
                known = [node for node in found.nodes if node not in strangers()]
                return len(known) >= 3 and all(len(node.log("news")) == count for node in known)

            await until(lambda: have(5), "readers and replicas have all")
            await asyncio.gather(*(strangers()[0].publish("news", f"guest {n}") for n in range(3)))
            await until(lambda: all(len(node.log("news")) == 8 for node in readers), "readers have it")
            heights = [event._signed.record.height for event in readers[0].log("news")]
            assert heights == list(range(1, 9))

    live(main())


def test_a_guest_of_a_stream_that_nobody_has_does_not_wait_for_ever() -> None:
    async def main() -> None:
        async with village(3) as found:
            guest = found.nodes[0]
            await until(lambda: len(guest._peer.peer_table.known()) == 2, "everybody known")
            receipts = await guest.publish_all("new", [b"a", b"b"])
            assert found.memory is not None
            for node in found.nodes[1:]:
                found.memory.freeze(node.id)
            guest._peer.publishing._wait_us = 100_000
            guest._peer.publishing._expiring.clear()  # the first have their receipts
            await guest.publish("new too", b"c")
            for node in found.nodes[1:]:
                found.memory.thaw(node.id)
            assert [event.id for event in guest.log("new")] == [receipt.id for receipt in receipts]
            assert guest.log("new too")[0]._signed.record.height == 1

    live(main())


def test_a_slow_reader_of_a_stream_misses_nothing() -> None:
    async def main() -> None:
        async with village(2, config=replace(FAST, waiting=10)) as found:
            one, other = found.nodes
            reader = await other.subscribe("news").ready()
            said = [b"%d" % n for n in range(300)]
            await one.publish_all("news", said)
            await until(lambda: other._peer.streams.safe_position("news") == 300)
            assert reader.waiting <= 10
            assert payloads(await take(reader, 300)) == said
            assert reader.dropped == 0

    live(main())


def test_a_consumer_goes_on_where_it_was(tmp_path: Path) -> None:
    async def main() -> None:
        async with village(1) as found:
            (publisher,) = found.nodes
            node = await found.add(folder=tmp_path)
            identity = node._identity
            reader = await node.subscribe("orders", "earliest", "billing").ready()
            await publisher.publish_all("orders", [b"%d" % n for n in range(6)])
            events = await take(reader, 6)
            for event in events[:4]:
                await reader.ack(event)
            again = node.subscribe("orders", "earliest", "billing")
            assert payloads(await take(again, 2)) == [b"4", b"5"]
            await node.close()
            found.nodes.remove(node)
            await publisher.publish("orders", b"6")
            node = await found.add(folder=tmp_path, identity=identity)
            reader = node.subscribe("orders", consumer="billing")
            assert payloads(await take(reader, 3)) == [b"4", b"5", b"6"]
            other = node.subscribe("orders", "earliest", "shipping")
            assert payloads(await take(other, 7)) == [b"%d" % n for n in range(7)]
            with pytest.raises(InputError):
                await node.subscribe("orders").ack(events[0])

    live(main())


def test_patterns_read_streams_too() -> None:
    async def main() -> None:
        async with village(2) as found:
            one, other = found.nodes
            await one.subscribe("a/b").ready()
            await one.publish("a/b", b"1")
            reader = other.subscribe("a/#", "earliest", "me")
            (event,) = await take(reader, 1)
            assert (event.topic, event.payload) == ("a/b", b"1")
            await reader.ack(event)

    live(main())


def test_who_publishes_while_it_joins_follows_what_the_stream_has() -> None:
    async def main() -> None:
        async with village(3, sockets=True) as found:
            reader = found.nodes[2].subscribe("news")
            await reader.ready()
            said = [b"%d" % number for number in range(10)]
            await found.nodes[1].publish_all("news", said)
            async with found.make() as guest:
                await guest.publish("news", b"last")
            assert [event.payload for event in await take(reader, 11)] == [*said, b"last"]
            log = found.nodes[2].log("news")
            assert [event.payload for event in log] == [*said, b"last"]

    live(main())
