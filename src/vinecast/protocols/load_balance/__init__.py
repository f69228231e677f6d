"""Load balancing: a node moves towards a successor that has more to do (S2 §4.5, Algorithm 12).

A node's load is what it receives as the owner of a value without wanting it. Values are not spread evenly, so
neither is load. A node that has much less of it than its successor moves up, to the middle between the two,
and so takes over half of its successor's arc; its links stay what they are.

Nothing is lost by it: the successor first hands over what it was asked for in that half, as a request of its
own, and only then does the node move. Until everybody has asked the new owner, events go by way of the old
one. The wrap-around that Algorithm 12 gets wrong is done by distances on the circle.
"""

from vinecast.protocols.load_balance.machine import LOAD_MAX, LoadBalance, Shift, ShiftAsk, ShiftGrant

__all__ = ["LOAD_MAX", "LoadBalance", "Shift", "ShiftAsk", "ShiftGrant"]
