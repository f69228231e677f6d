"""Nodes find each other, whoever was there first, and find each other again."""

import socket

import pytest

from support.node.live import live, until, village
from vinecast.node.api.node import Node
from vinecast.node.runtime import bootstrap
from vinecast.peer.address import Address


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


def test_groups_that_lost_each_other_come_together_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "AGAIN_CYCLES", 3)

    async def main() -> None:
        async with village(0) as found:
            here, there = await found.add(join=[]), await found.add(join=[])
            neighbours = [await found.add(join=[node.address]) for node in (here, there)]
            await until(lambda: sees(here, neighbours[0]) and sees(there, neighbours[1]))
            assert not sees(here, there)
            assert here._store is not None
            here._store.add_peer(there.id, Address.parse(there.address), 1)  # met in better days
            await until(lambda: all(sees(a, b) for a in found.nodes for b in found.nodes if a is not b))

    live(main())
