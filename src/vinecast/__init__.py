"""Vinecast: peer-to-peer publish/subscribe with topics, content filters and durable streams, no broker.

    async with Node(join=["host:7000"]) as node:
        async for event in node.subscribe("sports/tennis"):
            print(event.payload)

What stands in ``__all__`` is the public interface. It is imported when it is first used, so that the command
line is there at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vinecast.core.errors import Bug, InputError, RemoteError, VinecastError
    from vinecast.core.schemas import Attribute, Schema
    from vinecast.core.schemas_text import parse_schema
    from vinecast.node.config import NodeConfig
    from vinecast.node.node import Node, Peer
    from vinecast.node.publisher import OverloadedError
    from vinecast.node.publisher_durable import UnsafeError
    from vinecast.node.receipt import Receipt
    from vinecast.node.subscription import Event, Subscription
    from vinecast.node.sync import SyncNode, SyncSubscription

__version__ = "0.1.0"

_PLACES = {
    "Attribute": "core.schemas",
    "Bug": "core.errors",
    "Event": "node.subscription",
    "InputError": "core.errors",
    "Node": "node.node",
    "NodeConfig": "node.config",
    "OverloadedError": "node.publisher",
    "Peer": "node.node",
    "Receipt": "node.receipt",
    "RemoteError": "core.errors",
    "Schema": "core.schemas",
    "Subscription": "node.subscription",
    "SyncNode": "node.sync",
    "SyncSubscription": "node.sync",
    "UnsafeError": "node.publisher_durable",
    "VinecastError": "core.errors",
    "parse_schema": "core.schemas_text",
}

__all__ = [
    "Attribute",
    "Bug",
    "Event",
    "InputError",
    "Node",
    "NodeConfig",
    "OverloadedError",
    "Peer",
    "Receipt",
    "RemoteError",
    "Schema",
    "Subscription",
    "SyncNode",
    "SyncSubscription",
    "UnsafeError",
    "VinecastError",
    "parse_schema",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'vinecast' has no attribute {name!r}")
    return getattr(import_module(f"vinecast.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
