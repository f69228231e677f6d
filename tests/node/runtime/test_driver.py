"""The driver carries out all that a peer asks for, whatever the transport makes of it."""

import asyncio
from dataclasses import replace

from support.node.live import live, until, village
from vinecast.node.transport.memory_transport import MemoryTransport
from vinecast.peer.inputs import Draft, PublishTurn, QueuesCrowded
from vinecast.peer.outputs import SendFrame
from vinecast.peer.wire.messages import Introduction, encode
from vinecast.systems.common.router import ME


def test_a_frame_that_is_too_large_is_turned_away_and_the_rest_carried_out() -> None:
    async def main() -> None:
        async with village(2) as found:
            one, other = found.nodes
            await until(lambda: other.id in one._driver.transport.connections())
            driver, peer = one._driver, one._peer
            for number in range(10):
                one.subscribe(f"{number}/{'long' * 40}")
            own = peer.peer_table.describe(ME, 0)
            assert own is not None
            too_large, transport = encode(Introduction(own)), driver.transport
            assert isinstance(transport, MemoryTransport)
            transport.config = replace(transport.config, frame_bytes_max=1024)
            driver._handle = lambda what, now_us: [
                *peer.handle(what, now_us),
                *([SendFrame(other.id, None, too_large, 1)] if isinstance(what, PublishTurn) else ()),
            ]
            unsent = peer.counters["dropped: peer cannot take more"]
            driver.publish("0", (), durable=False)
            driver.end_turn()
            assert transport.counters["dropped: frame too large"] >= 1
            assert peer.counters["dropped: peer cannot take more"] >= unsent + 1
            assert await one.next_cycle()

    live(main())


def test_what_nobody_waits_for_any_longer_is_not_published() -> None:
    async def main() -> None:
        async with village(2) as found:
            one, other = found.nodes
            subscription = await other.subscribe("news").ready()
            await until(lambda: "news" in one.known_topics())
            driver = one._driver
            driver.withdraw(driver.publish("news", (Draft(b"taken back", {}, 1_000_000, 1),), durable=False))
            driver.feed(QueuesCrowded(frozenset({other.id})))
            waits = asyncio.create_task(one.publish("news", b"given up", durable=False))
            await asyncio.sleep(0.02)
            assert not waits.done()
            waits.cancel()
            await asyncio.gather(waits, return_exceptions=True)
            driver.feed(QueuesCrowded(frozenset()))
            await one.publish("news", b"wanted", durable=False)
            assert (await anext(subscription)).payload == b"wanted"

    live(main())
