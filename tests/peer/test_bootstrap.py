"""Nodes find each other, whoever was there first, and find each other again."""

import socket
from pathlib import Path

import pytest

from support.lone_peer import LonePeer, of_type
from support.node.live import live, until, village
from vinecast.core.events import TimerFired
from vinecast.node.api.node import Node
from vinecast.node.storage.identity_file import load_or_make_identity, make_identity
from vinecast.node.storage.store import Store
from vinecast.peer import bootstrap
from vinecast.peer.address import Address
from vinecast.peer.config import PeerConfig
from vinecast.peer.inputs import AddressFailed, AddressReached, LinkDown
from vinecast.peer.outputs import DialAddress


def free_address() -> str:
    """Where nobody listens yet."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


def sees(node: Node, other: Node) -> bool:
    """Whether a node knows another one."""
    return other.id in {peer.id for peer in node.peers()}


def test_whoever_is_joined_first_still_joins_those_it_was_told_of() -> None:
    async def main() -> None:
        late = free_address()
        async with village(0, sockets=True) as found:
            early = await found.add(join=[late])
            newcomer = await found.add(join=[early.address])
            await until(lambda: sees(early, newcomer) and sees(newcomer, early), "the newcomer is met")
            other = await found.add(listen=late, join=[])
            await until(lambda: sees(newcomer, other) and sees(other, newcomer), "all three have met")

    live(main())


def test_all_that_were_given_are_met() -> None:
    async def main() -> None:
        async with village(0) as found:
            groups = [await found.add(join=[]) for _ in range(3)]
            for node in groups:
                await found.add(join=[node.address])
            assert not any(sees(a, b) for a in groups for b in groups if a is not b)
            await found.add(join=[node.address for node in groups])
            await until(lambda: all(sees(a, b) for a in found.nodes for b in found.nodes if a is not b))

    live(main())


async def remember(folder: Path, *met: Node) -> None:
    """Let a node's folder say whom it met in better days, the last at the end."""
    store = await Store.open(folder, load_or_make_identity(folder).id)
    for seen_us, node in enumerate(met):
        store.add_peer(node.id, Address.parse(node.address), seen_us)
    await store.close()


def test_groups_that_lost_each_other_come_together_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    again_cycles = 10**9
    monkeypatch.setattr(bootstrap, "AGAIN_CYCLES", again_cycles)

    async def main() -> None:
        async with village(0) as found:
            neighbour, there = await found.add(join=[]), await found.add(join=[])
            other = await found.add(join=[there.address])
            await remember(tmp_path, there, neighbour)
            here = await found.add(join=[], folder=tmp_path, identity=load_or_make_identity(tmp_path))
            await until(lambda: sees(here, neighbour) and sees(there, other))
            for _ in range(4):
                await here.next_cycle()
            assert not sees(here, there)  # whom it met last is company enough
            monkeypatch.setattr(bootstrap, "AGAIN_CYCLES", 3)
            await until(lambda: all(sees(a, b) for a in found.nodes for b in found.nodes if a is not b))

    live(main())


def test_a_node_under_two_names_is_met_and_called_again_when_it_is_lost() -> None:
    names, other = (Address("memory", 5), Address("memory", 6)), make_identity()
    lone = LonePeer(PeerConfig(), names)
    assert {one.address for one in of_type(DialAddress, lone.begun)} == set(names)
    for name in names:
        assert not lone.feed(AddressReached(name, other.id))
    lone.introduce("news", other=other)
    lone.feed(LinkDown(other.id, broken=False))
    calls: list[DialAddress] = []
    for _ in range(bootstrap.AGAIN_CYCLES):
        assert not calls
        lone.now_us += 60_000_000
        calls += of_type(DialAddress, lone.feed(TimerFired(lone.peer.system.row.last_timer)))
    assert len(calls) == 1
    assert not lone.peer.bootstrap.trouble


def test_trouble_is_remembered_of_addresses_that_are_remembered_only() -> None:
    given = Address("given", 1)
    lone = LonePeer(PeerConfig(), (given,))
    lone.feed(AddressFailed(given, "nobody listens there"))
    found = lone.peer.bootstrap
    assert found.trouble == {"given:1": "nobody listens there"}
    for n in range(200):
        address = Address(f"10.0.0.{n}", 1)
        found._remembered = {address: None}  # a peer that has a new card each time
        found._call([address])
        lone.feed(AddressFailed(address, "nobody listens there"))
        assert set(found.trouble) == {"given:1", str(address)}
        assert not found.expects_one
