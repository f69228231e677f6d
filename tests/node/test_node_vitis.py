"""Vitis on live nodes: clusters and relay paths over sockets, who publishes without reading, settings."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from support.node.live import Village, live, settled, take, until, village
from support.protocols.streams_net import event
from vinecast.core.errors import InputError
from vinecast.node.api.node import Node
from vinecast.node.api.settings import resolve, to_toml
from vinecast.node.api.subscription import Subscription
from vinecast.node.runtime.config import NodeConfig
from vinecast.peer.wire.batcher import EncodedEvent
from vinecast.peer.wire.event_cache import EventCache
from vinecast.systems.common.router import ME
from vinecast.systems.vitis.router import vitis_config
from vinecast.systems.vitis.settings import VitisSettings

VITIS = NodeConfig(period_s=0.05, system="vitis")
SPARSE = NodeConfig(period_s=0.2, system="vitis", vitis=VitisSettings(table_size=4))
"""A ring, a long link and one friend: subscribers of a topic mostly need others to reach each other."""


PUBLISHERS = 0, 5, 7, 10


def machine_of(node: Node) -> Any:
    return node._peer.machine


def carries(node: Node, topic: str) -> bool:
    """Whether a node is on a relay path of a topic."""
    number = node._peer.peer_table.topics.number_of(topic)
    return number is not None and bool(machine_of(node).relays.carries(number))


# Settings.


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        ([("vitis.table_size", 3)], "--set: vitis.table_size must be at least 4, not 3"),
        (
            [("vitis.table_size", 8), ("vitis.long_links", 7)],
            "--set: vitis: long_links + 2 must be at most table_size (8), not 9",
        ),
        ([("vitis.gateway_hops", 0)], "--set: vitis.gateway_hops must be at least 1, not 0"),
        ([("vitis.table", 8)], "--set: unknown key vitis.table (did you mean table_size?)"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(pairs: list[tuple[str, Any]], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve(None, {}, {}, pairs)
    assert str(caught.value) == sentence


def test_settings_reach_the_machine() -> None:
    environment = {"VINECAST_NODE_SYSTEM": "vitis", "VINECAST_NODE_VITIS_TABLE_SIZE": "9"}
    found = resolve(None, environment, {}, [("vitis.long_links", 2), ("vitis.gateway_hops", 3)])
    own = vitis_config(found.config)
    assert (own.tman.table_size, own.long_links, own.gateway_hops) == (9, 2, 3)
    assert own.period_us == 1_000_000
    assert "[vitis]\ntable_size = 9\n" in to_toml(found)
    with pytest.raises(InputError, match=r'^regularity = "day" needs system = "poldercast"$'):
        NodeConfig(system="vitis", regularity="day")


# A network.


async def read_all(readers: dict[tuple[int, int], Subscription], got: Counter[tuple[int, bytes]]) -> None:
    """Note who read what."""
    for (node, _), reader in readers.items():
        while reader.waiting:
            got[node, (await anext(reader)).payload] += 1


def test_a_network_of_clusters_where_some_publish_what_they_do_not_read() -> None:
    """Twelve nodes over real sockets, six topics of four readers each; some publish on all of them."""

    async def main() -> None:
        async with village(12, sockets=True, config=SPARSE) as found:
            wants = {node: {node % 6, (node // 2 + 1) % 6} for node in range(12)}
            readers = {
                (node, topic): found.nodes[node].subscribe(f"topic/{topic}")
                for node, topics in wants.items()
                for topic in topics
            }
            await settled(found)
            due = {
                (reader, b"%d on %d" % (node, topic))
                for node in PUBLISHERS
                for topic in range(6)
                for reader in range(12)
                if topic in wants[reader]
            }
            got: Counter[tuple[int, bytes]] = Counter()
            for node in PUBLISHERS:
                receipts = await asyncio.gather(
                    *(found.nodes[node].publish(f"topic/{t}", b"%d on %d" % (node, t)) for t in range(6))
                )
                assert all(receipt.holders for receipt in receipts)
            async with asyncio.timeout(60):
                while got.keys() != due:
                    await found.nodes[0]._driver.next_cycle()
                    await read_all(readers, got)
            assert set(got.values()) == {1}
            assert any(
                carries(node, f"topic/{topic}") and topic not in wants[n]
                for n, node in enumerate(found.nodes)
                for topic in range(6)
            )
            await volatile(found, readers, wants)

    live(main())


async def volatile(
    found: Village, readers: dict[tuple[int, int], Subscription], wants: dict[int, set[int]]
) -> None:
    """Outside of streams nothing is repaired, and links may just be changing: of a few events of a stranger
    one at least reaches everybody, and none comes twice."""
    got: Counter[tuple[int, bytes]] = Counter()
    for topic in range(3):
        stranger = next(node for node in range(12) if topic not in wants[node])
        due = {node for node in range(12) if topic in wants[node]}
        for n in range(10):
            payload = b"%d: %d" % (topic, n)
            receipt = await found.nodes[stranger].publish(f"topic/{topic}", payload, durable=False)
            for _ in range(2):
                await found.nodes[0]._driver.next_cycle()
            await read_all(readers, got)
            if receipt.neighbours and all(got[node, payload] for node in due):
                break
        else:
            raise AssertionError(f"topic {topic}: no event of ten reached everybody")
    assert set(got.values()) == {1}


def test_numbers_of_topics_are_given_back() -> None:
    async def main() -> None:
        config = NodeConfig(period_s=0.05, system="vitis", topics=64)
        async with village(4, config=config) as found:
            for turn in range(3):
                names = [f"turn/{turn}/{n}" for n in range(12)]
                for name in names:
                    found.nodes[turn].subscribe(name)
                await settled(found)
                for name in names:
                    await found.nodes[3].publish(name, b"x", durable=False)
                    await found.nodes[turn].unsubscribe(name)
            await until(lambda: not any(node.known_topics() for node in found.nodes), "nobody has a topic")
            for node in found.nodes:
                assert not any(node._peer.peer_table.topics._uses)

    live(main())


def test_a_network_goes_on_when_members_leave_and_come() -> None:
    async def main() -> None:
        async with village(8, config=VITIS) as found:
            for node in found.nodes:
                node.subscribe("news")
            await settled(found)
            for _ in range(3):
                leaver = found.nodes.pop(1)
                await leaver.close()
                (await found.add()).subscribe("news")
                await settled(found)
                readers = [node.subscribe("news") for node in found.nodes]
                await found.nodes[-1].publish("news", b"x")
                for reader in readers:
                    assert [one.payload for one in await take(reader, 1)] == [b"x"]

    live(main())


def test_who_is_lost_without_a_word_is_not_asked_for_ever() -> None:
    async def main() -> None:
        async with village(6, config=VITIS) as found:
            for node in found.nodes:
                node.subscribe("news")
            await settled(found)
            lost, memory = found.nodes.pop(), found.memory
            assert memory is not None
            memory.unreachable.add(lost.id)
            memory.freeze(lost.id)
            memory.cut(lost.id)

            def is_forgotten(node: Node) -> bool:
                return lost.id not in map(node._peer.peer_table.id_of, machine_of(node).neighbours())

            await until(lambda: all(map(is_forgotten, found.nodes)), "nobody counts on it")
            readers = [node.subscribe("news") for node in found.nodes]
            await settled(found)
            await found.nodes[0].publish("news", b"x", durable=False)
            for reader in readers:
                assert [one.payload for one in await take(reader, 1)] == [b"x"]
            memory.thaw(lost.id)
            await lost.close()

    live(main())


def test_who_publishes_waits_for_who_carries() -> None:
    async def main() -> None:
        async with village(3, config=VITIS) as found:
            found.nodes[0].subscribe("news")
            found.nodes[1].subscribe("news")
            await settled(found)
            for publisher in (found.nodes[1], found.nodes[2]):
                system, peer_table = publisher._peer.system, publisher._peer.peer_table
                assert system.leads_to("news", peer_table.number_of(found.nodes[0].id))
                assert not system.leads_to("news", ME)
                assert not system.leads_to("nobody's", ME)
            near = found.nodes[0]._peer.neighbours()["news"]
            assert found.nodes[1].id in near

    live(main())


# Events that others may ask for.


def test_so_many_events_are_kept_at_hand() -> None:
    kept = EventCache(events=3, most_bytes=10_000)
    small = [event(number, height=0) for number in range(5)]
    for signed in (*small, small[-1]):
        kept.put(signed, EncodedEvent(signed.block, b""))
    assert [kept.get(signed.number) is not None for signed in small] == [False, False, True, True, True]
    for number in (7, 8):
        large = event(number, height=0, size=9_000)
        kept.put(large, EncodedEvent(large.block, b""))
        assert kept.get(large.number) is not None
    assert len(kept) == 1
