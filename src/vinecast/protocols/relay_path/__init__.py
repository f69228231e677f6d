"""Relay paths: what lookups leave behind on their way to a topic's rendezvous (S2 §3.3, §3.5).

Whoever wants its cluster connected asks the next hop towards the topic's place to relay, and that one asks
its own next hop, until nobody is nearer. Everyone on the way keeps, for the topic, who asked it and whom it
asked: events go along these links, up and down. Asking is repeated every cycle; what was not asked for in the
last one or the one before is forgotten.
"""

from vinecast.protocols.relay_path.machine import RelayPaths, RelayRequest

__all__ = ["RelayPaths", "RelayRequest"]
