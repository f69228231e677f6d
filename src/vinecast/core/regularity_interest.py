"""What a peer is worth to a node that wants regular peers with its own interests (S4 formula 6.1).

The worth of candidate q for p is |T_p ∩ T_q| · |Reg_p ∩ Reg_q| + Σ (|T_p| · |Reg_p|)^(k − count(t)) over the
shared topics t, where count(t) are the neighbours that p has for t already. As in ``interest`` the powers
leave 64-bit integers, and what the formula is meant to order by (S4 §6.4.2) is, in this order, the number of
shared topics that lack k neighbours, that lack k − 1, … that lack one; and among equals the first term
together with the ones of the topics that lack none, which grows as |T_p ∩ T_q| · (|Reg_p ∩ Reg_q| + 1).
``score_regular`` packs these numbers into one word, each class as wide as the target's number of topics
needs.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.interest import Scratch, unmark
from vinecast.core.profiles import Table
from vinecast.core.rule import inner_rule, rule, word

REGULAR_TOPICS_MAX = 4095
"""The most topics that a node can have here: four classes of twelve bits leave sixteen for the first term."""

_ONE = word(1)
_CLASSES = 4


@inner_rule
def _bits_of(number: int) -> int:
    """How many bits a number takes, at least one."""
    bits = 1
    while number >> bits:
        bits += 1
    return bits


@rule
def in_common(regular: NDArray[np.bool_], a: int, b: int) -> int:
    """In how many slots two peers are both regular. regular: [peer, slot]"""
    count = 0
    for slot in range(regular.shape[1]):
        count += int(regular[a, slot] & regular[b, slot])
    return count


@rule
def score_regular(
    target: int,
    wanted: int,
    count: int,
    table: Table,
    regular: NDArray[np.bool_],
    scratch: Scratch,
    scores: NDArray[np.uint64],
) -> None:
    """What the scratch's first ``count`` candidates are worth to ``target``. scores: [candidate]"""
    begin, end = int(table.beg[target]), int(table.beg[target]) + int(table.cnt[target])
    own, bits = table.topics[begin:end], _bits_of(int(table.cnt[target]))
    left = 64 - _CLASSES * bits
    spare = max(bits + _bits_of(regular.shape[1] + 1) - left, 0)
    for row in range(begin, end):
        lack = min(max(wanted - int(table.coverage[row]), 0), _CLASSES)
        value = _ONE << word(left + (lack - 1) * bits) if lack > 0 else word(0)
        scratch.mark[table.topics[row]] = value + _ONE
    low = (_ONE << word(left)) - _ONE
    for i in range(count):
        peer = int(scratch.peers[i])
        packed = word(0)
        for row in range(table.beg[peer], table.beg[peer] + table.cnt[peer]):
            packed += scratch.mark[table.topics[row]]
        shared = packed & low
        together = shared * word(in_common(regular, target, peer) + 1)
        scores[i] = (packed - shared) + (together >> word(spare))
    unmark(scratch.mark, own)
