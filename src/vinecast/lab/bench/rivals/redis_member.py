"""A client of redis-server with redis-py: a publisher adds to a stream, a subscriber reads on from there."""

import asyncio
from typing import Any

from redis.asyncio import Redis

from vinecast.lab.bench.member import TOPIC, read_line, say, serve
from vinecast.lab.bench.rivals.publications import RivalTally, publish_run

READ_AT_ONCE, WAIT_MS = 1000, 1000  # ours


class RedisMember:
    """A publisher, which waits until the server has each entry, or a subscriber."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def join(self, peers: list[str]) -> None:
        """All know the server."""

    async def ready(self, members: int) -> None:
        """A reader misses nothing: it reads from the beginning of the stream."""
        await self._client.ping()

    async def publish(self, payloads: list[bytes]) -> None:
        """One: a call. Several: a pipeline, which is one call for all."""
        if len(payloads) == 1:
            await self._client.xadd(TOPIC, {b"event": payloads[0]})
        else:
            async with self._client.pipeline(transaction=False) as pipeline:
                for payload in payloads:
                    pipeline.xadd(TOPIC, {b"event": payload})
                await pipeline.execute()


async def _read(client: Any, tally: RivalTally) -> None:
    place: Any = "0-0"
    while True:
        for _, entries in await client.xread({TOPIC: place}, count=READ_AT_ONCE, block=WAIT_MS) or ():
            for place, fields in entries:  # noqa: B007 - the last is where to go on
                tally.take(fields[b"event"])


async def redis_client(settings: dict[str, Any]) -> None:
    """What the process does."""
    tally = RivalTally()
    client = Redis(host="127.0.0.1", port=int(settings["server"]), protocol=2)
    reader = asyncio.create_task(_read(client, tally)) if settings["reads"] else None
    say({"is": "up", "address": ""})
    await serve(RedisMember(client), tally, read_line, asyncio.sleep, publish_run)
    if reader is not None:
        reader.cancel()
    await client.aclose()
