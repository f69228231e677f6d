"""A client of nats-server, for the comparison: nats-py, on the same event loop and in the same processes."""

import asyncio
from typing import Any

import nats

from vinecast.lab.bench.member import TOPIC, ArrivalTally, read_line, say, serve


class NatsMember:
    """A publisher, or a subscriber whose messages are handed to a callback (nats-py's fastest way)."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def join(self, peers: list[str]) -> None:
        """All know the server."""

    async def ready(self, members: int) -> None:
        """The server has heard of the subscription."""
        await self._client.flush()

    async def publish(self, payloads: list[bytes]) -> None:
        """nats-py joins what is published in one turn of the loop."""
        for payload in payloads:
            await self._client.publish(TOPIC, payload)
        await asyncio.sleep(0)


async def nats_client(settings: dict[str, Any]) -> None:
    """What the process does."""
    tally = ArrivalTally()

    async def take(message: Any) -> None:
        tally.take(message.data)

    client = await nats.connect(settings["server"])
    if settings["reads"]:
        await client.subscribe(TOPIC, cb=take, pending_msgs_limit=0, pending_bytes_limit=0)
    say({"is": "up", "address": ""})
    await serve(NatsMember(client), tally, read_line, asyncio.sleep)
    await client.close()
