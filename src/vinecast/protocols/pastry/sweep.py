"""Pastry for a whole population at rest: everybody's tables, and all the ways to a key.

*At rest* means that nobody comes or goes and that everybody has heard from everybody: then a leaf set is the
nearest on the circle, and a place in a table holds its owner's favourite (``rules.file_entry``). Machines
come close to that: a node never meets most of the others, and its favourite is the best of those it met.
Either is a random peer out of all that fit the place, and ways are about as long.

The ways to one key make a tree, because a hop depends on the key and on who makes it, not on who sent the
message. That tree, cut down to what some nodes need, is all that Scribe builds on.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.machine import NOBODY
from vinecast.core.rule import rule
from vinecast.protocols.pastry import rules
from vinecast.protocols.pastry.rules import HIGHER, LOWER, Ids, Peers

STEPS_MAX = 128
"""Hops of a way, at most (ours: twice what a table of one bit a digit can need)."""


class Routes(NamedTuple):
    """What everybody routes by."""

    ids: Ids
    """[node]"""
    leafs: Peers
    """[node, side, slot]"""
    tables: Peers
    """[node, row, column]"""


class WayTree(NamedTuple):
    """Ways to a key, united: the i-th node of the tree is nodes[i], …"""

    nodes: Peers
    parent: NDArray[np.int32]
    """… its next hop is the parent[i]-th, NOBODY for the root"""
    depth: NDArray[np.int16]
    """… it is so many hops from the root"""
    travels: NDArray[np.bool_]
    """… and whether it is one of those who travel, or only on the way of one."""


def leafs_at_rest(nodes: int, leaf_size: int) -> Peers:
    """The leaf sets. Numbers ascend with ids, so that neighbours on the circle are neighbours by number.

    [node, side, slot]
    """
    half = leaf_size // 2
    leafs: Peers = np.full((nodes, 2, half), NOBODY, dtype=np.int32)
    me, away = np.arange(nodes)[:, None], np.arange(1, min(half, nodes - 1) + 1)[None, :]
    leafs[:, LOWER, : away.size] = (me - away) % nodes
    leafs[:, HIGHER, : away.size] = (me + away) % nodes
    return leafs


@rule
def fill_tables(ids: Ids, seed: int, tables: Peers, begin: int, end: int) -> None:
    """Let nodes begin … end−1 meet everybody. tables: [node, row, column]"""
    for me in range(begin, end):
        for peer in range(ids.size):
            if peer != me:
                rules.file_entry(ids, me, seed, tables[me], peer, True)


@rule
def unite_ways(routes: Routes, key: int, travellers: Peers, place: NDArray[np.int32], tree: WayTree) -> int:
    """The ways of some nodes to a key, united to a tree. Returns how many nodes it has.

    ``place`` [node] is working memory, full of NOBODY, and left so. −1: a way did not end.
    """
    nodes, parent, depth, travels = tree.nodes, tree.parent, tree.depth, tree.travels
    count = 0
    for traveller in travellers:
        at, first = int(traveller), count
        while place[at] == NOBODY and count - first < STEPS_MAX:
            place[at] = count
            nodes[count], parent[count], travels[count] = at, NOBODY, False
            count += 1
            hop = rules.next_hop(routes.ids, at, routes.leafs[at], routes.tables[at], key, NOBODY)
            if hop == at:
                break
            parent[count - 1] = place[hop] if place[hop] != NOBODY else count
            at = hop
        if count - first >= STEPS_MAX:
            return -1
        for i in range(count - 1, first - 1, -1):
            depth[i] = 0 if parent[i] == NOBODY else depth[parent[i]] + 1
        travels[place[traveller]] = True
    for i in range(count):
        place[nodes[i]] = NOBODY
    return count


@rule
def follow_links(
    routes: Routes,
    nodes: Peers,
    parent: NDArray[np.int64],
    subscribed: NDArray[np.bool_],
    start: NDArray[np.int64],
    wants: NDArray[np.bool_],
    hops: NDArray[np.int16],
    relayed: NDArray[np.int64],
) -> None:
    """Route a message from every parent to every child of many trees, each to the child's own id.

    The members of tree t are start[t] … start[t + 1] − 1 of nodes, parent and subscribed. hops [member]: of
    the way from its parent. relayed [wanted, node]: how often a node is between the two, by whether it
    subscribes to that tree. ``wants`` [node] is working memory, all False, and left so.
    """
    ids, leafs, tables = routes.ids, routes.leafs, routes.tables
    for tree in range(start.size - 1):
        begin, end = start[tree], start[tree + 1]
        for i in range(begin, end):
            wants[nodes[i]] = subscribed[i]
        for i in range(begin, end):
            hops[i] = 0
            at, child = int(nodes[i]), int(nodes[i])
            if parent[i] != NOBODY:
                at = int(nodes[parent[i]])
            while at != child:
                at = rules.next_hop(ids, at, leafs[at], tables[at], ids[child], NOBODY)
                hops[i] += 1
                if at != child:
                    relayed[1 if wants[at] else 0, at] += 1
        for i in range(begin, end):
            wants[nodes[i]] = False
