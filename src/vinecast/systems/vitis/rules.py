"""The choice of neighbours in Vitis (S2 Algorithm 4), and what a topic weighs in it.

utility(i, j) = Σ rate(t) over the topics they share / Σ rate(t) over the topics of either    (S2 formula 3.1)

A node sees what is published on its own topics only. So it takes the shared topics' rates as it knows them
itself, and from the other's profile the sum of all of its rates. Rates are whole numbers, *weights*:
fractions would not be the same bits everywhere.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Table
from vinecast.core.arrays.topic_overlap import Scratch, unmark
from vinecast.core.arrays.view import insert_best
from vinecast.core.draws import purpose, stream
from vinecast.core.rule import inner_rule, rule, word
from vinecast.protocols.small_world import LinkChoice, put_links_first, select_links

SCALE = 64  # ours: the weight of a topic with one event a cycle
UNSEEN = 1  # ours: of a topic without; so that before anything is published all topics count alike
WEIGHT_MAX = 1 << 20  # ours: that of 16,384 events a cycle; sums and quotients stay within 64 bits
SMOOTHING = 3  # ours: an estimate goes an eighth of the way to what the last cycle brought

_TIES = purpose("vitis.ties")
_FRACTION = word(30)
_ZERO = word(0)


class Weights(NamedTuple):
    """What profiles say about rates."""

    weight: NDArray[np.uint32]
    """[pool], of a topic, as its subscriber estimates it"""
    total: NDArray[np.uint64]
    """[peer], of all topics of a peer"""


@inner_rule
def smooth(rate: int, seen: int) -> int:
    """A rate, in parts of SCALE an event a cycle, after a cycle that brought so many events."""
    return rate + ((seen * SCALE - rate) >> SMOOTHING)


@inner_rule
def weight_of(rate: int) -> int:
    """The weight of a topic of such a rate."""
    return max(UNSEEN, min(rate, WEIGHT_MAX))


@rule
def estimate_rates(
    rate: NDArray[np.int64], seen: NDArray[np.int64], weight: NDArray[np.uint32], begin: int, end: int
) -> int:
    """A cycle is over: bring rates up to date, and say what each topic weighs; the sum. All: [row]"""
    total = 0
    for row in range(begin, end):
        rate[row] = smooth(int(rate[row]), int(seen[row]))
        seen[row] = 0
        weight[row] = weight_of(int(rate[row]))
        total += int(weight[row])
    return total


@rule
def utility(shared: int, one: int, other: int) -> int:
    """Formula 3.1 in parts of 2³⁰, from the weights of the shared topics and of all of either. Words."""
    union = word(one) + word(other) - word(shared)
    return (word(shared) << _FRACTION) // union if union > _ZERO else _ZERO


@rule
def select_neighbours(
    choice: LinkChoice, count: int, most: int, table: Table, weights: Weights, scratch: Scratch
) -> int:
    """Algorithm 4: the ring, long links, and as many friends of the highest utility as there is room for.

    ``scratch.best`` receives their places among the candidates, in this order; how many they are. Equal
    utility is ordered by a draw that a node makes for good.
    """
    links, me = select_links(choice, count, table, scratch), choice.me
    begin, end = int(table.beg[me]), int(table.beg[me]) + int(table.cnt[me])
    found, room = 0, most - links
    if room > 0:
        for row in range(begin, end):
            scratch.mark[table.topics[row]] = weights.weight[row]
        key, total = stream(choice.seed, _TIES, 0, me), weights.total[me]
        for place in range(count):
            if scratch.weight[place] > 0:
                continue
            peer = int(scratch.peers[place])
            shared = word(0)
            for row in range(table.beg[peer], table.beg[peer] + table.cnt[peer]):
                shared += scratch.mark[table.topics[row]]
            value = utility(shared, total, weights.total[peer])
            if found < room or value >= scratch.worth[room - 1]:
                found = insert_best(scratch, found, room, place, value, key)
        unmark(scratch.mark, table.topics[begin:end])
    return put_links_first(scratch, links, found, count)
