"""Vicinity's decisions, over one node's view and whatever candidates it has.

A view is a row of ``peers`` and ``ages`` [slot], entries packed at the front, empty slots NOBODY. Candidates
come as flat arrays; where they come from (the other layers' views, a message) is the system's business.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.index import Index
from vinecast.core.arrays.profiles import Table
from vinecast.core.arrays.topic_overlap import (
    COVERED_MAX,
    Scratch,
    lack_of,
    mark_lacks,
    sort_lacks,
    unmark,
    unsort,
    worth,
    worth_by_sets,
    worth_of_one,
)
from vinecast.core.arrays.view import (
    AGE_MAX,
    Ages,
    Peers,
    hear_from,
    insert_best,
    keep,
    remove,
    size_of,
    take_oldest,
    write_out,
)
from vinecast.core.draws import purpose, stream
from vinecast.core.exchange import Turn
from vinecast.core.rule import rule

__all__ = [
    "AGE_MAX",
    "NOTHING_KNOWN",
    "Ages",
    "Peers",
    "Worths",
    "hear_from",
    "keep",
    "remove",
    "select_best",
    "select_best_of",
    "size_of",
    "take_oldest",
    "write_out",
]

_TIES = purpose("vicinity.ties")

Worths = NDArray[np.uint64]

NOTHING_KNOWN: Worths = np.zeros(0, dtype=np.uint64)


@rule
def select_best(
    turn: Turn, wanted: int, count: int, most: int, table: Table, scratch: Scratch, known: Worths
) -> int:
    """The ``most`` candidates that are worth most to the target, best first (S0 §5.2); how many there are.

    The candidates are the first ``count`` of the scratch; ``scratch.best`` receives the places of the chosen
    among them. The target itself is left out. Equal worth is ordered by a keyed draw.
    known: [place], what the first of the candidates are worth, as far as somebody has asked already
    """
    target = int(turn.target)
    rows = slice(table.beg[target], table.beg[target] + table.cnt[target])
    own, coverage, classes = table.topics[rows], table.coverage[rows], 0
    small = scratch.sets.tastes.shape[0] > 0
    if small:
        classes = sort_lacks(scratch, own, coverage, wanted)
    else:
        mark_lacks(scratch.mark, own, coverage, wanted)
    key = stream(turn.seed, _TIES, turn.cycle, target)
    found = 0
    for place in range(count):
        peer = int(scratch.peers[place])
        if peer == target:
            continue
        if place < known.size:
            value = known[place]
        elif small:
            value = worth_by_sets(scratch, classes if table.cnt[peer] > 0 else 0, peer)
        else:
            value = worth(scratch.mark, table.topics[table.beg[peer] : table.beg[peer] + table.cnt[peer]])
        if found < most or value >= scratch.worth[most - 1]:
            found = insert_best(scratch, found, most, place, value, key)
    if small:
        unsort(scratch, classes)
    else:
        unmark(scratch.mark, own)
    return found


@rule
def select_best_of(
    index: Index, turn: Turn, wanted: int, count: int, most: int, table: Table, scratch: Scratch
) -> int:
    """The same as ``select_best``, with an index that lists the candidates by the target's topics."""
    target = int(turn.target)
    if table.cnt[target] > COVERED_MAX:  # sums could spill from class to class
        return select_best(turn, wanted, count, most, table, scratch, index.worth[:0])
    begin, end = int(table.beg[target]), int(table.beg[target]) + int(table.cnt[target])
    own, base = table.topics[begin:end], int(index.state[0])
    for number in range(index.state[1]):
        index.worth[number] = 0
    for row in range(begin, end):
        value = worth_of_one(lack_of(wanted, int(table.coverage[row])))
        at = index.list_of[table.topics[row]] + 1
        for i in range(index.begin[at], index.begin[at + 1]):
            index.worth[index.member[i]] += value
    mark_lacks(scratch.mark, own, table.coverage[begin:end], wanted)
    key = stream(turn.seed, _TIES, turn.cycle, target)
    found = 0
    for place in range(count):
        peer = int(scratch.peers[place])
        if peer == target:
            continue
        number = int(index.number[peer]) - base
        if number >= 0:
            value = index.worth[number]
        else:
            value = worth(scratch.mark, table.topics[table.beg[peer] : table.beg[peer] + table.cnt[peer]])
        if found < most or value >= scratch.worth[most - 1]:
            found = insert_best(scratch, found, most, place, value, key)
    unmark(scratch.mark, own)
    return found
