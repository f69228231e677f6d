"""A navigable small world: a ring, long links, and greedy lookups over both (S2 §3.2.1, after Symphony).

Every node is linked to the next on either side of the circle, which makes lookups consistent: whoever looks a
point up ends at the same node, the nearest to it. Links to nodes at random distances, short ones more
likely than long ones in inverse proportion, make lookups short.
"""

from vinecast.protocols.small_world.places import topic_places
from vinecast.protocols.small_world.rules import LinkChoice, meet, next_hop, put_links_first, select_links

__all__ = ["LinkChoice", "meet", "next_hop", "put_links_first", "select_links", "topic_places"]
