"""Gravity: every node tells its neighbours what lies within a few hops of it (S1 §3.1, Algorithm 1).

A node's *home* is an attenuated Bloom filter: level 0 holds its own id and topics, level n the union of its
neighbours' level n − 1. Once a period it is sent to all neighbours, as a difference where they have the last
one. What is not refreshed within T is forgotten with its sender. So every topic of a node draws in, up to as
many hops away as there are levels, whatever looks for it: a gravity well.

The protocol also keeps the links: whoever sends a home becomes a neighbour while there is room, so that links
lead both ways.
"""

from vinecast.protocols.gravity.machine import Gravity
from vinecast.protocols.gravity.messages import (
    GravityAsk,
    GravityConfig,
    GravityLeave,
    GravityRefuse,
    GravityUpdate,
)

__all__ = ["Gravity", "GravityAsk", "GravityConfig", "GravityLeave", "GravityRefuse", "GravityUpdate"]
