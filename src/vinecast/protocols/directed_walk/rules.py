"""The decisions of a directed walk, at one node.

The neighbours are given as rows of ``homes`` [row, level, word], and ``masks`` [neighbour] says which levels
of each hold the group: bit n for level n (``core.arrays.bloom.levels_with``). Algorithm 2 looks through
neighbours in some order and does not say which; here it begins with a random one, so that of several wells as
near not always the same one draws (ours: else messages of a large group pile up at a few members and die).
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.bloom import holds, levels_with
from vinecast.core.draws import below, purpose, stream
from vinecast.core.rule import inner_rule, rule

NO_LEVEL = -1
"""The level of a message that nothing draws."""
NOWHERE = -1

_STEP = purpose("directed_walk.step")
_COPY = purpose("directed_walk.copy")

Homes = NDArray[np.uint64]
Peers = NDArray[np.int32]
Masks = NDArray[np.uint8]
Words = NDArray[np.uint64]


@rule
def look(homes: Homes, rows: Peers, item: int, hashes: int, masks: Masks) -> None:
    """Which levels of the neighbours' homes hold a group. masks: [neighbour], filled"""
    for i in range(rows.size):
        masks[i] = levels_with(homes[rows[i]], item, hashes)


Near = tuple[Homes, Peers, Masks, int, int]
"""What a node sees of its neighbours: homes; rows and masks [neighbour], of which so many count; and by how
many hashes homes are read. A plain tuple, as in Cyclon's rules: a message is on its way."""
Letter = tuple[int, int, int, Words, int]
"""What of a message decides its way: its walk, which tells copies apart; hops left; the level that drew it
here; negative [id], of which so many count."""


@inner_rule
def find_well(near: Near, start: int, negative: Words, known: int) -> tuple[int, int]:
    """The neighbour that draws, and by which level; NOWHERE and NO_LEVEL if none does (lines 12–21).

    negative: [id], of which the first ``known`` count; start: the neighbour to begin with
    """
    homes, rows, masks, count, hashes = near
    for level in range(homes.shape[1]):
        for i in range(count):
            place = start + i if start + i < count else start + i - count
            if not masks[place] >> level & 1:
                continue
            negated = False
            for j in range(known):
                if holds(homes[rows[place], level], negative[j], hashes):
                    negated = True
                    break
            if not negated:
                return place, level
    return NOWHERE, NO_LEVEL


@inner_rule
def step(near: Near, letter: Letter, seed: int, node: int) -> tuple[int, int, bool]:
    """Where a message goes next: the neighbour, the level that draws it there, and whether it was misled
    here. There is at least one neighbour."""
    walk, ttl, level, negative, known = letter
    count = near[3]
    key = stream(seed, _STEP, walk, node)
    start = int(np.int64(below(key, 2 * ttl, count)))  # a word, which does not mix with other numbers
    place, drawn = find_well(near, start, negative, known)
    misled = level != NO_LEVEL and not (drawn != NO_LEVEL and drawn < level)
    if misled or drawn == NO_LEVEL:
        return int(np.int64(below(key, 2 * ttl + 1, count))), NO_LEVEL, misled
    return place, drawn, False


@rule
def take_in(negative: Words, known: int, item: int) -> int:
    """Add to the negative ids; how many there are now. A full list loses its oldest but the publisher's."""
    for j in range(known):
        if negative[j] == item:
            return known
    if known == negative.size:
        for j in range(min(1, known - 1), known - 1):
            negative[j] = negative[j + 1]
        known -= 1
    negative[known] = item
    return known + 1


@inner_rule
def copy_key(seed: int, message: int, node: int) -> int:
    """The key of a node's copies of a message: the i-th draw is the i-th copy's ``walk``."""
    return stream(seed, _COPY, message, node)


@inner_rule
def first_place(key: int, count: int) -> int:
    """The neighbour that the first copy goes to; the others go to those after it."""
    return int(np.int64(below(key, _FIRST, count)))


_FIRST = 1 << 32
"""The number of a draw that no copy has."""
