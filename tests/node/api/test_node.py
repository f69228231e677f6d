"""Live nodes end to end: over memory where faults are made, over TLS sockets where it must be real."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.node.live import FAST, live, settled, take, until, village
from vinecast.core.errors import ClosedError, InputError, OverloadedError
from vinecast.core.log.batch_signature import sign_events
from vinecast.core.log.event_record import EventRecord
from vinecast.node.api.node import Node
from vinecast.node.storage.identity_file import make_identity
from vinecast.peer.wire.messages import EventFrame, encode
from vinecast.systems.common.router import ME

BOTH = pytest.mark.parametrize("sockets", [False, True], ids=["memory", "sockets"])


def neighbours(node: Node) -> list[bytes]:
    """Everybody on its rings."""
    numbers = node._peer.machine.rings.peers.ravel().tolist()
    return [node._peer.peer_table.id_of(number) for number in numbers if number >= 0]


@BOTH
def test_an_event_reaches_exactly_its_subscribers_once_each(sockets: bool) -> None:
    async def main() -> None:
        async with village(8, sockets) as found:
            topics = [f"t/{i}" for i in range(6)]
            readers = [
                {topic: node.subscribe(topic) for i, topic in enumerate(topics) if (i + n) % 3 != 0}
                for n, node in enumerate(found.nodes)
            ]
            await settled(found)
            for n, node in enumerate(found.nodes):
                for topic in topics:
                    receipt = await node.publish(topic, f"{n} on {topic}")
                    assert receipt.id.startswith("bafy")
                    assert receipt.neighbours >= 1
            for mine in readers:
                for topic, reader in mine.items():
                    got = [event.payload.decode() for event in await take(reader, len(found.nodes))]
                    assert sorted(got) == sorted(f"{n} on {topic}" for n in range(len(found.nodes)))
            for mine in readers:
                assert all(reader.waiting == 0 for reader in mine.values())

    live(main())


@BOTH
def test_what_is_read_is_what_was_published(sockets: bool) -> None:
    async def main() -> None:
        async with village(2, sockets) as found:
            one, other = found.nodes
            reader = await other.subscribe("sports/tennis").ready()
            receipt = await one.publish("sports/tennis", b"15:0", {"court": "1", "raw": b"\x00"})
            (event,) = await take(reader, 1)
            assert (event.topic, event.payload) == ("sports/tennis", b"15:0")
            assert event.headers == {"court": "1", "raw": b"\x00"}
            assert event.id == receipt.id
            assert event.publisher == one._peer.peer_table.card.public
            assert (
                event.hops == 0
            )  # the first subscriber, to whom a publisher without a subscription hands it

    live(main())


def test_a_ready_subscriber_misses_nothing_from_then_on() -> None:
    async def main() -> None:
        async with village(6) as found:
            publisher = found.nodes[0]
            await publisher.subscribe("news").ready()
            for node in found.nodes[1:]:
                reader = await node.subscribe("news").ready()
                await publisher.publish("news", b"now")
                assert [event.payload for event in await take(reader, 1)] == [b"now"]

    live(main())


def test_an_event_that_overtakes_the_introduction_is_taken_all_the_same() -> None:
    async def main() -> None:
        async with village(3) as found:
            readers = [node.subscribe("news") for node in found.nodes]
            await settled(found)
            one, other = found.nodes[0], found.nodes[1]
            number = other._peer.peer_table.number_of(one.id)
            other._peer.peer_table._number.pop(one.id)  # as if it had not been met
            await one.publish("news", b"1")
            other._peer.peer_table._number[one.id] = number
            assert [event.payload for event in await take(readers[1], 1)] == [b"1"]

    live(main())


def test_who_unsubscribes_gets_nothing_more() -> None:
    async def main() -> None:
        async with village(3) as found:
            readers = [node.subscribe("news") for node in found.nodes]
            await settled(found)
            await readers[2].close()
            assert found.nodes[2].topics() == []
            await found.nodes[0].publish("news", b"1")
            assert len(await take(readers[1], 1)) == 1
            with pytest.raises(StopAsyncIteration):
                await anext(readers[2])

    live(main())


def test_patterns_follow_the_topics_that_become_known() -> None:
    async def main() -> None:
        async with village(3) as found:
            reader = found.nodes[0].subscribe("sports/#")
            await found.nodes[1].subscribe("sports/tennis").ready()
            await found.nodes[1].subscribe("weather").ready()
            await until(lambda: found.nodes[0].topics() == ["sports/tennis"])
            await settled(found)
            await found.nodes[2].publish("sports/tennis", b"1")
            assert [event.topic for event in await take(reader, 1)] == ["sports/tennis"]

    live(main())


def test_a_node_alone_publishes_to_itself() -> None:
    async def main() -> None:
        async with village(1) as found:
            reader = await found.nodes[0].subscribe("news").ready()
            assert (await found.nodes[0].publish("news", b"1")).neighbours == 0
            assert len(await take(reader, 1)) == 1

    live(main())


def test_a_slow_reader_loses_events_with_a_count_and_stalls_nobody() -> None:
    async def main() -> None:
        async with village(2, config=replace(FAST, waiting=10)) as found:
            slow = await found.nodes[0].subscribe("news").ready()
            quick = await found.nodes[1].subscribe("news").ready()
            got = 0
            for burst in range(10):
                await asyncio.gather(
                    *(found.nodes[0].publish("news", bytes([burst, i]), durable=False) for i in range(5))
                )
                got += len(await take(quick, 5))
            assert got == 50
            assert slow.waiting == 10
            assert slow.dropped == 40
            assert found.nodes[0].stats()["counters"]["dropped: subscriber too slow"] == 40
            assert [event.payload for event in await take(slow, 10)] == [
                bytes([b, i]) for b in (0, 1) for i in range(5)
            ]

    live(main())


def test_a_publisher_feels_that_its_neighbours_are_slow() -> None:
    async def main() -> None:
        transport = replace(FAST.transport, frame_bytes_max=512 * 1024, queue_bytes_max=513 * 1024)
        config = replace(FAST, period_s=0.5, publish_wait_s=0.05, transport=transport)
        async with village(2, config=config) as found:
            one, other = found.nodes
            await other.subscribe("news").ready()
            await one.subscribe("news").ready()
            assert found.memory is not None
            found.memory.freeze(other.id)
            for _ in range(4):
                await asyncio.gather(*(one.publish("news", bytes(60_000)) for _ in range(2)))
            with pytest.raises(OverloadedError):
                await one.publish("news", b"one too many")
            assert one.stats()["counters"]["refused: publisher too fast"] == 1
            found.memory.thaw(other.id)

    live(main())


def test_the_others_recover_when_some_vanish() -> None:
    async def main() -> None:
        async with village(9) as found:
            readers = [node.subscribe("news") for node in found.nodes]
            await settled(found)
            gone, found.nodes = found.nodes[6:], found.nodes[:6]
            assert found.memory is not None
            for node in gone:
                found.memory.freeze(node.id)
            missed = {node.id for node in gone}
            await until(lambda: not any(missed & set(neighbours(node)) for node in found.nodes))
            await settled(found)
            for n in range(6):
                await found.nodes[n].publish("news", bytes([n]))
            for reader in readers[:6]:
                assert len({event.payload for event in await take(reader, 6)}) == 6
            for node in gone:
                found.memory.thaw(node.id)
            found.nodes += gone

    live(main())


def test_a_node_that_comes_back_is_the_same_one_and_finds_the_network_by_itself(tmp_path: Path) -> None:
    async def main() -> None:
        async with village(3, sockets=True) as found:
            readers = [node.subscribe("news") for node in found.nodes]
            node = await found.make(folder=tmp_path / "node").start()
            who = node.id
            await node.subscribe("news").ready()
            assert node.stats()["connections"] > 0
            await node.close()
            again = await Node(folder=tmp_path / "node", network=found.network, config=found.config).start()
            found.nodes.append(again)
            assert again.id == who
            assert again.topics() == ["news"]
            reader = again.subscribe("news")
            await settled(found)
            await found.nodes[0].publish("news", b"hello again")
            assert [event.payload for event in await take(reader, 1)] == [b"hello again"]
            assert [event.payload for event in await take(readers[1], 1)] == [b"hello again"]

    live(main())


def test_nodes_of_different_networks_do_not_meet() -> None:
    async def main() -> None:
        async with village(1) as found:
            stranger = found.make(network="another")
            found.nodes.append(await stranger.start())
            await until(lambda: any("network" in reason for reason in found.nodes[0].stats()["counters"]))
            assert found.nodes[0].peers() == stranger.peers() == []

    live(main())


def forged(how: str, node: Node, victim: Node) -> bytes:
    """An event frame that nobody should take."""
    publisher = node._peer.peer_table.card.public
    record = EventRecord("news", publisher, 10**6, 0, b"fake")
    liar = make_identity()
    (signed,) = sign_events(node.network if how != "network" else "another", [record], liar.sign)
    if how == "block":
        return encode(EventFrame(0, ((os.urandom(200), signed.signature.to_bytes()),)))
    if how == "seal":
        return encode(EventFrame(0, ((signed.block, os.urandom(68)),)))
    return encode(EventFrame(0, ((signed.block, signed.signature.to_bytes()),)))


@pytest.mark.parametrize("how", ["signature", "network", "block", "seal"])
def test_a_forged_event_is_never_delivered(how: str) -> None:
    async def main() -> None:
        async with village(2) as found:
            liar, victim = found.nodes
            reader = await victim.subscribe("news").ready()
            await liar.subscribe("news").ready()
            before = sum(victim._peer.counters.values())
            liar._driver.transport.send(victim.id, None, forged(how, liar, victim))
            await until(lambda: any(name.startswith("refused: ") for name in victim._peer.counters))
            await liar.publish("news", b"true")
            assert [event.payload for event in await take(reader, 1)] == [b"true"]
            assert sum(victim._peer.counters.values()) > before

    live(main())


def test_an_old_event_sent_again_is_not_news() -> None:
    async def main() -> None:
        async with village(3) as found:
            readers = [node.subscribe("news") for node in found.nodes]
            await settled(found)
            await found.nodes[0].publish("news", b"old", durable=False)
            (old,) = await take(readers[1], 1)
            found.nodes[1]._peer.machine.recent._seen.clear()  # as after a while
            again = encode(EventFrame(0, ((old._signed.block, old._signed.signature.to_bytes()),)))
            found.nodes[2]._driver.transport.send(found.nodes[1].id, None, again)
            await until(lambda: found.nodes[1]._peer.counters["refused: event replayed"] > 0)
            assert readers[1].waiting == 0

    live(main())


def test_closing_twice_and_waiting_while_it_closes() -> None:
    async def main() -> None:
        async with village(2) as found:
            node = found.nodes[1]
            waiting = asyncio.create_task(node.subscribe("nobody else").ready())
            await asyncio.sleep(0)
            await node.close()
            await node.close()
            with pytest.raises(InputError, match="closed"):
                await waiting
            with pytest.raises(InputError, match="once"):
                await node.start()

    live(main())


def test_many_topics_of_a_pattern_are_taken_up_with_one_card_a_cycle() -> None:
    async def main() -> None:
        async with village(2) as found:
            one, other = found.nodes
            other._peer.subscribe([f"t/{i}" for i in range(300)])
            before = one._peer.peer_table.card.version
            reader = one.subscribe("t/#")
            await until(lambda: len(one.topics()) == 300)
            assert one._peer.peer_table.card.version > before
            await until(lambda: other._peer.is_ready("t/299"))
            await until(lambda: other._peer.is_ready("t/299"), "the other has heard of it")
            await other.publish("t/299", b"1")
            assert [event.topic for event in await take(reader, 1)] == ["t/299"]

    live(main())


def test_garbage_in_frames_is_counted_and_lived_through() -> None:
    async def main() -> None:
        async with village(2) as found:
            liar, victim = found.nodes
            reader = await victim.subscribe("news").ready()
            for size in (0, 1, 7, 100, 5000):
                for _ in range(10):
                    liar._driver.transport.send(victim.id, None, os.urandom(size))
            await until(
                lambda: sum(n for r, n in victim._peer.counters.items() if r.startswith("refused: ")) >= 40
            )
            await liar.publish("news", b"still there")
            assert [event.payload for event in await take(reader, 1)] == [b"still there"]

    live(main())


def test_bad_input_is_one_sentence() -> None:
    async def main() -> None:
        async with village(1) as found:
            (node,) = found.nodes
            for topic in ("", "a//b", "/a", "x" * 300):
                with pytest.raises(InputError):
                    node.subscribe(topic)
                with pytest.raises(InputError):
                    await node.publish(topic, b"")
                async with asyncio.timeout(5):
                    with pytest.raises(InputError):
                        await node.caught_up(topic)
            with pytest.raises(InputError):
                await node.publish("news", bytes(1 << 20))
            good, bad = await asyncio.gather(
                node.publish("news", b"1"), node.publish("news", bytes(1 << 20)), return_exceptions=True
            )
            assert isinstance(bad, InputError)  # one that cannot be signed does not spoil the batch
            assert not isinstance(good, BaseException)
            assert node._peer.peer_table.topics_of(ME) == ()

    live(main())
    with pytest.raises(InputError):
        Node(listen="nowhere")
    with pytest.raises(InputError, match="advertise"):
        Node(listen="0.0.0.0:7000")
    with pytest.raises(InputError, match="started"):
        Node().topics()


def test_whoever_reads_a_topic_that_is_left_comes_to_an_end() -> None:
    async def main() -> None:
        async with village(1) as found:
            (node,) = found.nodes
            readers = [node.subscribe("news") for _ in range(2)]
            await node.publish("news", b"last")

            async def read() -> list[bytes]:
                return [event.payload async for event in readers[1]]

            waiting = asyncio.create_task(read())
            await until(lambda: readers[0].waiting > 0)
            await node.unsubscribe("news")
            assert [event.payload async for event in readers[0]] == [b"last"]
            assert await waiting == [b"last"]
            assert node.topics() == []

    live(main())


def test_nobody_waits_for_a_node_that_is_closed() -> None:
    async def main() -> None:
        async with village(2) as found:
            one, other = found.nodes
            reader = await one.subscribe("news").ready()
            alone = one.subscribe("nobody's")
            await other.subscribe("news").ready()
            await one.close()
            async with asyncio.timeout(10):
                await reader.ready()  # it was
                with pytest.raises(ClosedError):
                    await alone.ready()
                with pytest.raises(ClosedError):  # nobody knows whether it had
                    await one.caught_up("news")
                assert [event async for event in reader] == []

    live(main())


def test_what_comes_before_an_event_that_is_refused_is_published() -> None:
    """Also where the stream is asked for first."""

    async def main() -> None:
        async with village(2) as found:
            one, other = found.nodes
            await settled(found)
            await until(lambda: len(one.peers()) == 1)
            for durable in (True, False):
                reader = await other.subscribe(f"news/{durable}", "earliest" if durable else "now").ready()
                payloads = [b"%d" % n for n in range(600)]
                refused: list[Any] = [*payloads, 7, b"never"]
                with pytest.raises(InputError):
                    await one.publish_all(f"news/{durable}", refused, durable=durable)
                got = [event.payload for event in await take(reader, 512)]
                assert got == payloads[:512]  # by the handful

    live(main())
