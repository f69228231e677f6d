"""Durable streams on live nodes: what was accepted is there for whoever comes later."""

import asyncio
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from support.node.live import FAST, PATIENCE_S, Village, live, take, until, village
from support.node.streams import payloads, read
from support.paths import DOCS
from vinecast.core.errors import OverloadedError, UnsafeError
from vinecast.core.log.checker import StreamChecker
from vinecast.core.log.retention import Retention
from vinecast.lab.localnet.attacker import Attacker
from vinecast.node.api.node import Node
from vinecast.node.storage import retention
from vinecast.node.storage.identity_file import load_or_make_identity
from vinecast.node.storage.memory_streams import VolatileStreams
from vinecast.node.storage.streams_store import StreamStore
from vinecast.peer.streams import durable_runtime
from vinecast.peer.streams.arrivals import TOO_MUCH
from vinecast.peer.streams.messages import Ping, encode_stream
from vinecast.peer.streams.replicas import table_config
from vinecast.protocols.kademlia import KademliaConfig
from vinecast.protocols.streams.machine import UNREADABLE


def replicas_of(found: Village, topic: str) -> list[Node]:
    """Who has something of a stream in its store."""
    return [node for node in found.nodes if node._peer.streams.store.state(topic).last]


@pytest.mark.parametrize("sockets", [False, True], ids=["memory", "sockets"])
def test_two_nodes(sockets: bool) -> None:
    async def main() -> None:
        async with village(2, sockets) as found:
            one, other = found.nodes
            reader = await other.subscribe("news").ready()
            await until(lambda: one._peer.count_others() == 1, "they have met")
            receipt = await one.publish("news", b"first", {"kind": "x"})
            assert receipt.holders == 1
            receipts = [receipt, *await one.publish_all("news", [b"%d" % n for n in range(500)])]
            assert {receipt.holders for receipt in receipts} == {1}
            events = await take(reader, 501)
            assert [event.id for event in events] == [receipt.id for receipt in receipts]
            assert [event.offset for event in events] == list(range(1, 502))
            assert events[0].headers == {"kind": "x"}
            assert reader.waiting == reader.dropped == 0
            heights = [event._signed.record.height for event in events]
            assert heights == list(range(1, 502))
            assert payloads(one.log("news", count=600)) == payloads(other.log("news", count=600))

    live(main())


def test_whoever_is_alone_gets_its_receipt_and_reads_what_it_wrote() -> None:
    async def main() -> None:
        async with village(1) as found:
            (node,) = found.nodes
            assert (await node.publish("news", b"to myself")).holders == 0
            assert payloads(await read(node, "news", 1, start="earliest")) == [b"to myself"]

    live(main())


def test_who_publishes_before_it_has_met_anybody_waits_for_company() -> None:
    async def main() -> None:
        async with village(2) as found:
            async with found.make() as guest:
                receipt = await guest.publish("news", b"and gone")
            assert receipt.holders == 1
            assert payloads(await read(found.nodes[1], "news", 1, start="earliest")) == [b"and gone"]

    live(main())


def test_whoever_is_told_of_nobody_who_is_there_gets_its_receipt_too() -> None:
    async def main() -> None:
        async with village(0) as found:
            config = replace(FAST, publish_wait_s=0.2)
            node = await found.add(join=["memory:9"], config=config)
            await until(lambda: bool(node.join_trouble), "nobody is there")
            assert (await node.publish("news", b"to myself")).holders == 0

    live(main())


def test_a_late_subscriber_gets_history_although_the_publisher_is_gone() -> None:
    async def main() -> None:
        async with village(6) as found:
            publisher = found.nodes[5]
            await until(lambda: len(publisher._peer.peer_table.known()) == 5, "everybody known")
            said = [b"%d" % n for n in range(300)]
            receipts = await publisher.publish_all("news", said)
            assert min(receipt.holders for receipt in receipts) >= 1
            await until(lambda: len(replicas_of(found, "news")) >= 3, "replicas have it")
            await publisher.close()
            late = await found.add()
            events = await read(late, "news", 300, start="earliest")
            assert payloads(events) == said
            assert all(event.hops == -1 for event in events)

    live(main())


