"""The system of a live node: named by its configuration, one interface for all, and nobody mixes them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.node.live import FAST, Village, live, settled, take, until, village
from vinecast.core.errors import InputError
from vinecast.core.machine import NOBODY
from vinecast.node.api.node import Node
from vinecast.node.api.settings import resolve, to_toml
from vinecast.node.api.subscription import Event
from vinecast.node.runtime.config import NodeConfig
from vinecast.systems.common.router import ME
from vinecast.systems.registry import LIVE_SYSTEMS, SYSTEMS

TREES = NodeConfig(period_s=FAST.period_s, system="pulsarcast")
every_system = pytest.mark.parametrize("system", LIVE_SYSTEMS)


def payloads(events: list[Event]) -> list[bytes]:
    return [event.payload for event in events]


def tree_of(node: Node) -> Any:
    return node._peer.machine.tree


def in_tree(node: Node, topic: str) -> bool:
    return node._peer.peer_table.topics.number_of(topic) in tree_of(node).branches


# Which one.


def test_an_unknown_system_is_one_sentence_that_says_what_there_is() -> None:
    offered = ", ".join(f'"{name}"' for name in LIVE_SYSTEMS)
    sentence = f'system must be one of {offered}, not "carrier pigeons"'
    with pytest.raises(InputError) as caught:
        NodeConfig(system="carrier pigeons")
    assert str(caught.value) == sentence
    with pytest.raises(InputError) as caught:
        resolve(None, {}, {}, [("system", "carrier pigeons")])
    assert str(caught.value) == f"--set: {sentence}"
    found = resolve(None, {"VINECAST_NODE_SYSTEM": "pulsarcast"})
    assert found.config.system == "pulsarcast"
    assert 'system = "pulsarcast"\n' in to_toml(found)


def test_regularity_is_poldercasts() -> None:
    with pytest.raises(InputError, match=r'^regularity = "day" needs system = "poldercast"$'):
        NodeConfig(system="pulsarcast", regularity="day")


@every_system
def test_every_entry_makes_what_a_peer_needs(system: str) -> None:
    async def main() -> None:
        async with village(1, config=NodeConfig(period_s=0.05, system=system)) as found:
            peer = found.nodes[0]._peer
            assert peer.system.row is SYSTEMS[system].live
            assert peer.system.knows_nobody()
            assert peer.system.router.machine is peer.machine
            for timer in {peer.system.row.first_timer, peer.system.row.last_timer}:
                assert peer.system.router.partner_of(timer) == NOBODY

    live(main())


@pytest.mark.parametrize("other", sorted(set(LIVE_SYSTEMS) - {"poldercast"}))
@pytest.mark.parametrize("sockets", [False, True])
def test_nodes_of_different_systems_refuse_each_other_and_say_why(sockets: bool, other: str) -> None:
    async def main() -> None:
        async with village(1, sockets) as found:
            (rings,) = found.nodes
            stranger = await found.add(config=NodeConfig(period_s=FAST.period_s, system=other))
            reason = f"other system: {' and '.join(sorted(('poldercast', other)))}"
            await until(lambda: stranger.join_trouble.get(rings.address) == reason, "it is told why")
            await until(lambda: rings.stats()["counters"].get(f"refused: {reason}", 0) > 0, "it is counted")
            assert not rings.peers()
            assert not stranger.peers()

    live(main())


# What every system does, beside the conformance suite.


@every_system
@pytest.mark.parametrize("sockets", [False, True])
def test_an_event_with_and_without_a_stream(system: str, sockets: bool) -> None:
    tries = 5 if system == "flooding" else 1  # its links change each cycle: now and then a node is in no view

    async def main() -> None:
        async with village(4, sockets, config=NodeConfig(period_s=0.05, system=system)) as found:
            readers = [await node.subscribe("news").ready() for node in found.nodes[:3]]
            await settled(found)
            for sender in found.nodes:
                for number in range(tries):
                    await sender.publish("news", b"%d" % number + sender.id, durable=False)
                    await sender.next_cycle()
                receipt = await sender.publish("news", sender.id)
                assert receipt.holders >= 1
            senders = {node.id for node in found.nodes}
            for reader in readers:
                got: list[bytes] = []
                while {event for event in got if event in senders} != senders or {
                    event[1:] for event in got if event not in senders
                } != senders:
                    got += payloads(await take(reader, 1))
                assert len(set(got)) == len(got)
                assert tries > 1 or len(got) == 2 * len(senders)
            logs = [payloads(node.log("news")) for node in found.nodes[:3]]
            assert logs[0] == logs[1] == logs[2]

    live(main())


@every_system
def test_a_late_reader_gets_the_stream_though_its_publisher_has_left(system: str) -> None:
    async def main() -> None:
        async with village(4, config=NodeConfig(period_s=0.05, system=system)) as found:
            publisher = found.nodes.pop()
            await until(lambda: publisher._peer.count_others() == 3, "it knows the others")
            receipts = await publisher.publish_all("news", [b"%d" % n for n in range(50)])
            assert all(receipt.holders for receipt in receipts)
            await publisher.close()
            late = await found.add()
            assert payloads(await take(late.subscribe("news", "earliest"), 50)) == [
                b"%d" % n for n in range(50)
            ]

    live(main())


@every_system
def test_a_node_that_was_away_gets_what_it_missed(system: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with village(3, config=NodeConfig(period_s=0.05, system=system)) as found:
            publisher = found.nodes[1]
            node = await found.add(folder=tmp_path)
            identity = node._identity
            reader = await node.subscribe("news", consumer="one").ready()
            await publisher.publish("news", b"before")
            (event,) = await take(reader, 1)
            await reader.ack(event)
            await node.close()
            found.nodes.remove(node)
            await publisher.publish_all("news", [b"%d" % n for n in range(20)])
            node = await found.add(folder=tmp_path, identity=identity)
            assert node.topics() == ["news"]
            events = await take(node.subscribe("news", consumer="one"), 20)
            assert sorted(payloads(events)) == sorted(b"%d" % n for n in range(20))

    live(main())


@every_system
def test_patterns_find_topics_of_others(system: str) -> None:
    async def main() -> None:
        async with village(3, config=NodeConfig(period_s=0.05, system=system)) as found:
            reader = found.nodes[0].subscribe("sports/#")
            found.nodes[1].subscribe("sports/tennis")
            await until(lambda: "sports/tennis" in found.nodes[0].topics(), "it follows")
            await settled(found)
            await found.nodes[2].publish("sports/tennis", b"15:0", durable=False)
            assert payloads(await take(reader, 1)) == [b"15:0"]

    live(main())


# Trees.


async def grow(found: Village, topic: str) -> Node:
    """All nodes but the root read a topic; returns the root, which only relays."""
    for node in found.nodes:
        node.subscribe(topic)
    await settled(found)
    (root,) = [node for node in found.nodes if is_root(node, topic)]
    await root.unsubscribe(topic)
    await settled(found)
    return root


def is_root(node: Node, topic: str) -> bool:
    return node._peer.peer_table.topics.number_of(topic) in tree_of(node).roots


def test_a_relay_carries_what_it_does_not_read() -> None:
    async def main() -> None:
        async with village(6, config=TREES) as found:
            root = await grow(found, "news")
            assert not root.topics()
            assert in_tree(root, "news")
            readers = [node for node in found.nodes if node is not root]
            subscriptions = [node.subscribe("news") for node in readers]
            for durable in (False, True):
                await readers[0].publish("news", b"x", durable=durable)
                for one in subscriptions:
                    assert payloads(await take(one, 1)) == [b"x"]
            assert root.stats()["unread"] == 0
            for node in readers:
                await node.unsubscribe("news")
            await until(lambda: not any(in_tree(node, "news") for node in found.nodes), "the tree is gone")

    live(main())


def test_numbers_of_topics_are_given_back() -> None:
    async def main() -> None:
        async with village(3, config=NodeConfig(period_s=0.05, system="pulsarcast", topics=64)) as found:
            for turn in range(4):
                names = [f"turn/{turn}/{n}" for n in range(12)]
                for name in names:
                    await found.nodes[0].subscribe(name).ready()
                    await found.nodes[2].publish(name, b"x", durable=False)
                for name in names:
                    await found.nodes[0].unsubscribe(name)
                await until(
                    lambda: not any(tree_of(node).branches for node in found.nodes), "no trees are left"
                )
                for node in found.nodes:
                    await node._driver.next_cycle()
                    await node._driver.next_cycle()
            await until(lambda: not any(node.known_topics() for node in found.nodes), "nobody has a topic")
            for node in found.nodes:
                assert not any(node._peer.peer_table.topics._uses)

    live(main())


def test_when_the_root_dies_the_others_find_another() -> None:
    async def main() -> None:
        async with village(6, config=TREES) as found:
            root = await grow(found, "news")
            memory = found.memory
            assert memory is not None
            memory.unreachable.add(root.id)  # without a word
            memory.freeze(root.id)
            memory.cut(root.id)
            found.nodes.remove(root)
            readers = [node.subscribe("news") for node in found.nodes]
            got: list[set[bytes]] = [set() for _ in readers]
            n = 0
            async with asyncio.timeout(30):
                while not set.intersection(*got):
                    n += 1
                    await found.nodes[n % 5].publish("news", str(n), durable=False)
                    await found.nodes[0]._driver.next_cycle()
                    for reader, seen in zip(readers, got, strict=True):
                        seen |= {(await anext(reader)).payload for _ in range(reader.waiting)}
            memory.thaw(root.id)
            await root.close()

    live(main())


def test_a_tree_goes_on_when_members_leave_and_come() -> None:
    async def main() -> None:
        async with village(8, config=TREES) as found:
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
                    assert payloads(await take(reader, 1)) == [b"x"]

    live(main())


def test_who_publishes_waits_for_who_carries() -> None:
    async def main() -> None:
        async with village(3, config=TREES) as found:
            root = await grow(found, "news")
            child = next(node for node in found.nodes if root.id in node._peer.neighbours().get("news", ()))
            system, above = child._peer.system, child._peer.peer_table.number_of(root.id)
            assert system.leads_to("news", above)
            assert not system.leads_to("news", ME)
            assert not system.leads_to("nobody's", above)
            peer_table = root._peer.peer_table
            assert root._peer.system.leads_to("news", peer_table.number_of(child.id))

    live(main())
