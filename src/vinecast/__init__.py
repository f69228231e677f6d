"""Vinecast: peer-to-peer publish/subscribe with topics, content filters and durable streams, no broker.

    async with Node(join=["host:7000"]) as node:
        async for event in node.subscribe("sports/tennis"):
            print(event.payload)

What stands in ``__all__`` is the public interface. It is imported when it is first used, so that the command
line is there at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vinecast.core.version import VERSION

if TYPE_CHECKING:
    from vinecast.core.content.schemas import Attribute, Schema
    from vinecast.core.content.schemas_text import parse_schema
    from vinecast.core.errors import (
        BadNameError,
        Bug,
        ClosedError,
        InputError,
        JoinError,
        MissingExtraError,
        NotStartedError,
        OverloadedError,
        RefusedError,
        RemoteError,
        RightsError,
        TimedOutError,
        UnsafeError,
        VinecastError,
    )
    from vinecast.core.log.retention import Retention
    from vinecast.node.api.node import Node, PeerInfo
    from vinecast.node.api.subscription import Event, Subscription
    from vinecast.node.api.sync import SyncNode, SyncSubscription
    from vinecast.node.runtime.config import NodeConfig
    from vinecast.node.storage.store import StoreConfig
    from vinecast.node.transport.interface import TransportConfig
    from vinecast.peer.receipt import Receipt
    from vinecast.systems.vinifera.settings import ViniferaSettings
    from vinecast.systems.vitis.settings import VitisSettings

__version__ = VERSION

_PLACES = {
    "Attribute": "core.content.schemas",
    "BadNameError": "core.errors",
    "Bug": "core.errors",
    "ClosedError": "core.errors",
    "Event": "node.api.subscription",
    "InputError": "core.errors",
    "JoinError": "core.errors",
    "MissingExtraError": "core.errors",
    "Node": "node.api.node",
    "NodeConfig": "node.runtime.config",
    "NotStartedError": "core.errors",
    "OverloadedError": "core.errors",
    "PeerInfo": "node.api.node",
    "Receipt": "peer.receipt",
    "RefusedError": "core.errors",
    "RemoteError": "core.errors",
    "Retention": "core.log.retention",
    "RightsError": "core.errors",
    "Schema": "core.content.schemas",
    "StoreConfig": "node.storage.store",
    "Subscription": "node.api.subscription",
    "SyncNode": "node.api.sync",
    "SyncSubscription": "node.api.sync",
    "TimedOutError": "core.errors",
    "TransportConfig": "node.transport.interface",
    "UnsafeError": "core.errors",
    "VinecastError": "core.errors",
    "ViniferaSettings": "peer.config",
    "VitisSettings": "peer.config",
    "parse_schema": "core.content.schemas_text",
}

__all__ = [
    "Attribute",
    "BadNameError",
    "Bug",
    "ClosedError",
    "Event",
    "InputError",
    "JoinError",
    "MissingExtraError",
    "Node",
    "NodeConfig",
    "NotStartedError",
    "OverloadedError",
    "PeerInfo",
    "Receipt",
    "RefusedError",
    "RemoteError",
    "Retention",
    "RightsError",
    "Schema",
    "StoreConfig",
    "Subscription",
    "SyncNode",
    "SyncSubscription",
    "TimedOutError",
    "TransportConfig",
    "UnsafeError",
    "VinecastError",
    "ViniferaSettings",
    "VitisSettings",
    "parse_schema",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'vinecast' has no attribute {name!r}")
    return getattr(import_module(f"vinecast.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