def test_a_replica_is_found_when_others_are_gone() -> None:
    async def main() -> None:
        async with village(6) as found:
            publisher = found.nodes[5]
            await until(lambda: len(publisher._peer.peer_table.known()) == 5, "everybody known")
            await publisher.publish("news", b"kept")
            await until(lambda: len(replicas_of(found, "news")) >= 3, "replicas have it")
            await publisher.close()
            replicas = [node for node in replicas_of(found, "news") if node is not publisher]
            for node in replicas[1:]:  # one is left
                await node.close()
            late = await found.add(join=[replicas[0].address])
            assert payloads(await read(late, "news", 1, start="earliest")) == [b"kept"]
            await until(lambda: len(replicas_of(found, "news")) >= 5, "others keep it in their place")

    live(main())


def test_a_node_that_was_away_gets_what_it_missed(tmp_path: Path) -> None:
    async def main() -> None:
        async with village(3) as found:
            publisher = found.nodes[0]
            node = await found.add(folder=tmp_path)
            identity = node._identity
            reader = await node.subscribe("news").ready()
            await publisher.publish("news", b"before")
            await take(reader, 1)
            await node.close()
            found.nodes.remove(node)
            await publisher.publish_all("news", [b"%d" % n for n in range(100)])
            node = await found.add(folder=tmp_path, identity=identity)
            events = await read(node, "news", 100, start=1)
            assert payloads(events) == [b"%d" % n for n in range(100)]

    live(main())


def test_what_two_publish_at_the_same_time_has_one_order() -> None:
    async def main() -> None:
        async with village(4) as found:
            readers = [node.subscribe("news") for node in found.nodes]
            await until(lambda: all(node._peer.is_ready("news") for node in found.nodes), "rings complete")
            await asyncio.gather(
                *(node.publish("news", f"{n} {i}") for i in range(20) for n, node in enumerate(found.nodes))
            )
            seen = [await take(reader, 80) for reader in readers]
            assert len({frozenset(event.id for event in events) for events in seen}) == 1
            logs = [[event.id for event in node.log("news")] for node in found.nodes]
            assert len(logs[0]) == 80
            assert logs[0] == logs[1] == logs[2] == logs[3]
            for events in seen:  # parents first
                had: set[bytes] = set()
                for event in events:
                    assert had.issuperset(event._signed.record.parents)
                    had.add(event._signed.cid)

    live(main())


def test_retention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        config = replace(FAST, retention=Retention(events=10))
        monkeypatch.setattr(retention, "EVERY_S", 0.05)
        async with village(1, config=config) as found:
            node = await found.add(folder=tmp_path)
            await node.publish_all("news", [b"%d" % n for n in range(50)])
            store = node._peer.streams.store
            await until(lambda: store.state("news").first == 41, "the oldest are gone")
            assert payloads(await read(node, "news", 10, start="earliest")) == [
                b"%d" % n for n in range(40, 50)
            ]

    live(main())


def test_a_publisher_waits_for_holders_but_not_for_ever(tmp_path: Path) -> None:
    async def main() -> None:
        async with village(2, config=replace(FAST, publish_wait_s=PATIENCE_S, holders=2)) as found:
            one, other = found.nodes
            await other.subscribe("news").ready()
            await one.subscribe("news").ready()
            assert (await one.publish("news", b"1")).holders == 1  # there is one other
            assert found.memory is not None
            found.memory.freeze(other.id)
            one._peer.publishing._wait_us = 200_000
            one._peer.publishing._expiring.clear()  # the first has its receipt
            assert (await one.publish("news", b"2")).holders == 0
            found.memory.thaw(other.id)
            reader = other.subscribe("news", "earliest")
            assert payloads(await take(reader, 2)) == [b"1", b"2"]

    live(main())


def test_a_disk_that_takes_nothing_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with village(1, config=replace(FAST, publish_wait_s=0.2)) as found:
            node = await found.add(folder=tmp_path)
            store = node._peer.streams.store
            assert isinstance(store, StreamStore)
            monkeypatch.setattr(store._writer, "_begin", lambda: None)
            with pytest.raises(UnsafeError):
                await node.publish("news", b"1")
            monkeypatch.undo()

    live(main())


