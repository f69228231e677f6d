"""Gateways: who of a cluster connects it with the other clusters of a topic (S2 §3.3, Algorithm 5).

Every subscriber proposes itself for each of its topics, and rather whom a neighbour proposes who is nearer to
the topic's place on the circle, unless that is too many hops away. Whoever still proposes itself when it has
heard its neighbours is a gateway. There may be several in a cluster; that costs traffic, not correctness.
"""

from vinecast.protocols.gateway.proposals import Proposals
from vinecast.protocols.gateway.rules import Basis, Proposed, propose

__all__ = ["Basis", "Proposals", "Proposed", "propose"]
