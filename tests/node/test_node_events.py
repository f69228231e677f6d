"""Frames with several events, between nodes and from those who mean no good."""

import asyncio
from dataclasses import replace

import pytest

from support.node.live import FAST, live, settled, take, until, village
from vinecast.core.log.batch_signature import SignedEvent, sign_events
from vinecast.core.log.event_record import EventRecord
from vinecast.node.api.node import Node
from vinecast.node.storage.identity_file import make_identity
from vinecast.peer.address import Address
from vinecast.peer.identity import Identity
from vinecast.peer.wire.messages import EVENTS_MAX, EventFrame, decode, encode

STRANGER = make_identity()


def sealed_by(who: Identity, node: Node, topic: str, *payloads: bytes, first: int = 1) -> list[SignedEvent]:
    """Events of a publisher that is no node, under one signature."""
    records = [
        EventRecord(topic, STRANGER.public, first + i, 0, payload) for i, payload in enumerate(payloads)
    ]
    return sign_events(node.network, records, who.sign)


def frame_of(*events: SignedEvent) -> bytes:
    return encode(EventFrame(0, tuple((event.block, event.signature.to_bytes()) for event in events)))


def test_many_events_travel_in_few_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        # Nobody asks for these events: a connection that breaks while somebody is late loses some.
        async with village(3, config=replace(FAST, period_s=0.5)) as found:
            readers = [node.subscribe("news") for node in found.nodes]
            await settled(found)
            publisher = found.nodes[0]
            sent: list[int] = []  # events in each frame
            transport = publisher._driver.transport
            send = transport.send

            def spy(peer: bytes, address: Address | None, data: bytes) -> bool:
                frame = decode(data)
                if isinstance(frame, EventFrame):
                    sent.append(len(frame.events))
                return send(peer, address, data)

            monkeypatch.setattr(transport, "send", spy)
            payloads = [b"%d" % i for i in range(1000)]
            receipts = await publisher.publish_all("news", payloads, durable=False)
            assert sum(sent) >= sum(receipt.neighbours for receipt in receipts) >= 1000
            assert len(sent) < sum(sent) / 20
            for reader in readers:
                assert sorted(event.payload for event in await take(reader, 1000)) == sorted(payloads)
                assert reader.waiting == 0

    live(main())


def test_what_is_not_wanted_is_left_out_of_a_frame_and_the_rest_is_taken() -> None:
    async def main() -> None:
        async with village(2) as found:
            sender, victim = found.nodes
            reader = await victim.subscribe("news").ready()
            await sender.subscribe("news").ready()
            one, other = sealed_by(STRANGER, sender, "news", b"1", b"2")
            (unwanted,) = sealed_by(STRANGER, sender, "weather", b"rain", first=3)
            (replayed,) = sealed_by(STRANGER, sender, "news", b"not 1", first=1)
            frame = frame_of(one, unwanted, one, replayed, other)
            sender._driver.transport.send(victim.id, None, frame)
            assert [event.payload for event in await take(reader, 2)] == [b"1", b"2"]
            counters = victim._peer.counters
            assert counters["refused: event on a topic that is not subscribed to"] == 1
            assert counters["refused: event replayed"] == 1
            assert counters["events received first"] == 2
            assert reader.waiting == 0
            assert victim._driver.transport.is_connected(sender.id)

    live(main())


def test_a_forged_event_ends_its_frame() -> None:
    """What stood before it was true, and was taken."""

    async def main() -> None:
        async with village(2) as found:
            liar, victim = found.nodes
            reader = await victim.subscribe("news").ready()
            await liar.subscribe("news").ready()
            true = sealed_by(STRANGER, liar, "news", b"1", b"2", b"3")
            (forged,) = sealed_by(make_identity(), liar, "news", b"forged", first=9)
            liar._driver.transport.send(victim.id, None, frame_of(true[0], forged, true[1]))
            await until(lambda: victim._peer.counters["refused: forged event"] == 1)
            swapped = EventFrame(0, tuple((true[i].block, true[3 - i].signature.to_bytes()) for i in (1, 2)))
            liar._driver.transport.send(victim.id, None, encode(swapped))
            await until(lambda: victim._peer.counters["refused: forged event"] == 2)
            liar._driver.transport.send(victim.id, None, frame_of(true[2]))
            assert [event.payload for event in await take(reader, 2)] == [b"1", b"3"]

    live(main())


def test_a_frame_with_no_events_or_too_many_is_refused_whole() -> None:
    async def main() -> None:
        async with village(2) as found:
            liar, victim = found.nodes
            reader = await victim.subscribe("news").ready()
            await liar.subscribe("news").ready()
            events = sealed_by(STRANGER, liar, "news", *[b"%d" % i for i in range(EVENTS_MAX + 1)])
            for count in (0, EVENTS_MAX + 1):
                liar._driver.transport.send(victim.id, None, frame_of(*events[:count]))
            malformed = "refused: malformed frame (ValidationError)"
            await until(lambda: victim._peer.counters[malformed] == 2)
            assert reader.waiting == 0
            liar._driver.transport.send(victim.id, None, frame_of(*events[:EVENTS_MAX]))
            assert len(await take(reader, EVENTS_MAX)) == EVENTS_MAX

    live(main())


def test_events_that_are_published_in_one_turn_share_frames_whatever_their_topics() -> None:
    async def main() -> None:
        async with village(2) as found:
            one, other = found.nodes
            readers = {topic: other.subscribe(topic) for topic in ("a", "b")}
            for topic in readers:
                one.subscribe(topic)
            await settled(found)
            receipts = await asyncio.gather(
                *(one.publish(topic, b"%d" % i, durable=False) for i in range(20) for topic in readers)
            )
            assert {receipt.neighbours for receipt in receipts} == {1}
            for reader in readers.values():
                got = [event.payload for event in await take(reader, 20)]
                assert got == [b"%d" % i for i in range(20)]

    live(main())
