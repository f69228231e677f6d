"""Suspicion: a node's short memory of peers that did not answer it.

Peers leave views by silence only (S0 §5.4), and whoever has not noticed yet hands a dead peer on. What is
said about a peer is as old as its age: it is worth believing only if it is younger than the silence. Without
this memory the layers, and nodes among each other, bring the dead back to life again and again (ours;
S0 has no such memory).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.topic_overlap import Scratch, gather_one
from vinecast.core.machine import NOBODY
from vinecast.core.rule import rule

PLACES = 16
"""Peers that a node remembers, the latest ones: more than fall silent while word of one goes round."""


class Suspicion(NamedTuple):
    """Memories by row: one a node in a sweep, one in all in a machine."""

    peers: NDArray[np.int32]
    """[row, place]"""
    since: NDArray[np.int32]
    """[row, place], the cycle in which it was noticed"""


def make_suspicion(rows: int) -> Suspicion:
    """Empty memories."""
    shape = rows, PLACES
    return Suspicion(np.full(shape, NOBODY, dtype=np.int32), np.zeros(shape, dtype=np.int32))


@rule
def note(suspicion: Suspicion, row: int, peer: int, cycle: int) -> None:
    """Remember that a peer was found silent, in the place of the one that was first."""
    at = 0
    for place in range(PLACES):
        there = suspicion.peers[row, place]
        if there == peer:
            at = place
            break
        if suspicion.peers[row, at] != NOBODY and (
            there == NOBODY or suspicion.since[row, place] < suspicion.since[row, at]
        ):
            at = place
    suspicion.peers[row, at], suspicion.since[row, at] = peer, cycle


@rule
def forgive(suspicion: Suspicion, row: int, peer: int) -> None:
    """Forget the silence of a peer that was heard from."""
    for place in range(PLACES):
        if suspicion.peers[row, place] == peer:
            suspicion.peers[row, place] = NOBODY


@rule
def believes(suspicion: Suspicion, row: int, cycle: int, peer: int, age: int) -> bool:
    """Whether word of a peer, so many cycles old, is news to a node that may have found it silent."""
    for place in range(PLACES):
        if suspicion.peers[row, place] == peer:
            return age < cycle - int(suspicion.since[row, place])
    return True


@rule
def gather_believed(
    scratch: Scratch,
    count: int,
    peers: NDArray[np.int32],
    ages: NDArray[np.uint16],
    suspicion: Suspicion,
    row: int,
    cycle: int,
) -> int:
    """Like ``topic_overlap.gather``, without those of whom this is no news."""
    nobody_silent = True
    for place in range(PLACES):
        nobody_silent &= suspicion.peers[row, place] == NOBODY
    for i in range(peers.size):
        peer, age = int(peers[i]), int(ages[i])
        if peer != NOBODY and (nobody_silent or believes(suspicion, row, cycle, peer, age)):
            count = gather_one(scratch, count, peer, age)
    return count


class SuspicionMemory:
    """One machine's memory. The system counts its cycles."""

    def __init__(self) -> None:
        self.table = make_suspicion(1)
        self.cycle = 0

    def note(self, peer: int) -> None:
        """Remember that a peer was found silent."""
        note(self.table, 0, peer, self.cycle)

    def forgive(self, peer: int) -> None:
        """Forget the silence of a peer that was heard from."""
        forgive(self.table, 0, peer)

    def gather(self, scratch: Scratch, count: int, peers: NDArray[np.int32], ages: NDArray[np.uint16]) -> int:
        """See ``gather_believed``."""
        return gather_believed(scratch, count, peers, ages, self.table, 0, self.cycle)

    def clear(self) -> None:
        """Forget everything."""
        self.table.peers[:] = NOBODY
