"""A peer of zenoh, connected to all others, without a router. Its publisher waits rather than drops: zenoh's
own default would lose most of what is published as fast as it goes."""

import asyncio
import json
import socket
from typing import Any

import zenoh

from vinecast.lab.bench.member import TOPIC, read_line, say, serve
from vinecast.lab.bench.rivals.publications import RivalTally, publish_run

LOOK_S = 0.02  # ours


class ZenohMember:
    """A publisher, or a subscriber whose samples are handed to a callback."""

    def __init__(self, listen: str, tally: RivalTally, reads: bool) -> None:
        self._listen, self._tally, self._reads = listen, tally, reads
        self._session: Any = None
        self._publisher: Any = None

    async def join(self, peers: list[str]) -> None:
        """Connect to all that are there; it cannot be told later."""
        config = zenoh.Config()
        config.insert_json5("mode", '"peer"')
        config.insert_json5("scouting/multicast/enabled", "false")
        config.insert_json5("listen/endpoints", json.dumps([self._listen]))
        config.insert_json5("connect/endpoints", json.dumps(peers))
        self._session = await asyncio.to_thread(zenoh.open, config)
        if self._reads:
            self._session.declare_subscriber(TOPIC, lambda sample: self._tally.take(bytes(sample.payload)))
        else:
            block = zenoh.CongestionControl.BLOCK
            self._publisher = self._session.declare_publisher(TOPIC, congestion_control=block)

    async def ready(self, members: int) -> None:
        """Connected to all others, and the publisher knows a subscriber."""
        while len(self._session.info.peers_zid()) < members - 1:
            await asyncio.sleep(LOOK_S)
        while self._publisher is not None and not self._publisher.matching_status.matching:
            await asyncio.sleep(LOOK_S)

    async def publish(self, payloads: list[bytes]) -> None:
        """zenoh joins small messages itself."""
        for payload in payloads:
            self._publisher.put(payload)
        await asyncio.sleep(0)


async def zenoh_peer(settings: dict[str, Any]) -> None:
    """What the process does."""
    tally = RivalTally()
    with socket.create_server(("127.0.0.1", 0)) as place:  # zenoh does not tell which port it took
        listen = f"tcp/127.0.0.1:{place.getsockname()[1]}"
    say({"is": "up", "address": listen})
    await serve(ZenohMember(listen, tally, settings["reads"]), tally, read_line, asyncio.sleep, publish_run)