def test_while_the_disk_is_slow_nothing_is_taken_and_later_it_is_fetched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        async with village(2, config=replace(FAST, publish_wait_s=0.3)) as found:
            one, other = found.nodes
            reader = await other.subscribe("news").ready()
            await until(lambda: one._peer.count_others() == 1, "they have met")
            slow = {other._peer.streams.store}
            monkeypatch.setattr(VolatileStreams, "is_crowded", property(lambda self: self in slow))
            assert (await one.publish("news", b"1")).holders == 0
            counters = other.stats()["counters"]
            assert counters[TOO_MUCH] >= 1
            with pytest.raises(OverloadedError):
                await other.publish("news", b"mine")
            other._peer.publishing._wait_us = round(PATIENCE_S * 1e6)
            slow.clear()
            assert payloads(await take(reader, 1)) == [b"1"]
            assert (await other.publish("news", b"2")).holders == 1

    live(main())


def test_plain_events_are_kept_by_nobody() -> None:
    async def main() -> None:
        async with village(2) as found:
            one, other = found.nodes
            reader = await other.subscribe("news").ready()
            receipt = await one.publish("news", b"now", durable=False)
            assert receipt.holders == 0
            (event,) = await take(reader, 1)
            assert event.offset == 0
            for node in found.nodes:
                assert node._peer.streams.store.topics() == []
                assert node._peer.streams.replicas.table is None  # nobody needs Kademlia

    live(main())


def test_the_checker_of_simulated_runs_finds_nothing(tmp_path: Path) -> None:
    """Four publish, one of the readers is away for a while, and what is promised is kept."""
    checker = StreamChecker()

    async def publish(node: Node, count: int) -> None:
        for n in range(count):
            receipt = await node.publish("news", str(n))
            signed = node._peer.streams.store.get(receipt.cid)
            assert signed is not None
            checker.published(signed)
            checker.acknowledged(receipt.cid, receipt.holders)

    async def main() -> None:
        async with village(3) as found:
            away = await found.add(folder=tmp_path)
            identity = away._identity
            readers = {n: node.subscribe("news", "earliest") for n, node in enumerate(found.nodes)}
            await until(lambda: all(node._peer.is_ready("news") for node in found.nodes), "rings complete")
            await asyncio.gather(*(publish(node, 10) for node in found.nodes))
            await away.close()
            found.nodes.remove(away)
            await asyncio.gather(*(publish(node, 10) for node in found.nodes))
            away = await found.add(folder=tmp_path, identity=identity)
            readers[3] = away.subscribe("news", "earliest")
            await publish(away, 10)
            for n, reader in readers.items():
                for event in await take(reader, 80):
                    checker.delivered(n, event._signed)
            logs = {n: node.log("news", count=100) for n, node in enumerate(found.nodes)}
            checker.finish("news", {n: [e._signed.cid for e in log] for n, log in logs.items()}, enough=1)
            assert checker.faults == []
            assert all(len(log) == 80 for log in logs.values())

    live(main())


def test_nobody_waits_for_a_stranger_who_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def patient(period_s: float, replicas: int) -> KademliaConfig:
        return replace(table_config(period_s, replicas), timeout_s=2 * PATIENCE_S)

    async def main() -> None:
        async with village(2, sockets=True) as found:
            one, other = found.nodes
            await until(lambda: one._peer.count_others() == 1, "they have met")
            await one.names.create("first")
            stranger = await Attacker(found.network).connect(one.address)
            await stranger.shake_hands()
            await stranger.send(stranger.introduction(), encode_stream(Ping(1)))
            await stranger.answered()
            await stranger.leave()
            table = one._peer.streams.replicas.table
            number = one._peer.peer_table.number_of(stranger.identity.id)
            assert table is not None
            assert number in table.in_use
            await until(lambda: stranger.identity.id not in one._driver.transport.connections(), "it is gone")
            async with asyncio.timeout(PATIENCE_S):
                await one.names.create("second")
                created = await one.names.create("third")
                assert (await other.names.show("third", created.descriptor.owner)).cid == created.cid

    monkeypatch.setattr(durable_runtime, "table_config", patient)
    live(main())


