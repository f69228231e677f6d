"""A member of a gossipsub network of py-libp2p, for the comparison (extra ``bench-peers``).

Ed25519 keys, Noise and Yamux over TCP, messages signed and checked; the mesh's degrees and heartbeat are
those of the gossipsub specification. Its limit of ten messages a second from a peer is switched off: with it,
that limit is all that would be measured.
"""

import sys
from typing import Any

import multiaddr
import trio
from libp2p import new_host
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.custom_types import TProtocol
from libp2p.peer.peerinfo import info_from_p2p_addr
from libp2p.pubsub.gossipsub import GossipSub
from libp2p.pubsub.pubsub import Pubsub
from libp2p.tools.anyio_service import background_trio_service

from vinecast.lab.bench.member import TOPIC, ArrivalTally, say, serve

PROTOCOL = TProtocol("/meshsub/1.1.0")
DEGREE, DEGREE_LOW, DEGREE_HIGH, HEARTBEAT_S = 6, 4, 12, 1  # gossipsub v1.1, "Parameters"
LOOK_S = 0.1


class LibP2PMember:
    """A host with gossipsub."""

    def __init__(self, host: Any, pubsub: Pubsub, router: GossipSub) -> None:
        self._host, self._pubsub, self._router = host, pubsub, router

    async def join(self, peers: list[str]) -> None:
        """Connect to all who were there before."""
        for peer in peers:
            await self._host.connect(info_from_p2p_addr(multiaddr.Multiaddr(peer)))

    async def ready(self, members: int) -> None:
        """All others are known as subscribers, and the mesh has as many as it needs."""
        others = members - 1
        while (
            len(self._pubsub.peer_topics.get(TOPIC, ())) < others
            or len(self._router.mesh.get(TOPIC, ())) < min(DEGREE_LOW, others)
        ):  # fmt: skip
            await trio.sleep(LOOK_S)

    async def publish(self, payloads: list[bytes]) -> None:
        """One after the other."""
        for payload in payloads:
            await self._pubsub.publish(TOPIC, payload)


async def _read_line() -> str:
    line: str = await trio.to_thread.run_sync(sys.stdin.readline)
    return line


async def _read(subscription: Any, tally: ArrivalTally) -> None:
    while True:
        tally.take((await subscription.get()).data)


async def _main() -> None:
    tally = ArrivalTally()
    host = new_host(key_pair=create_new_key_pair(), muxer_preference="YAMUX")
    router = GossipSub(
        protocols=[PROTOCOL],
        degree=DEGREE,
        degree_low=DEGREE_LOW,
        degree_high=DEGREE_HIGH,
        heartbeat_interval=HEARTBEAT_S,
        spam_protection_enabled=False,
    )
    pubsub = Pubsub(host, router, strict_signing=True)
    listen = multiaddr.Multiaddr("/ip4/127.0.0.1/tcp/0")
    async with (
        host.run(listen_addrs=[listen]),
        background_trio_service(pubsub),
        background_trio_service(router),
        trio.open_nursery() as nursery,
    ):
        await pubsub.wait_until_ready()
        subscription = await pubsub.subscribe(TOPIC)
        nursery.start_soon(_read, subscription, tally)
        say({"is": "up", "address": str(host.get_addrs()[0])})
        await serve(LibP2PMember(host, pubsub, router), tally, _read_line, trio.sleep)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(_main)
