"""Carriers of durable streams on simulated nodes: for each, its messages that carry events, and who is next
to a node in a topic. On live nodes a system's row says so."""

from vinecast.core.machine import Machine
from vinecast.protocols.multicast_tree import MulticastTree, TreeEvent, TreePublish
from vinecast.systems.common.tree_base import tree_neighbours
from vinecast.systems.durable.machine import Carrier
from vinecast.systems.poldercast.machine import PolderCast, PolderCastEvent
from vinecast.systems.poldercast.router import ring_neighbours


def over_poldercast(machine: PolderCast) -> Carrier:
    """PolderCast's rings."""
    return Carrier(machine, (PolderCastEvent,), lambda topic, now_us: ring_neighbours(machine, topic, now_us))


def over_tree(machine: Machine, tree: MulticastTree) -> Carrier:
    """Multicast trees, as a system has them."""
    carries = TreeEvent, TreePublish
    return Carrier(machine, carries, lambda topic, now_us: tree_neighbours(tree, topic), relays=True)
