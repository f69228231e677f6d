"""Gravity for a whole population: homes as they are when nothing has changed for as many periods as levels.

links: [node, slot], ascending, NOBODY behind; degree: [node]. Ranges of nodes write only their own homes.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.bloom import insert
from vinecast.core.arrays.profiles import Table
from vinecast.core.rule import rule
from vinecast.protocols.gravity.rules import Homes, Peers, hold_next


@rule
def fill_own(
    homes: Homes,
    ids: NDArray[np.uint64],
    topic_ids: NDArray[np.uint64],
    table: Table,
    hashes: int,
    begin: int,
    end: int,
) -> None:
    """Level 0 of everybody's home: its id and its topics."""
    for node in range(begin, end):
        level = homes[node, 0]
        level[:] = 0
        insert(level, ids[node], hashes)
        for row in range(table.beg[node], table.beg[node] + table.cnt[node]):
            insert(level, topic_ids[table.topics[row]], hashes)


@rule
def fill_next(
    homes: Homes, links: Peers, degree: NDArray[np.int32], level: int, begin: int, end: int
) -> None:
    """A further level of everybody's home, when the level below it is there."""
    for node in range(begin, end):
        hold_next(homes[node, level], homes, links[node], degree[node], level - 1)
