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
from vinecast.lab.localnet.attacker import Attacker
from vinecast.node.api.node import Node
from vinecast.node.api.subscription import Subscription
from vinecast.peer import subscriptions
from vinecast.peer.links import CROWDED
from vinecast.peer.receipt import Receipt

NARROW = replace(FAST.transport, frame_bytes_max=300 * 1024, queue_bytes_max=301 * 1024)
"""Queues that a few large events fill."""


async def ready(found: Village, topic: str = "news") -> list[Subscription]:
    """Everybody reads a topic, and its ring is complete."""
    readers = [node.subscribe(topic) for node in found.nodes]
    await until(lambda: all(node._peer.is_ready(topic) for node in found.nodes), "rings complete")
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
            published, arrived = 0, subscriber._peer.counters
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
        await until(lambda: node._peer.peer_table.number_of(peer) >= 0, "the deaf peer is known")
        while transport.send(peer, None, bytes(50_000)):
            await asyncio.sleep(0)
        assert transport.pressure(peer) > CROWDED
        yield
    finally:
        await deaf.leave()


def is_crowded(node: Node, topic: str) -> bool:
    """Whether a peer that events of a topic may go to has a crowded queue now."""
    node._driver._look_at_queues()
    return node._peer.is_crowded(topic)


def test_a_slow_neighbour_holds_back_its_own_topics_only() -> None:
    async def main() -> None:
        # Who answers later than a period is no neighbour for a while: on a busy machine it must not be short.
        config = replace(FAST, period_s=0.5, publish_wait_s=0.0, transport=NARROW)
        async with village(2, sockets=True, config=config) as found:
            one = found.nodes[0]
            _, reader = await ready(found)
            async with stuffed(one, found):
                assert is_crowded(one, "slow")
                assert not is_crowded(one, "nobody's")
                for n in range(20):
                    assert (await one.publish("news", str(n), durable=False)).neighbours == 1
                    async with asyncio.timeout(30):
                        assert (await anext(reader)).payload == str(n).encode()
                with pytest.raises(OverloadedError):
                    await one.publish("slow", b"to it alone", durable=False)
            await until(lambda: not is_crowded(one, "slow"))

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
            while not is_crowded(one, "news"):
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


def test_what_waits_for_a_reader_is_bounded_in_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "WAITING_BYTES", 4 * 1024 * 1024)

    async def main() -> None:
        async with village(1) as found:
            (node,) = found.nodes
            reader = node.subscribe("news")

            async def publish(events: int) -> None:
                await node.publish_all("news", [bytes(256 * 1024)] * events, durable=False)

            room = 15  # a block is a little more than its payload
            await publish(room + 5)
            assert (reader.waiting, reader.dropped) == (room, 5)
            await anext(reader)
            await publish(2)
            assert (reader.waiting, reader.dropped) == (room, 6)
            for _ in range(room):
                await anext(reader)
            assert reader.waiting == 0
            await publish(room + 5)
            assert (reader.waiting, reader.dropped) == (room, 11)

    live(main())
