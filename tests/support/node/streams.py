"""What readers of a stream get."""

from support.node.live import take
from vinecast.node.api.node import Node
from vinecast.node.api.subscription import Event, Subscription


def payloads(events: list[Event]) -> list[bytes]:
    return [event.payload for event in events]


async def read(node: Node, topic: str, count: int, **rest: object) -> list[Event]:
    """So many events of a topic, by a reader of its own."""
    reader: Subscription = node.subscribe(topic, **rest)  # type: ignore[arg-type]
    return await take(reader, count)
