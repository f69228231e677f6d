"""Algorithm 5 of S2, over one node's topics.

To keep proposals from going in circles, one is taken from a neighbour only if it is the neighbour's own or
its *parent*, from whom the neighbour has it, is not a neighbour too; a node counts as its own neighbour here
(ours: else two that have lost their gateway would go on proposing it to each other, up to the limit of hops).

A gateway may be as many hops away as the limit says: so S2's text has it twice ("if this distance exceeds",
"a maximum of d hops away"), while line 10 of the algorithm leaves out the last one.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Table
from vinecast.core.arrays.topic_overlap import Scratch
from vinecast.core.rule import inner_rule, rule


class Proposed(NamedTuple):
    """Whom nodes propose as gateways, as their profiles say."""

    gateway: NDArray[np.int32]
    """[pool], the gateway"""
    parent: NDArray[np.int32]
    """[pool], from whom the peer has the proposal: itself, if it proposes itself"""
    hops: NDArray[np.uint8]
    """[pool], how far the gateway is"""


class Basis(NamedTuple):
    """What nodes propose by."""

    said: Proposed
    """What profiles say"""
    topic_place: NDArray[np.int32]
    """[topic]"""
    hops_max: int
    """How far a gateway may be"""


@inner_rule
def _distance(place: int, target: int, circle: int) -> int:
    up = (place - target) % circle
    return min(up, circle - up)


@rule
def propose(
    me: int, count: int, basis: Basis, table: Table, scratch: Scratch, mine: Proposed, begin: int
) -> None:
    """Revise the proposals of a node for all of its topics.

    The neighbours are the scratch's first ``count`` candidates, and nobody else is marked as seen in it but
    the node itself. mine: filled from row ``begin`` on, in the order of topics
    """
    circle, own, topics = int(table.circle[0]), int(table.beg[me]), int(table.cnt[me])
    stamp, said = scratch.stamp[0], basis.said
    for i in range(topics):
        mine.gateway[begin + i], mine.parent[begin + i], mine.hops[begin + i] = me, me, 0
    for place in range(count):
        peer = int(scratch.peers[place])
        i, row, end = 0, int(table.beg[peer]), int(table.beg[peer]) + int(table.cnt[peer])
        while i < topics and row < end:
            topic = table.topics[own + i]
            if topic != table.topics[row]:
                if topic < table.topics[row]:
                    i += 1
                else:
                    row += 1
                continue
            parent, gateway = int(said.parent[row]), int(said.gateway[row])
            if parent == peer or scratch.seen[parent] != stamp:
                at, hops, target = begin + i, int(said.hops[row]) + 1, int(basis.topic_place[topic])
                current = _distance(int(table.place[mine.gateway[at]]), target, circle)
                nearer = _distance(int(table.place[gateway]), target, circle) < current
                shorter = gateway == mine.gateway[at] and hops < mine.hops[at]
                if (nearer and hops <= basis.hops_max) or shorter:
                    mine.gateway[at], mine.parent[at], mine.hops[at] = gateway, peer, hops
            i += 1
            row += 1
