"""Regularity on live nodes: a node's log becomes its pattern, cards tell it, regular rings carry events."""

import asyncio
import time
from pathlib import Path

from support.node.live import live, until, village
from vinecast.cli.events import pattern_lines
from vinecast.node.api.node import Node
from vinecast.node.runtime.config import NodeConfig
from vinecast.node.storage.identity_file import load_or_make_identity
from vinecast.node.storage.store import Store
from vinecast.systems.common.router import ME
from vinecast.systems.poldercast_regular.machine import PolderCastRegular

DAY = NodeConfig(period_s=0.05, regularity="day")
HOUR_US = 3_600_000_000
MARK_US = 300_000_000


async def remember(folder: Path, hours: int) -> None:
    """Let a node's folder say that it was on line for so many hours, until a moment ago."""
    identity = load_or_make_identity(folder)
    store = await Store.open(folder, identity.id)
    now_us = time.time_ns() // 1000 - 1_000_000
    begin_us = now_us - hours * HOUR_US
    store.mark_on(begin_us)
    for at_us in range(begin_us + MARK_US, now_us, MARK_US):
        store.mark_still_on(at_us)
    store.mark_off(now_us)
    await store.close()


def machine_of(node: Node) -> PolderCastRegular:
    machine = node._peer.machine
    assert isinstance(machine, PolderCastRegular)
    return machine


def is_ringed(node: Node) -> bool:
    """Whether the node has neighbours on the regular ring of its topic."""
    return (
        bool((machine_of(node).regular.peers[:, :1] >= 0).all()) and machine_of(node).regular.peers.size > 0
    )


def test_those_who_were_on_line_for_days_have_rings_of_their_own(tmp_path: Path) -> None:
    async def main() -> None:
        for name in "abc":
            await remember(tmp_path / name, 72)
        async with village(0, sockets=False, config=DAY) as found:
            old = [
                await found.add(folder=tmp_path / name, identity=load_or_make_identity(tmp_path / name))
                for name in "abc"
            ]
            new = await found.add()
            readers = [node.subscribe("t") for node in found.nodes]
            for reader in readers:
                await reader.ready()
            await until(lambda: all(map(is_ringed, old)), "regular rings")
            for node in old:
                assert all(node.stats()["regularity"]["regular"])
                peer_table, known = (
                    node._peer.peer_table,
                    [peer._peer.peer_table.me for peer in old if peer is not node],
                )
                assert peer_table.regular is not None
                assert all(
                    peer_table.regular.patterns.regular[peer_table.number_of(peer)].all() for peer in known
                )
                assert not peer_table.regular.patterns.regular[peer_table.number_of(new.id)].any()
            assert not any(new.stats()["regularity"]["regular"])
            assert not (machine_of(new).regular.peers >= 0).any()
            for node in found.nodes:
                await node.publish("t", node.id, durable=False)
            ids = {node.id for node in found.nodes}
            for reader in readers:
                async with asyncio.timeout(30):
                    assert {(await anext(reader)).payload for _ in ids} == ids
                assert reader.waiting == 0

    live(main())


def test_a_network_of_nodes_that_do_not_agree(tmp_path: Path) -> None:
    async def main() -> None:
        for name in "ab":
            await remember(tmp_path / name, 50)
        async with village(1) as found:  # of no regularity at all
            for name, config in (("a", DAY), ("b", NodeConfig(period_s=0.05, regularity="week"))):
                identity = load_or_make_identity(tmp_path / name)
                await found.add(folder=tmp_path / name, identity=identity, config=config)
            readers = [node.subscribe("t") for node in found.nodes]
            for reader in readers:
                await reader.ready()
            day, week = found.nodes[1:]
            await until(lambda: all(day.stats()["regularity"]["regular"]), "a pattern")
            assert day._peer.peer_table.card.pattern == b"\xff" * 3
            assert len(week._peer.peer_table.card.pattern) == 21
            assert week._peer.peer_table.regular is not None
            assert not week._peer.peer_table.regular.patterns.regular[ME + 1 :].any()
            await found.nodes[0].publish("t", b"x", durable=False)
            for reader in readers:
                async with asyncio.timeout(30):
                    assert (await anext(reader)).payload == b"x"
            assert not any("misbehaved" in name for node in found.nodes for name in node.stats()["counters"])

    live(main())


def test_the_picture_of_a_pattern() -> None:
    told = {"slot_s": 3600, "threshold": 70, "slot": 3}
    day = {**told, "shares": [0.0, 0.5, 1.0, None, *[0.71] * 20], "regular": [False] * 2 + [True] * 22}
    lines = pattern_lines(day)
    assert lines[1:] == ["      ▄█·" + "▆" * 20, "       " + "^" * 22]
    week = {**told, "shares": [float(i // 24 == 4) for i in range(168)], "regular": [False] * 168}
    lines = pattern_lines(week)
    assert lines[1] == " Mon " + "█" * 24  # 1970 began on a Thursday
    assert len(lines) == 15
