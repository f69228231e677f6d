"""Topic overlap: who shares which topics with whom, and how much that is worth to somebody.

The worth of candidate q for p is S4's formula 2.1: the sum over shared topics t of |T_p|^(k − |S_t|), where
S_t are the neighbours that p has for t already and k is how many it wants. The powers leave 64-bit integers
at a few thousand topics; what the formula orders by is, in this order, the number of shared topics that lack
k neighbours, that lack k − 1, … and that lack none. ``worth`` is exactly that list of numbers, packed into
one word, thirteen bits a class and twelve for the topics that lack none; comparing words compares lists.
S0 §5.2 breaks ties by the number of shared topics, which among equal lists of lacks is the same order.

Topics are looked up through a *mark*: a word a topic of the whole system, zero everywhere except for the
topics of the node that is being served, where it is what sharing that topic is worth. Whoever marks also
unmarks.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.bitsets import Members, Sets, count_common, join, no_sets, words_for
from vinecast.core.draws import mix, substream
from vinecast.core.machine import NOBODY
from vinecast.core.rule import inner_rule, rule, word

WANTED_MAX = 4
"""The most neighbours a topic that can be wanted: one class for each that may be missing."""

TOPICS_MAX = 8191
"""The most topics that a node can subscribe to, since the numbers of a class have thirteen bits."""

COVERED_MAX = 4095
"""Topics that lack nothing count up to here; beyond, more of them make no difference."""

Topics = NDArray[np.int32]
Coverage = NDArray[np.uint8]
Mark = NDArray[np.uint64]

_CLASS = np.array([1, 1 << 12, 1 << 25, 1 << 38, 1 << 51], dtype=np.uint64)  # by how many are missing
_COVERED = word(COVERED_MAX)
_TWELVE = word(12)


class Scratch(NamedTuple):
    """Working memory of one thread: made once, left as it was found."""

    mark: Mark
    """[topic], 0"""
    row_of: NDArray[np.int16]
    """[topic], 0; narrow, to stay close at hand"""
    seen: NDArray[np.int32]
    """[peer], the stamp of the last gathering that met it"""
    stamp: NDArray[np.int32]
    """[1], the last gathering"""
    peers: NDArray[np.int32]
    """[candidate]"""
    ages: NDArray[np.uint16]
    """[candidate]"""
    best: NDArray[np.int32]
    """[place], the chosen candidates"""
    worth: NDArray[np.uint64]
    """[place], their worth"""
    tie: NDArray[np.uint64]
    """[place], what decides among equals"""
    slot: NDArray[np.int32]
    """[peer], its place among the candidates while it is one"""
    weight: NDArray[np.int32]
    """[candidate]"""
    gap: NDArray[np.int64]
    """[row + 1, side], how near a candidate must be"""
    near: NDArray[np.int32]
    """[topic, place on the ring]"""
    near_ages: NDArray[np.uint16]
    """[topic, place on the ring]"""
    candidates: Members
    """[word], 0; who is a candidate"""
    lacking: NDArray[np.uint64]
    """[class, word], 0; the topics of one node by how many neighbours they lack"""
    sets: Sets
    """Who follows what, in a small population"""


def make_scratch(
    peers: int, topics: int, topics_a_node: int, most: int, places: int = 4, sets: Sets | None = None
) -> Scratch:
    """Working memory for a system of so many peers and topics.

    ``most`` is the longest list ever chosen, ``places`` the neighbours a topic has on its ring. As long as
    there are sets, nobody's topics may change.
    """
    candidates = places * topics_a_node + 4 * most + 1
    return Scratch(
        mark=np.zeros(topics, dtype=np.uint64),
        row_of=np.zeros(topics, dtype=np.int16),
        seen=np.zeros(peers, dtype=np.int32),
        stamp=np.zeros(1, dtype=np.int32),
        peers=np.zeros(candidates, dtype=np.int32),
        ages=np.zeros(candidates, dtype=np.uint16),
        best=np.zeros(most, dtype=np.int32),
        worth=np.zeros(most, dtype=np.uint64),
        tie=np.zeros(most, dtype=np.uint64),
        slot=np.zeros(peers, dtype=np.int32),
        weight=np.zeros(candidates, dtype=np.int32),
        gap=np.zeros((max(topics_a_node, 1) + 1, 2), dtype=np.int64),
        near=np.zeros((max(topics_a_node, 1), places), dtype=np.int32),
        near_ages=np.zeros((max(topics_a_node, 1), places), dtype=np.uint16),
        candidates=np.zeros(words_for(peers), dtype=np.uint64),
        lacking=np.zeros((WANTED_MAX + 1, words_for(topics)), dtype=np.uint64),
        sets=no_sets() if sets is None else sets,
    )


@inner_rule
def lack_of(wanted: int, coverage: int) -> int:
    """How many neighbours a topic lacks that has so many, and so its class."""
    return min(max(wanted - coverage, 0), WANTED_MAX)


@inner_rule
def worth_of_one(lack: int) -> int:
    """What it is worth to share a topic that lacks so many neighbours."""
    return _CLASS[lack]  # type: ignore[no-any-return]


@rule
def mark_lacks(mark: Mark, topics: Topics, coverage: Coverage, wanted: int) -> None:
    """Mark a node's topics with what sharing each is worth to it."""
    for i in range(topics.size):
        mark[topics[i]] = worth_of_one(lack_of(wanted, int(coverage[i])))


