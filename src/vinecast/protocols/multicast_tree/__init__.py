"""A multicast tree for every topic, grown along the routes to the topic's key.

The upper half of Scribe, the baseline of S0 §6, after Castro, Druschel, Kermarrec and Rowstron, "Scribe: A
large-scale and decentralized application-level multicast infrastructure" (IEEE JSAC 2002), cited here as
Scribe §. It knows no particular routing: a system lends it one (``TreeRouting``). ``recruiting`` has the
trees of PulsarCast (S3 §4.3), which grow, spread and mend a little differently.
"""

from vinecast.protocols.multicast_tree.config import TreeConfig
from vinecast.protocols.multicast_tree.machine import MulticastTree, TreeRouting
from vinecast.protocols.multicast_tree.messages import (
    MESSAGES,
    TreeAbove,
    TreeAccept,
    TreeAlive,
    TreeEvent,
    TreeHeartbeat,
    TreeJoin,
    TreeMember,
    TreePart,
    TreePublish,
    TreeSearch,
)
from vinecast.protocols.multicast_tree.recruiting import RecruitingConfig, RecruitingTree, TreePorts

__all__ = [
    "MESSAGES",
    "MulticastTree",
    "RecruitingConfig",
    "RecruitingTree",
    "TreeAbove",
    "TreeAccept",
    "TreeAlive",
    "TreeConfig",
    "TreeEvent",
    "TreeHeartbeat",
    "TreeJoin",
    "TreeMember",
    "TreePart",
    "TreePorts",
    "TreePublish",
    "TreeRouting",
    "TreeSearch",
]
