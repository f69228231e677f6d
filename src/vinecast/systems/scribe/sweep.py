"""Scribe for a whole population at rest: every topic's tree, grown along Pastry's ways.

A subscriber asks the next hop on the way to the topic's key to be its parent, that one goes on in the same
way: so a tree is the union of its subscribers' ways. No order of joining and no message changes that, as long
as tables stand still. It equals what machines with the same tables build
(``tests/systems/scribe/test_scribe_sweep.py``). Networks that change need the event engine.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.circle import BITS
from vinecast.core.errors import Bug
from vinecast.core.machine import NOBODY
from vinecast.protocols.multicast_tree.sweep import Detours, Forest
from vinecast.protocols.pastry import sweep as pastry
from vinecast.protocols.pastry.rules import Peers
from vinecast.systems.scribe.machine import ScribeConfig


def tables_at_rest(config: ScribeConfig, seed: int, profiles: Profiles) -> tuple[Peers, Peers]:
    """Pastry's leaf sets [node, side, slot] and tables [node, row, column] when all have met."""
    nodes, digit_bits = profiles.peers, config.pastry.digit_bits
    tables: Peers = np.full((nodes, BITS // digit_bits, 1 << digit_bits), NOBODY, dtype=np.int32)
    pastry.fill_tables(profiles.ids, seed, tables, 0, nodes)
    return pastry.leafs_at_rest(nodes, config.pastry.leaf_size), tables


def grow_forest(profiles: Profiles, leafs: Peers, tables: Peers) -> Forest:
    """The tree of every topic, over its subscribers in ``profiles``."""
    nodes, topics = profiles.peers, profiles.topic_ids.size
    owner = profiles.owners()
    pool = np.flatnonzero(owner != NOBODY)
    pool = pool[np.lexsort((owner[pool], profiles.topics[pool]))]
    begin = np.searchsorted(profiles.topics[pool], np.arange(topics + 1))
    place = np.full(nodes, NOBODY, dtype=np.int32)
    tree = pastry.WayTree(
        np.empty(nodes, dtype=np.int32),
        np.empty(nodes, dtype=np.int32),
        np.empty(nodes, dtype=np.int16),
        np.empty(nodes, dtype=np.bool_),
    )
    routes = pastry.Routes(profiles.ids, leafs, tables)
    start = np.zeros(topics + 1, dtype=np.int64)
    trees: list[tuple[NDArray[np.generic], ...]] = []
    for topic in range(topics):
        subscribers = owner[pool[begin[topic] : begin[topic + 1]]]
        key = profiles.topic_ids[topic]
        count = pastry.unite_ways(routes, key, subscribers, place, tree)
        if count < 0:
            raise Bug(f"a way to topic {topic} did not end")
        start[topic + 1] = start[topic] + count
        members, parent, depth, travels = (column[:count].copy() for column in tree)
        trees.append((members, np.where(parent == NOBODY, NOBODY, parent + start[topic]), depth, travels))
    joined = [np.concatenate(column) for column in zip(*trees, strict=True)]
    return Forest(start, *joined)


def measure_detours(profiles: Profiles, leafs: Peers, tables: Peers, forest: Forest) -> Detours:
    """What it means for a forest's links if Pastry routes what goes from a parent to a child."""
    hops = np.zeros(forest.nodes.size, dtype=np.int16)
    relayed = np.zeros((2, profiles.peers), dtype=np.int64)
    pastry.follow_links(
        pastry.Routes(profiles.ids, leafs, tables), forest.nodes, forest.parent, forest.subscribed,
        forest.start, np.zeros(profiles.peers, dtype=np.bool_), hops, relayed,
    )  # fmt: skip
    return Detours(hops, relayed)
