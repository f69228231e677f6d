"""More than can be carried or read: memory stays bounded, nobody waits for ever, and every event is either
delivered or counted as dropped with its reason."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from support.node.live import FAST, Village, live, until, village
from vinecast.core.errors import OverloadedError
from vinecast.core.log.batch_signature import sign_events
from vinecast.core.log.event_record import EventRecord
from vinecast.lab.localnet.attacker import Attacker
from vinecast.node.api.node import Node
from vinecast.node.api.publisher import CROWDED
from vinecast.node.api.receipt import Receipt
from vinecast.node.api.subscription import WAITING_BYTES, Event, Subscription
from vinecast.node.storage.identity_file import make_identity
from vinecast.peer.topics import Pattern

NARROW = replace(FAST.transport, frame_bytes_max=300 * 1024, queue_bytes_max=301 * 1024)
"""Queues that a few large events fill."""


async def ready(found: Village, topic: str = "news") -> list[Subscription]:
    """Everybody reads a topic, and its ring is complete."""
    readers = [node.subscribe(topic) for node in found.nodes]
    await until(lambda: all(node._driver.is_ready(topic) for node in found.nodes), "rings complete")
    return readers


async def attempt(node: Node, topic: str, payload: bytes) -> Receipt | None:
    """Publish; None when the node refuses."""
    try:
        return await node.publish(topic, payload, durable=False)
    except OverloadedError:
        return None


@pytest.mark.parametrize("sockets", [False, True], ids=["memory", "sockets"])
def test_ten_times_faster_than_the_reader(sockets: bool) -> None:
    """The publisher goes on; what finds no room at the reader's is counted, and the sums are exact."""

    async def main() -> None:
        async with village(2, sockets, config=replace(FAST, waiting=100)) as found:
            publisher, subscriber = found.nodes
            mine, reader = await ready(found)
            read: list[int] = []
            published, arrived = 0, subscriber._driver.counters
            for _ in range(100):
                batch = range(published, published + 20)
                published += len(batch)
                await asyncio.gather(*(publisher.publish("news", str(n), durable=False) for n in batch))
                while arrived["events received first"] < published:
                    await asyncio.sleep(0)
                read += [int((await anext(reader)).payload) for _ in range(2)]  # one in ten
                assert reader.waiting <= 100
            assert len(read) + reader.waiting + reader.dropped == published
            assert subscriber.stats()["dropped"] == reader.dropped > 0
            assert subscriber.stats()["counters"]["dropped: subscriber too slow"] == reader.dropped
            assert mine.waiting + mine.dropped == published  # nobody reads here at all
            assert read == sorted(set(read))  # in order, each once
            assert not any("peer cannot take more" in reason for reason in publisher.stats()["counters"])

    live(main())


def test_many_publishers_faster_than_the_network() -> None:
    """Each event reaches the other node, or its publisher is told that it did not, or that it must wait."""

    async def main() -> None:
        config = replace(FAST, period_s=0.5, publish_wait_s=0.02, transport=NARROW)
        async with village(2, config=config) as found:
            one = found.nodes[0]
            _, reader = await ready(found)
            assert found.memory is not None
            found.memory.delay_s = lambda sender, receiver: 0.005
            size, rounds, at_once = 20_000, 10, 40
            receipts: list[Receipt | None] = []
            transport: Any = one._driver.transport
            for n in range(rounds):
                payloads = [n.to_bytes(2, "big") + bytes(size) for _ in range(at_once)]
                receipts += await asyncio.gather(*(attempt(one, "news", data) for data in payloads))
                assert all(
                    connection.queue.queued_bytes <= NARROW.queue_bytes_max
                    for connection in transport._connections
                )
            taken = sum(receipt is not None and receipt.neighbours == 1 for receipt in receipts)
            lost = sum(receipt is not None and receipt.neighbours == 0 for receipt in receipts)
            refused = sum(receipt is None for receipt in receipts)
            counters = one.stats()["counters"]
            assert taken + lost + refused == rounds * at_once
            assert taken > 0
            assert lost + refused > 0  # it was too much
            assert counters.get("refused: publisher too fast", 0) == refused
            assert counters.get("dropped: peer cannot take more", 0) >= lost
            async with asyncio.timeout(30):
                got = [(await anext(reader)).id for _ in range(taken)]
            assert len(set(got)) == taken
            await one.publish("news", b"room again", durable=False)
            async with asyncio.timeout(30):
                assert (await anext(reader)).payload == b"room again"

    live(main())


