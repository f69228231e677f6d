"""A ring in the order of values: who is responsible for a value, and for the parts of a range (S2 §4.3).

Values of an attribute lie on the circle in their own order (``core/content/schemas``), so a range of values
is an arc of it. A value belongs to the first node at or after its place, which owns the arc from its
predecessor, excluded, to itself, included. S2 says "closest, but higher" in its text and "closest, but not
higher" in its figures, and forgets the wrap-around in Algorithm 9; this is what it means.

A lookup goes to whoever of a node's neighbours is nearest to the value, from either side (S2's go up only,
and would leave half of the long links unused), then to the first one at or after it. A range is *showered*:
every neighbour inside it gets the part around itself, and hands on what it does not own.
"""

from vinecast.protocols.order_ring.rules import next_hop, predecessor, shower, successor

__all__ = ["next_hop", "predecessor", "shower", "successor"]
