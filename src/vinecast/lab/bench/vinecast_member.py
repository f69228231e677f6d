"""A member of a network of ours: a whole node as it comes. Where the highest lossless rate is looked for it
has room for a reader that is late."""

import asyncio
from typing import Any

from vinecast.lab.bench.member import TOPIC, WAITING, ArrivalTally, read_line, say, serve
from vinecast.node.api.node import Node
from vinecast.node.api.subscription import Subscription
from vinecast.node.runtime.config import NodeConfig
from vinecast.peer.address import Address


class VinecastMember:
    """A node of ours; ``durable``: what it publishes becomes part of the topic's stream."""

    def __init__(self, node: Node, tally: ArrivalTally, reads: bool, durable: bool = False) -> None:
        self._node, self._tally, self._durable = node, tally, durable
        self._subscription = node.subscribe(TOPIC) if reads else None
        self._reader = (
            asyncio.create_task(read_all(self._subscription, tally)) if self._subscription else None
        )

    async def join(self, peers: list[str]) -> None:
        """One that is there is enough."""
        for peer in peers[:1]:
            await self._node._driver.transport.connect(Address.parse(peer))
            await self._node._driver.joined.wait()

    async def ready(self, members: int) -> None:
        """Who reads waits for its ring, who does not, to know somebody who does."""
        if self._subscription is not None:
            await self._node._driver.joined.wait()
            await self._subscription.ready()
        while TOPIC not in self._node.known_topics():
            await self._node._driver.next_cycle()

    async def publish(self, payloads: list[bytes]) -> None:
        """One: and wait for its receipt. Several: in one turn of the loop."""
        if len(payloads) == 1:
            await self._node.publish(TOPIC, payloads[0], durable=self._durable)
        else:
            await self._node.publish_all(TOPIC, payloads, durable=self._durable)


async def read_all(subscription: Subscription, tally: ArrivalTally) -> None:
    """The application: it reads."""
    async for event in subscription:
        tally.take(event.payload)


async def vinecast_node(settings: dict[str, Any]) -> None:
    """What the process does."""
    tally = ArrivalTally()
    async with Node(config=NodeConfig(period_s=settings["period_s"], waiting=WAITING)) as node:
        member = VinecastMember(node, tally, settings["reads"])
        say({"is": "up", "address": node.address})
        await serve(member, tally, read_line, asyncio.sleep)
