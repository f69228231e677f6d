"""What a peer is worth to a node that wants regular peers with its own topics (S4 formula 6.1).

The worth of candidate q for p is |T_p ∩ T_q| · |Reg_p ∩ Reg_q| + Σ (|T_p| · |Reg_p|)^(k − count(t)) over the
shared topics t, where count(t) are the neighbours that p has for t already. As in ``topic_overlap`` the
powers leave 64-bit integers, and what the formula is meant to order by (S4 §6.4.2) is, in this order, the
number of shared topics that lack k neighbours, that lack k − 1, … that lack one; and among equals the first
term together with the ones of the topics that lack none, which grows as |T_p ∩ T_q| · (|Reg_p ∩ Reg_q| + 1).
``score_regular`` packs these numbers into one word, each class as wide as the target's number of topics
needs.

Patterns come as sets of slots (``Patterns.packed``).
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.bitsets import count_common
from vinecast.core.arrays.profiles import Table
from vinecast.core.arrays.topic_overlap import WANTED_MAX, Scratch, lack_of, sort_lacks, unmark, unsort
from vinecast.core.rule import inner_rule, rule, word

REGULAR_TOPICS_MAX = 4095
"""The most topics that a node can have here: four classes of twelve bits leave sixteen for the first term."""

_ONE = word(1)
_CLASSES = WANTED_MAX


@inner_rule
def _bits_of(number: int) -> int:
    """How many bits a number takes, at least one."""
    bits = 1
    while number >> bits:
        bits += 1
    return bits


@rule
def in_common(packed: NDArray[np.uint64], a: int, b: int) -> int:
    """In how many slots two peers are both regular. packed: [peer, word]"""
    return count_common(packed[a], packed[b])


@rule
def score_regular(
    target: int,
    wanted: int,
    count: int,
    table: Table,
    packed: NDArray[np.uint64],
    scratch: Scratch,
    scores: NDArray[np.uint64],
) -> None:
    """What the scratch's first ``count`` candidates are worth to ``target``. scores: [candidate]"""
    bits = _bits_of(int(table.cnt[target]))
    left = 64 - _CLASSES * bits
    if scratch.sets.tastes.shape[0] > 0:
        _add_up_sets(target, wanted, count, left, bits, table, scratch, scores)
    else:
        _add_up_topics(target, wanted, count, left, bits, table, scratch, scores)
    spare = max(bits + _bits_of(64 * packed.shape[1] + 1) - left, 0)
    low = (_ONE << word(left)) - _ONE
    for i in range(count):
        shared = word(scores[i]) & low
        together = shared * word(in_common(packed, target, int(scratch.peers[i])) + 1)
        scores[i] = (word(scores[i]) - shared) + (together >> word(spare))


@rule
def _add_up_topics(
    target: int, wanted: int, count: int, left: int, bits: int, table: Table, scratch: Scratch,
    scores: NDArray[np.uint64],
) -> None:  # fmt: skip
    """The numbers of shared topics: that lack so many in the classes, and of all of them in the low bits."""
    begin, end = int(table.beg[target]), int(table.beg[target]) + int(table.cnt[target])
    for row in range(begin, end):
        lack = lack_of(wanted, int(table.coverage[row]))
        value = _ONE << word(left + (lack - 1) * bits) if lack > 0 else word(0)
        scratch.mark[table.topics[row]] = value + _ONE
    for i in range(count):
        peer = int(scratch.peers[i])
        packed = word(0)
        for row in range(table.beg[peer], table.beg[peer] + table.cnt[peer]):
            packed += scratch.mark[table.topics[row]]
        scores[i] = packed
    unmark(scratch.mark, table.topics[begin:end])


@rule
def _add_up_sets(
    target: int, wanted: int, count: int, left: int, bits: int, table: Table, scratch: Scratch,
    scores: NDArray[np.uint64],
) -> None:  # fmt: skip
    """The same, from sets of topics."""
    own = slice(table.beg[target], table.beg[target] + table.cnt[target])
    classes = sort_lacks(scratch, table.topics[own], table.coverage[own], wanted)
    for i in range(count):
        peer, packed = int(scratch.peers[i]), word(0)
        for lack in range(_CLASSES + 1):
            if classes >> lack & 1 and table.cnt[peer] > 0:
                found = word(count_common(scratch.lacking[lack], scratch.sets.tastes[peer]))
                packed += found if lack == 0 else found + (found << word(left + (lack - 1) * bits))
        scores[i] = packed
    unsort(scratch, classes)
