"""Too much, as a node of a local network feels it: an application that reads slowly, another that publishes
all it can. Both count what they see, and nothing else."""

import asyncio
import time
from itertools import repeat

from vinecast.core.errors import OverloadedError
from vinecast.lab.localnet.messages import PublishedMuch, PublishMuch
from vinecast.node.api.node import Node
from vinecast.node.api.subscription import Subscription
from vinecast.peer.receipt import Receipt

HAND_MAX = 20  # ours: events that are published at once when it is late; fewer than wait for any reader
TICK_S = 0.005  # ours


class SlowReader:
    """An application that rests after each event."""

    def __init__(self, subscription: Subscription, pause_s: float) -> None:
        self._subscription, self._pause_s = subscription, pause_s
        self._read = 0

    async def run(self) -> None:
        """Read and rest, for ever."""
        async for _ in self._subscription:
            self._read += 1
            await asyncio.sleep(self._pause_s)

    def told(self) -> tuple[int, int, int]:
        """Events that it read, that wait for it, and that found no room to wait."""
        return self._read, self._subscription.waiting, self._subscription.dropped


async def publish_much(node: Node, order: PublishMuch) -> PublishedMuch:
    """Publish as ordered; what came of it."""
    payload, begin = bytes(order.payload_bytes), time.monotonic()
    found = PublishedMuch(order.node, 0.0, 0, 0, 0)
    while (elapsed := time.monotonic() - begin) < order.seconds:
        hand = order.at_once
        if order.rate:
            hand = min(int(elapsed * order.rate) + 1 - found.published - found.refused, HAND_MAX)
        receipts = await asyncio.gather(*(_publish(node, order.topic, one) for one in repeat(payload, hand)))
        taken = [receipt for receipt in receipts if receipt is not None]
        found.published += len(taken)
        found.unheard += sum(receipt.neighbours == 0 for receipt in taken)
        found.refused += len(receipts) - len(taken)
        await asyncio.sleep(TICK_S if order.rate else 0)
    found.seconds = time.monotonic() - begin
    return found


async def _publish(node: Node, topic: str, payload: bytes) -> Receipt | None:
    try:
        return await node.publish(topic, payload, durable=False)
    except OverloadedError:
        return None