WRITER = """
import asyncio, sys
from pathlib import Path
from vinecast import Node, NodeConfig


async def main() -> None:
    config = NodeConfig(period_s=0.05)
    async with Node(join=[sys.argv[1]], folder=Path(sys.argv[2]), network="test", config=config) as node:
        await node._driver.joined.wait()
        n = 0
        while True:
            for receipt in await node.publish_all("news", [str(n + i) for i in range(5)]):
                print(receipt.id, receipt.holders, flush=True)
            n += 5


asyncio.run(main())
"""


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    async def main() -> None:
        async with village(1, sockets=True) as found:
            (other,) = found.nodes
            writer = await asyncio.create_subprocess_exec(
                sys.executable, "-c", WRITER, other.address, str(tmp_path), stdout=asyncio.subprocess.PIPE
            )
            assert writer.stdout is not None
            acknowledged: set[str] = set()
            try:
                async with asyncio.timeout(PATIENCE_S):
                    while len(acknowledged) < 200:
                        receipt, holders = (await writer.stdout.readline()).decode().split()
                        acknowledged.add(receipt)
                        assert int(holders) == 1
            finally:
                writer.kill()
                await writer.wait()
            for line in (await writer.stdout.read()).decode().splitlines():
                if len(line.split()) == 2:  # the last may have been cut short
                    acknowledged.add(line.split()[0])
            assert acknowledged <= {event.id for event in other.log("news", count=100_000)}
            again = await found.add(folder=tmp_path)
            kept = {event.id for event in again.log("news", count=100_000)}
            assert acknowledged <= kept
            await again.publish("news", b"back")
            reader = again.subscribe("news", "earliest")
            read = await take(reader, len(kept) + 1)
            assert {event.id for event in read} >= acknowledged
            assert read[-1].payload == b"back"

    live(main())


def examples() -> list[str]:
    """The programs in the documentation of streams."""
    text = (DOCS / "streams.md").read_text()
    return [part.split("```")[0] for part in text.split("```python\n")[1:]]


def test_the_documentation_has_examples() -> None:
    assert len(examples()) == 2


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "1 other node holds it\n1 b'one coffee'\n2 b'two teas'\n3 b'a cake'\nagain: b'one coffee'\n"),
        (1, "done: b'one coffee'\ndone: b'two teas'\n"),
    ],
)
def test_what_the_documentation_shows(number: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(examples()[number], "docs/streams.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == said


def test_a_disk_that_cannot_be_read_for_a_while_holds_up_nobody(tmp_path: Path) -> None:
    async def main() -> None:
        async with village(1, config=replace(FAST, publish_wait_s=1.0)) as found:
            node, other = await found.add(folder=tmp_path), found.nodes[0]
            reader = await other.subscribe("news").ready()
            mine = await node.subscribe("news").ready()
            await node.publish("news", b"1")
            store = node._peer.streams.store
            assert isinstance(store, StreamStore)
            database, closed = store._reader._database, sqlite3.connect(":memory:", check_same_thread=False)
            closed.close()
            store._reader._database = closed
            with pytest.raises(OverloadedError):
                await node.publish("news", b"2")
            receipt = await other.publish("news", b"3")
            assert receipt.holders == 0
            for _ in range(5):
                assert await node.next_cycle()
            assert node._peer.counters[UNREADABLE] >= 2
            assert other.id in node._driver.transport.connections(), "its frames are no reason to part"
            store._reader._database = database
            assert (await node.publish("news", b"4")).holders == 1
            assert set(payloads(await take(reader, 3))) == {b"1", b"3", b"4"}
            assert set(payloads(await take(mine, 3))) == {b"1", b"3", b"4"}

    live(main())


def test_whoever_publishes_as_the_node_closes_hears_what_is_safe(tmp_path: Path) -> None:
    async def main() -> None:
        async with village(1, config=replace(FAST, period_s=0.5)) as found:
            node = await found.add(folder=tmp_path, identity=load_or_make_identity(tmp_path))
            await found.nodes[0].subscribe("news").ready()
            await until(lambda: node._peer.count_others() == 1)
            assert found.memory is not None
            found.memory.freeze(found.nodes[0].id)
            published = asyncio.ensure_future(node.publish("news", b"1"))
            await until(lambda: node._peer.publishing.outstanding == 1)
            await node.close()
            found.memory.thaw(found.nodes[0].id)
            receipt = await published
            assert receipt.holders == 0
        async with village(0) as later:
            me = load_or_make_identity(tmp_path)
            again = await later.add(folder=tmp_path, identity=me, join=[])
            assert [event.payload for event in again.log("news")] == [b"1"]

    live(main())
