"""Kademlia: finding the peers nearest to a key, and values and providers among them.

The distributed hash table below PulsarCast (S3 §3.1 and §4.2), after Maymounkov and Mazières, "Kademlia: A
Peer-to-Peer Information System Based on the XOR Metric" (IPTPS 2002), cited here as Kademlia §. Read
``buckets`` (whom a node knows), ``lookup`` (how it finds the nearest), ``storage`` and ``keeping`` (what it
keeps), then ``operations`` and ``machine``.
"""

from vinecast.protocols.kademlia.buckets import KEY_BYTES, key_of_point, point_of
from vinecast.protocols.kademlia.config import KademliaConfig
from vinecast.protocols.kademlia.machine import Kademlia
from vinecast.protocols.kademlia.messages import (
    MESSAGES,
    KademliaAnswer,
    KademliaFind,
    KademliaGoodbye,
    KademliaPing,
    KademliaPong,
    KademliaProvide,
    KademliaStore,
    KademliaStored,
)
from vinecast.protocols.kademlia.tasks import Found, Operation, Validator

__all__ = [
    "KEY_BYTES",
    "MESSAGES",
    "Found",
    "Kademlia",
    "KademliaAnswer",
    "KademliaConfig",
    "KademliaFind",
    "KademliaGoodbye",
    "KademliaPing",
    "KademliaPong",
    "KademliaProvide",
    "KademliaStore",
    "KademliaStored",
    "Operation",
    "Validator",
    "key_of_point",
    "point_of",
]
