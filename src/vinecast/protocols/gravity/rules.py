"""Gravity's decisions: what a home holds, and which of a neighbour's levels are believed."""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.bloom import Filter, insert, unite
from vinecast.core.rule import rule

Homes = NDArray[np.uint64]
"""[row, level, word]"""
Peers = NDArray[np.int32]
Levels = NDArray[np.uint8]
"""[neighbour], bit n for level n"""

ENOUGH = 3  # ours: neighbours that make a median
FULLER = 2.0  # ours: so many times as full as its neighbours' are on the whole, a level is not believed


@rule
def hold_own(level: Filter, items: Filter, hashes: int) -> None:
    """Level 0 of a home: the node's own items. items: [item]"""
    level[:] = 0
    for i in range(items.size):
        insert(level, items[i], hashes)


@rule
def hold_next(level: Filter, homes: Homes, rows: Peers, count: int, below: int) -> None:
    """A further level of a home: the union of the level below of these rows' homes (Algorithm 1, line 10)."""
    level[:] = 0
    for i in range(count):
        unite(level, homes[rows[i], below])


def believed(
    fill: NDArray[np.float64], others: NDArray[np.float64], calm: float, crowded: float
) -> NDArray[np.bool_]:
    """Which levels of a neighbour's home are used. fill: [level]; others: [neighbour, level], all of them

    A level that holds everything attracts everything. One that is hardly filled is taken as it is; level 0,
    which is about one node, must be such a one; those above it may be as full as is usual here, and a little
    more, since a neighbour of a node with many links sees more than others do.
    """
    limit = np.full(fill.size, calm)
    if others.shape[0] >= ENOUGH:
        limit[1:] = np.clip(FULLER * np.median(others, axis=0)[1:], calm, max(calm, crowded))
    usable: NDArray[np.bool_] = fill <= limit
    return usable
