"""Carriers of durable streams: for each, its messages that carry events, and who is next to a node in a
topic."""

from collections.abc import Callable, Sequence

from vinecast.core.arrays.profiles import row_of
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.machine import NOBODY, Machine
from vinecast.protocols.multicast_tree import MulticastTree, TreeEvent, TreePublish
from vinecast.systems.common.notices import PulledEvent, SeekingEvent
from vinecast.systems.common.notices_base import NoticesBase
from vinecast.systems.common.tman_base import TManBase
from vinecast.systems.durable.machine import Carrier
from vinecast.systems.poldercast.machine import PolderCast, PolderCastEvent
from vinecast.systems.vinifera.events import ContentEvent, ContentSystem

STRANGERS = 8
"""Subscribers beside the ring's that are taken for neighbours (ours)."""


def over_poldercast(machine: PolderCast) -> Carrier:
    """PolderCast's rings. Neighbours in a topic are those on its ring, and some other subscribers that
    Vicinity and Cyclon know: anti-entropy must cross a ring quickly."""
    profiles, rings = machine.profiles, machine.rings

    def neighbours(topic: int, now_us: int) -> list[int]:
        own = profiles.topics_of(machine.me).tolist()
        found = rings.carriers(own.index(topic), now_us).tolist() if topic in own else []
        others = [*machine.vicinity.peers.tolist(), *machine.cyclon.peers.tolist()]
        table = profiles.table
        found += [p for p in others if p != NOBODY and row_of(table, p, topic) >= 0][:STRANGERS]
        return [peer for peer in dict.fromkeys(found) if peer not in (NOBODY, machine.me)]

    return Carrier(machine, (PolderCastEvent,), neighbours)


def over_tree(machine: Machine, tree: MulticastTree) -> Carrier:
    """Multicast trees, as a system has them. Neighbours are parent and children; where they only relay, the
    topic's replicas are asked."""

    def neighbours(topic: int, now_us: int) -> list[int]:
        branch = tree.branches.get(topic)
        if branch is None:
            return []
        return [peer for peer in (branch.parent, *branch.children) if peer != NOBODY]

    return Carrier(machine, (TreeEvent, TreePublish), neighbours, relays=True)


def over_notices(machine: NoticesBase) -> Carrier:
    """Notices, as Vitis has them: events are asked for."""
    return Carrier(machine, (PulledEvent, SeekingEvent), _near(machine), machine.notices.note, relays=True)


def over_content(machine: ContentSystem, publishes: Callable[[SignedEvent], object]) -> Carrier:
    """Ways of content, as Vinifera has them. Who reads a stream asks for all of its topic; who wants some of
    it only has its events as they come by."""
    return Carrier(
        machine, (ContentEvent,), _near(machine), publishes=publishes, relays=True, by_content=True
    )


def _near(machine: TManBase) -> Callable[[int, int], Sequence[int]]:
    """Neighbours in a topic are those who subscribe to it, and some more whom Cyclon knows."""
    profiles = machine.profiles

    def neighbours(topic: int, now_us: int) -> list[int]:
        table, others = profiles.table, machine.cyclon.view.tolist()
        strangers = [peer for peer in others if row_of(table, peer, topic) >= 0][:STRANGERS]
        return list(dict.fromkeys([*machine.interested(topic), *strangers]))

    return neighbours
