"""Pastry: routing to the node that is nearest to a key, in about log₁₆ N hops.

The distributed hash table below Scribe, the baseline of S0 §6 (b = 4, l = 32), after Rowstron and Druschel,
"Pastry: Scalable, decentralized object location, and routing for large-scale peer-to-peer systems"
(Middleware 2001), cited here as Pastry §. Read ``rules`` (the decisions), then ``machine`` (one
node), then ``sweep`` (everybody at rest).
"""

from vinecast.protocols.pastry.config import PastryConfig
from vinecast.protocols.pastry.machine import Pastry
from vinecast.protocols.pastry.messages import (
    MESSAGES,
    PastryAnnounce,
    PastryAnswer,
    PastryExchange,
    PastryGone,
    PastryGoodbye,
    PastryJoin,
    PastryProbe,
    PastryRow,
    PastryWelcome,
)

__all__ = [
    "MESSAGES",
    "Pastry",
    "PastryAnnounce",
    "PastryAnswer",
    "PastryConfig",
    "PastryExchange",
    "PastryGone",
    "PastryGoodbye",
    "PastryJoin",
    "PastryProbe",
    "PastryRow",
    "PastryWelcome",
]
