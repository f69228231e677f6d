"""Identifiers and circle arithmetic: the only place that knows how ids are ordered.

Nodes and topics live on one circle of 2⁶⁴ points (S0 §2: ids are "sortable and … occupy a circular value
space"). Clockwise is towards higher ids and wraps from the highest to zero. Live ids are hashes (of a
node's public key, of a topic's name), simulated ones are drawn uniformly from the run's seed.
"""

import hashlib
import itertools

import numpy as np
from numpy.typing import NDArray

from vinecast.core.draws import draw_array, purpose, stream
from vinecast.core.rule import WORD_MASK, rule_on_words, word

BITS = 64
_IDS = purpose("circle.ids")


@rule_on_words
def clockwise(a: int, b: int) -> int:
    """How far it is from a to b going up, in [0, 2⁶⁴)."""
    return (word(b) - word(a)) & WORD_MASK


@rule_on_words
def distance(a: int, b: int) -> int:
    """The shorter way round between a and b, in [0, 2⁶³]."""
    up = clockwise(a, b)
    down = clockwise(b, a)
    return up if up < down else down


@rule_on_words
def between(x: int, a: int, b: int) -> bool:
    """Whether x lies on the arc that starts after a and ends at b, going up: (a, b].

    The half-open arc is the one that makes "b is responsible for x" unambiguous: the arcs between
    neighbours cover the circle exactly once. With a == b the arc is the whole circle.
    """
    if word(a) == word(b):
        return True
    reach = clockwise(a, x)
    return word(0) < reach and reach <= clockwise(a, b)


def id_of(data: bytes) -> int:
    """The point of anything that has bytes: the first 64 bits of its SHA-256."""
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big")


def simulated_ids(seed: int, count: int) -> NDArray[np.uint64]:
    """Ids of nodes 0 … count−1, uniform and distinct. [node]"""
    key = stream(seed, _IDS, 0, 0)
    ids = draw_array(key, np.arange(count))
    for attempt in itertools.count(1):
        _, first = np.unique(ids, return_index=True)
        if first.size == count:  # all but a chance of 2⁻⁶⁴ a pair, but distinct is a promise
            break
        again = np.setdiff1d(np.arange(count), first)
        ids[again] = draw_array(key, again + attempt * count)
    return ids
