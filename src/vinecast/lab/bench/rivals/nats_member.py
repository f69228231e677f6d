"""A client of nats-server with nats-py: of NATS itself, or of JetStream."""

import asyncio
from typing import Any

import nats
from nats.js.api import ConsumerConfig, DeliverPolicy, StorageType

from vinecast.lab.bench.member import TOPIC, read_line, say, serve
from vinecast.lab.bench.rivals.publications import RivalTally, publish_run


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


class JetStreamMember(NatsMember):
    """… of JetStream: the publisher waits until the server has each message in its stream."""

    def __init__(self, client: Any, stream: Any) -> None:
        super().__init__(client)
        self._stream = stream

    async def publish(self, payloads: list[bytes]) -> None:
        """One: and wait for its ack. Several: all at once, and wait for the acks."""
        if len(payloads) == 1:
            await self._stream.publish(TOPIC, payloads[0])
        else:
            acks = [await self._stream.publish_async(TOPIC, payload) for payload in payloads]
            await asyncio.gather(*acks)


async def nats_client(settings: dict[str, Any]) -> None:
    """What the process does."""
    tally = RivalTally()

    async def take(message: Any) -> None:
        tally.take(message.data)

    client = await nats.connect(settings["server"])
    member = NatsMember(client)
    if settings["durable"]:
        stream = client.jetstream()
        await stream.add_stream(name=TOPIC, subjects=[TOPIC], storage=StorageType.FILE)
        member = JetStreamMember(client, stream)
        if settings["reads"]:
            config = ConsumerConfig(deliver_policy=DeliverPolicy.NEW)
            await stream.subscribe(TOPIC, cb=take, ordered_consumer=True, config=config)
    elif settings["reads"]:
        await client.subscribe(TOPIC, cb=take)
    say({"is": "up", "address": ""})
    await serve(member, tally, read_line, asyncio.sleep, publish_run)
    await client.close()