@asynccontextmanager
async def stuffed(node: Node, found: Village) -> AsyncIterator[None]:
    """A peer that subscribes to ``slow``, never reads, and whose queue is full; it leaves at the end."""
    deaf = await Attacker(found.network).connect(node.address, reads=False)
    try:
        await deaf.shake_hands()
        await deaf.send(deaf.introduction(["slow"]))
        transport, peer = node._driver.transport, deaf.identity.id
        await until(lambda: node._driver.peer_table.number_of(peer) >= 0, "the deaf peer is known")
        while transport.send(peer, None, bytes(50_000)):
            await asyncio.sleep(0)
        assert transport.pressure(peer) > CROWDED
        yield
    finally:
        await deaf.leave()


def test_a_slow_neighbour_holds_back_its_own_topics_only() -> None:
    async def main() -> None:
        # Who answers later than a period is no neighbour for a while: on a busy machine it must not be short.
        config = replace(FAST, period_s=0.5, publish_wait_s=0.0, transport=NARROW)
        async with village(2, sockets=True, config=config) as found:
            one = found.nodes[0]
            _, reader = await ready(found)
            async with stuffed(one, found):
                assert one._driver.is_crowded("slow", CROWDED)
                assert not one._driver.is_crowded("nobody's", CROWDED)
                for n in range(20):
                    assert (await one.publish("news", str(n), durable=False)).neighbours == 1
                    async with asyncio.timeout(30):
                        assert (await anext(reader)).payload == str(n).encode()
                with pytest.raises(OverloadedError):
                    await one.publish("slow", b"to it alone", durable=False)
            await until(lambda: not one._driver.is_crowded("slow", CROWDED))

    live(main())


def test_a_publisher_waits_for_room_and_goes_on_when_there_is() -> None:
    async def main() -> None:
        config = replace(FAST, period_s=0.5, publish_wait_s=20.0, transport=NARROW)
        async with village(2, config=config) as found:
            one, other = found.nodes
            _, reader = await ready(found)
            assert found.memory is not None
            found.memory.freeze(other.id)
            published = 0
            while not one._driver.is_crowded("news", CROWDED):
                await one.publish("news", bytes(30_000), durable=False)
                published += 1
            waiting = asyncio.create_task(one.publish("news", b"last", durable=False))
            await asyncio.wait([waiting], timeout=0.05)
            assert not waiting.done()
            found.memory.thaw(other.id)
            assert (await waiting).neighbours == 1
            async with asyncio.timeout(30):
                got = [await anext(reader) for _ in range(published + 1)]
            assert got[-1].payload == b"last"

    live(main())


def test_what_waits_for_a_reader_is_bounded_in_bytes_too() -> None:
    async def nothing(subscription: Subscription) -> None:
        pass

    async def main() -> None:
        who = make_identity()
        (large,) = sign_events("test", [EventRecord("news", who.public, 1, 0, bytes(256 * 1024))], who.sign)
        reader = Subscription(Pattern.parse("news"), 10_000, nothing, nothing)
        room = WAITING_BYTES // len(large.block)
        assert [reader._offer(Event(large, 0)) for _ in range(room + 5)] == [True] * room + [False] * 5
        assert (reader.waiting, reader.dropped) == (room, 5)
        await anext(reader)
        assert reader._offer(Event(large, 0))
        for _ in range(room):
            await anext(reader)
        assert (reader.waiting, reader._waiting_bytes) == (0, 0)

    live(main())
