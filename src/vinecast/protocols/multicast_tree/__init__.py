"""A multicast tree for every topic, grown along the routes to the topic's key.

The upper half of Scribe, the baseline of S0 §6, after Castro, Druschel, Kermarrec and Rowstron, "Scribe: A
large-scale and decentralized application-level multicast infrastructure" (IEEE JSAC 2002), cited here as
Scribe §. It knows no particular routing: a system lends it one (``Routing``).
"""

from vinecast.protocols.multicast_tree.config import TreeConfig
from vinecast.protocols.multicast_tree.machine import MulticastTree, Routing
from vinecast.protocols.multicast_tree.messages import (
    MESSAGES,
    TreeAccept,
    TreeAlive,
    TreeEvent,
    TreeHeartbeat,
    TreeJoin,
    TreePart,
    TreePublish,
)

__all__ = [
    "MESSAGES",
    "MulticastTree",
    "Routing",
    "TreeAccept",
    "TreeAlive",
    "TreeConfig",
    "TreeEvent",
    "TreeHeartbeat",
    "TreeJoin",
    "TreePart",
    "TreePublish",
]
