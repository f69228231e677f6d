"""The choice of neighbours in Vinifera (S2 §4.2): the primary attribute, and friends by overlap.

utility(p, q) = |S_p ∩ S_q| / |S_p ∪ S_q|, S being what somebody wants of p's primary attribute  (formula 4.1)

in places of the circle, as whole numbers: fractions would not be the same bits everywhere.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Table
from vinecast.core.arrays.topic_overlap import Scratch
from vinecast.core.arrays.view import insert_best
from vinecast.core.draws import purpose, stream
from vinecast.core.machine import NOBODY
from vinecast.core.rule import inner_rule, rule, word
from vinecast.protocols.small_world import LinkChoice, put_links_first, select_links

_TIES = purpose("vinifera.ties")
_FRACTION = word(30)
_ZERO = word(0)


class Ranges(NamedTuple):
    """What everybody wants of every attribute, as rules take it (``ContentShared``)."""

    low: NDArray[np.int64]
    """[peer, attribute, range]"""
    high: NDArray[np.int64]
    """[peer, attribute, range]"""
    number: NDArray[np.int32]
    """[peer, attribute]"""
    constrained: NDArray[np.bool_]
    """[peer, attribute]"""


@inner_rule
def measure(ranges: Ranges, peer: int, attribute: int) -> int:
    """How many places somebody wants."""
    total = 0
    for i in range(ranges.number[peer, attribute]):
        total += int(ranges.high[peer, attribute, i]) - int(ranges.low[peer, attribute, i]) + 1
    return total


@inner_rule
def shared(ranges: Ranges, one: int, other: int, attribute: int) -> int:
    """How many places both want."""
    total, i, j = 0, 0, 0
    while i < ranges.number[one, attribute] and j < ranges.number[other, attribute]:
        last_i, last_j = int(ranges.high[one, attribute, i]), int(ranges.high[other, attribute, j])
        first = max(int(ranges.low[one, attribute, i]), int(ranges.low[other, attribute, j]))
        total += max(min(last_i, last_j) - first + 1, 0)
        if last_i < last_j:
            i += 1
        else:
            j += 1
    return total


@rule
def utility(ranges: Ranges, one: int, other: int, attribute: int) -> int:
    """Formula 4.1 in parts of 2³⁰. A word."""
    both = shared(ranges, one, other, attribute)
    either = measure(ranges, one, attribute) + measure(ranges, other, attribute) - both
    return (word(both) << _FRACTION) // word(either) if either > 0 else _ZERO


@rule
def select_primary(me: int, current: int, peers: NDArray[np.int32], ranges: Ranges) -> int:
    """The attribute on which most neighbours overlap with a node (Algorithm 8); of several, the current one,
    else the first. ``current`` if it says nothing about any. peers: packed"""
    found, most = current, -1
    for attribute in range(ranges.number.shape[1]):
        if not ranges.constrained[me, attribute]:
            continue
        rank = 0
        for slot in range(peers.size):
            if peers[slot] == NOBODY:
                break
            peer = int(peers[slot])
            if ranges.constrained[peer, attribute] and shared(ranges, me, peer, attribute) > 0:
                rank += 1
        if rank > most or (rank == most and attribute == current):
            found, most = attribute, rank
    return found


@rule
def select_neighbours(
    choice: LinkChoice, primary: int, count: int, most: int, table: Table, ranges: Ranges, scratch: Scratch
) -> int:
    """The ring, long links, and as many friends of the highest utility as there is room for (S2 §4.2).

    ``scratch.best`` receives their places among the candidates, in this order; how many they are. Equal
    utility is ordered by a draw that a node makes for good.
    """
    links = select_links(choice, count, table, scratch)
    found, room, me = 0, most - links, choice.me
    if room > 0:
        key = stream(choice.seed, _TIES, 0, me)
        for place in range(count):
            if scratch.weight[place] > 0:
                continue
            value = utility(ranges, me, int(scratch.peers[place]), primary)
            if found < room or value >= scratch.worth[room - 1]:
                found = insert_best(scratch, found, room, place, value, key)
    return put_links_first(scratch, links, found, count)
