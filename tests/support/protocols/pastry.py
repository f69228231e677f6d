"""What tests of Pastry share: distances on the circle, and tables that are sound."""

import numpy as np

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.circle import simulated_ids
from vinecast.core.machine import NOBODY
from vinecast.protocols.pastry import Pastry, rules
from vinecast.protocols.pastry.rules import Peers

SECOND = 1_000_000
CIRCLE = 2**64
ROWS = 16


def some(*peers: int) -> Peers:
    return np.array(peers, dtype=np.int32)


def away(a: int, b: int) -> int:
    return min((a - b) % CIRCLE, (b - a) % CIRCLE)


def nearest_of(points: list[int], key: int, peers: list[int]) -> int:
    return min(peers, key=lambda peer: (away(points[peer], key), peer))


def profiles_of(nodes: int, seed: int = 1) -> Profiles:
    return Profiles(np.sort(simulated_ids(seed, nodes)), np.zeros(0, dtype=np.uint64))


def check_tables(node: Pastry, nodes: int) -> None:
    """Invariants that no accident may break."""
    for side in node.leafs.tolist():
        packed = [peer for peer in side if peer != NOBODY]
        assert side == packed + [NOBODY] * (len(side) - len(packed))
        assert len(set(packed)) == len(packed)
    known = node.known
    assert node.me not in known
    assert all(0 <= peer < nodes for peer in known)
    ids = node.profiles.ids
    for peer in set(node.table.ravel().tolist()) - {NOBODY}:
        row = rules.shared_digits(ids[node.me], ids[peer], ROWS)
        assert node.table[row, rules.digit(ids[peer], row, ROWS)] == peer
    assert np.count_nonzero(node.table != NOBODY) == len(set(node.table.ravel().tolist()) - {NOBODY})
    view = node.peers
    assert view.size == node.leafs.size + node.table.size
    assert sorted(view[view != NOBODY].tolist()) == sorted(known)
