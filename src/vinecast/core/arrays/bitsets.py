"""Sets in a small population, a bit a member: who follows a topic, and who follows how much of another's.

A thousand peers are sixteen words, and so are a thousand topics: to ask which of a hundred candidates follow
a topic, or how many topics two peers share, takes sixteen steps instead of a look at every topic of every
candidate. A sweep of a small population has both: the *fans* of each topic, and the *tastes* of each peer.
Whoever chooses among candidates makes them a set, and meets it with fans.

Peers are numbered in the order of their places on the circle (core/arrays/profiles.py).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.rule import WORD_MASK, inner_rule, rule, word

Members = NDArray[np.uint64]
"""[word], bit i mod 64 of word i // 64 for member i"""

PEERS_MAX, WORDS_MAX = 2048, 1 << 18
"""Ours: beyond, candidates are lost in a set of all peers, and sets of either kind take over 2 MB."""

_ONE, _TWO, _FOUR, _56 = word(1), word(2), word(4), word(56)
_8, _16, _32 = word(8), word(16), word(32)
_ODD, _PAIRS, _NIBBLES = word(0x5555_5555_5555_5555), word(0x3333_3333_3333_3333), word(0x0F0F_0F0F_0F0F_0F0F)
_BYTES = word(0x0101_0101_0101_0101)


class Sets(NamedTuple):
    """Who follows what. Both are of no size where lists of topics are looked through instead."""

    fans: NDArray[np.uint64]
    """[topic, word], peers"""
    tastes: NDArray[np.uint64]
    """[peer, word], topics"""


def no_sets() -> Sets:
    """For a population that is too large, or whose topics change."""
    none = np.zeros((0, 0), dtype=np.uint64)
    return Sets(none, none)


def words_for(members: int) -> int:
    """Words of a set of so many."""
    return (members + 63) // 64


def make_sets(start: NDArray[np.int64], node: NDArray[np.int32], peers: int) -> Sets:
    """The sets of a population, where they pay. start, node: as ``Subscribers`` has them

    A peer's set of topics must not be longer than its list; long lists are looked through more often.
    """
    topics, lists = start.size - 1, np.bincount(node, minlength=1)
    length = (lists**2).sum() / max(lists.sum(), 1)
    words = max(topics * words_for(peers), peers * words_for(topics))
    if peers > PEERS_MAX or words > WORDS_MAX or words_for(topics) > length:
        return no_sets()
    fans = np.zeros((topics, words_for(peers)), dtype=np.uint64)
    tastes = np.zeros((peers, words_for(topics)), dtype=np.uint64)
    _fill(start, node, fans, tastes)
    return Sets(fans, tastes)


@rule
def _fill(
    start: NDArray[np.int64], node: NDArray[np.int32], fans: NDArray[np.uint64], tastes: NDArray[np.uint64]
) -> None:
    for topic in range(start.size - 1):
        for i in range(start[topic], start[topic + 1]):
            join(fans[topic], int(node[i]))
            join(tastes[node[i]], topic)


@inner_rule
def ones(x: int) -> int:
    """How many bits a word has set (compilers know this for what it is, one instruction)."""
    pairs = word(x) - ((word(x) >> _ONE) & _ODD)
    fours = (pairs & _PAIRS) + ((pairs >> _TWO) & _PAIRS)
    return int(((((fours + (fours >> _FOUR)) & _NIBBLES) * _BYTES) & WORD_MASK) >> _56)


@inner_rule
def lowest(x: int) -> int:
    """The lowest bit that is set, of a word that has one."""
    return ones((word(x) ^ (word(x) - _ONE)) >> _ONE)


@inner_rule
def highest(x: int) -> int:
    """The highest bit that is set, of a word that has one."""
    filled = word(x) | (word(x) >> _ONE)
    filled |= filled >> _TWO
    filled |= filled >> _FOUR
    filled |= filled >> _8
    filled |= filled >> _16
    filled |= filled >> _32
    return ones(filled) - 1


@inner_rule
def join(members: Members, one: int) -> None:
    """One member more."""
    members[one >> 6] |= np.uint64(_ONE << word(one & 63))


@inner_rule
def count_common(some: Members, others: Members) -> int:
    """How many are members of both."""
    count = 0
    for at in range(some.size):
        count += ones(word(some[at]) & word(others[at]))
    return count


@inner_rule
def take_above(
    fans: Members, candidates: Members, at: int, row: NDArray[np.int32], first: int, end: int
) -> None:
    """Write the fans among candidates who are nearest above a peer, who is not in it, to places first … end−1
    of a row, nearest first. Above the highest comes the lowest."""
    home = at >> 6
    above = (((WORD_MASK << word(at & 63)) & WORD_MASK) << _ONE) & WORD_MASK
    here = home
    left = word(fans[here]) & word(candidates[here]) & above
    for step in range(candidates.size + 1):
        while left != 0 and first < end:
            row[first] = (here << 6) + lowest(left)
            left &= left - _ONE
            first += 1
        if first == end:
            break
        here = here + 1 if here + 1 < candidates.size else 0
        left = word(fans[here]) & word(candidates[here])
        if step == candidates.size - 1:  # once around
            left &= WORD_MASK ^ above


@inner_rule
def take_below(
    fans: Members, candidates: Members, at: int, row: NDArray[np.int32], first: int, end: int
) -> None:
    """… nearest below; below the lowest comes the highest."""
    home = at >> 6
    below = (_ONE << word(at & 63)) - _ONE
    here = home
    left = word(fans[here]) & word(candidates[here]) & below
    for step in range(candidates.size + 1):
        while left != 0 and first < end:
            top = highest(left)
            row[first] = (here << 6) + top
            left ^= _ONE << word(top)
            first += 1
        if first == end:
            break
        here = here - 1 if here > 0 else candidates.size - 1
        left = word(fans[here]) & word(candidates[here])
        if step == candidates.size - 1:
            left &= WORD_MASK ^ below