@rule
def unmark(mark: Mark, topics: Topics) -> None:
    """Undo ``mark_lacks``."""
    for i in range(topics.size):
        mark[topics[i]] = 0


@rule
def worth(mark: Mark, topics: Topics) -> int:
    """What a candidate with these topics is worth to the node whose topics are marked."""
    if topics.size <= COVERED_MAX:
        packed = word(0)
        for i in range(topics.size):
            packed += mark[topics[i]]
        return packed
    lacks, covered = word(0), word(0)
    for i in range(topics.size):  # so many topics that the lowest class could spill into the next
        lacks += mark[topics[i]] >> _TWELVE
        covered += mark[topics[i]] & _COVERED
    return (lacks << _TWELVE) + (covered if covered < _COVERED else _COVERED)


@rule
def sort_lacks(scratch: Scratch, topics: Topics, coverage: Coverage, wanted: int) -> int:
    """Where there are sets, instead of ``mark_lacks``: sort a node's topics by what they lack; which classes
    have any, a bit each."""
    classes = 0
    for i in range(topics.size):
        lack = lack_of(wanted, int(coverage[i]))
        join(scratch.lacking[lack], int(topics[i]))
        classes |= 1 << lack
    return classes


@rule
def unsort(scratch: Scratch, classes: int) -> None:
    """Undo ``sort_lacks``."""
    for lack in range(WANTED_MAX + 1):
        if classes >> lack & 1:
            for at in range(scratch.lacking.shape[1]):
                scratch.lacking[lack, at] = 0


@inner_rule
def worth_by_sets(scratch: Scratch, classes: int, peer: int) -> int:
    """What a candidate is worth to the node whose topics are sorted; as ``worth``."""
    packed = word(0)
    for lack in range(WANTED_MAX + 1):
        if classes >> lack & 1:
            found = count_common(scratch.lacking[lack], scratch.sets.tastes[peer])
            packed += word(found if lack > 0 else min(found, COVERED_MAX)) * worth_of_one(lack)
    return packed


@rule
def begin_gathering(scratch: Scratch) -> int:
    """Start a new list of candidates; its length, 0."""
    scratch.stamp[0] += 1
    return 0


@inner_rule
def gather_one(scratch: Scratch, count: int, peer: int, age: int) -> int:
    """Append one peer, if it is not among the candidates yet; the new length."""
    if scratch.seen[peer] != scratch.stamp[0]:
        scratch.seen[peer] = scratch.stamp[0]
        scratch.peers[count] = peer
        scratch.ages[count] = age
        count += 1
    return count


@rule
def gather(scratch: Scratch, count: int, peers: NDArray[np.int32], ages: NDArray[np.uint16]) -> int:
    """Append the peers that are not among the candidates yet; the new length. peers, ages: flat.

    The first copy of a peer counts.
    """
    for i in range(peers.size):
        if peers[i] != NOBODY:
            count = gather_one(scratch, count, int(peers[i]), int(ages[i]))
    return count


@rule
def gather_rows(scratch: Scratch, count: int, peers: NDArray[np.int32], ages: NDArray[np.uint16]) -> int:
    """``gather`` row by row, in one call. peers, ages: [row, place]"""
    for row in range(peers.shape[0]):
        for place in range(peers.shape[1]):
            if peers[row, place] != NOBODY:
                count = gather_one(scratch, count, int(peers[row, place]), int(ages[row, place]))
    return count


@rule
def leave_out(scratch: Scratch, peers: NDArray[np.int32]) -> None:
    """Let these count as gathered already, without becoming candidates."""
    for i in range(peers.size):
        if peers[i] != NOBODY:
            scratch.seen[peers[i]] = scratch.stamp[0]


@inner_rule
def add_candidate(scratch: Scratch, place: int) -> None:
    """Let the candidate at a place join the set of candidates."""
    peer = int(scratch.peers[place])
    join(scratch.candidates, peer)
    scratch.slot[peer] = place


@inner_rule
def clear_candidates(scratch: Scratch, count: int) -> None:
    """Empty the set of candidates, in which nobody is but the first ``count`` candidates."""
    for i in range(count):
        scratch.candidates[scratch.peers[i] >> 6] = 0


@rule
def tie_break(key: int, peer: int) -> int:
    """A keyed random order among candidates of equal worth."""
    return mix(substream(key, peer))
