"""Multicast trees for a whole population at rest: how far events travel, and what they cost whom.

A ``Forest`` has a tree for every topic. An event climbs from its publisher to the root and goes down all
links (Scribe §3.3); once a period a heartbeat goes down every link. So what a node receives and sends follows
from its place in the trees alone, and is counted here without moving a message.

A link can be *direct*, as in Scribe's paper, whose nodes keep the addresses of their children, or *routed*:
the message to a child goes through the routing below, hop by hop, like everything else. S0 §6.4 speaks of
"relay nodes, both at the Scribe and Pastry level"; that is the second.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vinecast.core.machine import NOBODY
from vinecast.core.traffic import Counts, Traffic


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """A tree for every topic; the members of topic t are start[t] … start[t + 1] − 1."""

    start: NDArray[np.int64]
    """[topic + 1]"""
    nodes: NDArray[np.int32]
    """[member], its number"""
    parent: NDArray[np.int64]
    """[member], the member above it, NOBODY for a root"""
    depth: NDArray[np.int16]
    """[member], links to the root"""
    subscribed: NDArray[np.bool_]
    """[member], or it only forwards"""

    @property
    def topics(self) -> NDArray[np.int64]:
        """[member], its topic"""
        return np.repeat(np.arange(self.start.size - 1), np.diff(self.start))

    def members_of(self, nodes: NDArray[np.int32]) -> NDArray[np.int64]:
        """Which member of topic t's tree nodes[t] is; NOBODY where it is none. nodes: [topic] → [topic]"""
        topics = self.topics
        found = np.full(nodes.size, NOBODY, dtype=np.int64)
        here = np.flatnonzero(self.nodes == nodes[topics])
        found[topics[here]] = here
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Detours:
    """What routing a forest's links means."""

    hops: NDArray[np.int16]
    """[member], hops from its parent to it; 1 where nobody is between them"""
    relayed: Counts
    """Messages that a node passes on between a parent and a child, if one goes down every link."""


def hops_of(
    forest: Forest, publisher: NDArray[np.int32], detours: Detours | None = None
) -> NDArray[np.int64]:
    """Hops that each topic's event travels to each member, NOBODY where nobody publishes.

    publisher: [topic], members of their trees, or NOBODY → [member]
    """
    down = forest.depth.astype(np.int64)
    if detours is not None:
        for depth in range(1, int(forest.depth.max(initial=0)) + 1):
            here = np.flatnonzero(forest.depth == depth)
            down[here] = down[forest.parent[here]] + detours.hops[here]
    at = forest.members_of(publisher)
    up = np.where(at != NOBODY, forest.depth[at], NOBODY)[forest.topics]
    return np.where(up != NOBODY, up + down, NOBODY)


def traffic_of(
    forest: Forest, nodes: int, publisher: NDArray[np.int32], detours: Detours | None = None
) -> Traffic:
    """One event a topic, and one heartbeat a link. (Upkeep is not the trees' business.)

    publisher: [topic], as for ``hops_of``, but somebody for every topic that has members
    """
    traffic = Traffic.none(nodes)
    below = np.flatnonzero(forest.parent != NOBODY)
    above = forest.parent[below]
    for received, sent in (
        (traffic.events_received, traffic.events_sent),
        (traffic.control_received, traffic.control_sent),
    ):
        _add(forest, received, below)
        _add(forest, sent, above)
        if detours is not None:
            received += detours.relayed
            sent += detours.relayed
    at = forest.members_of(publisher)
    at = at[at != NOBODY]
    while (at := at[forest.parent[at] != NOBODY]).size:  # all events climb one link
        _add(forest, traffic.events_sent, at)
        at = forest.parent[at]
        _add(forest, traffic.events_received, at)
    return traffic


def _add(forest: Forest, counts: Counts, members: NDArray[np.int64]) -> None:
    """One message at each of some members."""
    cell = forest.subscribed[members] * counts.shape[1] + forest.nodes[members]
    counts += np.bincount(cell, minlength=counts.size).reshape(counts.shape)
