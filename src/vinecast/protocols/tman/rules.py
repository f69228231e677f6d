"""T-Man's decisions, over one node's table.

A table is a row: ``peers``, ``ages`` and ``missed`` [slot], entries packed at the front. An age is how many
cycles ago anybody, as far as one knows, heard from the peer; it travels with the entry. ``missed`` counts the
profiles that the peer has left unanswered here.

Candidates stand in a ``Scratch``, the table's own entries first and in their order, so that a candidate's
place tells whether, and where, it stood in the table before.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.suspicion import Suspicion, believes, forgive, gather_believed, note
from vinecast.core.arrays.topic_overlap import Scratch, begin_gathering, gather, gather_one
from vinecast.core.arrays.view import AGE_MAX, Ages, Peers, View, size_of
from vinecast.core.draws import below, purpose, stream
from vinecast.core.machine import NOBODY
from vinecast.core.rule import rule

MISSED_MAX = 255

Missed = NDArray[np.uint8]

_PARTNER = purpose("tman.partner")


@rule
def choose_partner(seed: int, cycle: int, me: int, peers: Peers, sample: Peers) -> int:
    """A random neighbour (Algorithm 1, line 2), or of the sample while the table is empty, or NOBODY."""
    key = stream(seed, _PARTNER, cycle, me)
    size = size_of(peers)
    if size > 0:
        return int(peers[below(key, 0, size)])
    size = size_of(sample)
    return int(sample[below(key, 0, size)]) if size > 0 else NOBODY


@rule
def gather_known(
    me: int, near: View, sample: View, met: View, suspicion: Suspicion, row: int, cycle: int, scratch: Scratch
) -> int:
    """The table, the sample and whom one was introduced to, as candidates; how many. Never oneself.

    Of the sample and of introductions only who is news, after who was silent.
    """
    count = begin_gathering(scratch)
    scratch.seen[me] = scratch.stamp[0]
    count = gather(scratch, count, near.peers, near.ages)
    count = gather_believed(scratch, count, sample.peers, sample.ages, suspicion, row, cycle)
    return gather_believed(scratch, count, met.peers, met.ages, suspicion, row, cycle)


@rule
def gather_told(
    sender: int,
    told: View,
    news_max: int,
    suspicion: Suspicion,
    row: int,
    cycle: int,
    count: int,
    scratch: Scratch,
) -> int:
    """The sender of a message and what it told, as further candidates; how many there are now."""
    count = gather_one(scratch, count, sender, 0)
    for i in range(told.peers.size):
        peer, age = int(told.peers[i]), int(told.ages[i])
        if peer != NOBODY and age <= news_max and believes(suspicion, row, cycle, peer, age):
            count = gather_one(scratch, count, peer, age)
    return count


@rule
def write_known(
    me: int, count: int, news_max: int, scratch: Scratch, out_peers: Peers, out_ages: Ages
) -> int:
    """Write oneself and the candidates into a message, as far as they are news; how many."""
    out_peers[0], out_ages[0] = me, 0
    written = 1
    for place in range(count):
        if scratch.ages[place] <= news_max and written < out_peers.size:
            out_peers[written], out_ages[written] = scratch.peers[place], scratch.ages[place]
            written += 1
    return written


@rule
def keep(peers: Peers, ages: Ages, missed: Missed, scratch: Scratch, found: int) -> None:
    """Make the chosen candidates the table; who stays keeps what it has missed."""
    size = size_of(peers)
    for slot in range(size):
        scratch.weight[slot] = missed[slot]
    for slot in range(peers.size):
        if slot < found:
            place = int(scratch.best[slot])
            peers[slot], ages[slot] = scratch.peers[place], scratch.ages[place]
            missed[slot] = scratch.weight[place] if place < size else 0
        else:
            peers[slot], ages[slot], missed[slot] = NOBODY, 0, 0


@rule
def hear_from(peers: Peers, ages: Ages, missed: Missed, peer: int, suspicion: Suspicion, row: int) -> None:
    """A neighbour was heard from: it is fresh again (Algorithm 7, line 3)."""
    forgive(suspicion, row, peer)
    for slot in range(peers.size):
        if peers[slot] == peer:
            ages[slot] = missed[slot] = 0


@rule
def remove(peers: Peers, ages: Ages, missed: Missed, peer: int) -> None:
    """Take a peer out of the table; the others keep their order."""
    size = size_of(peers)
    kept = 0
    for slot in range(size):
        if peers[slot] != peer:
            peers[kept], ages[kept], missed[kept] = peers[slot], ages[slot], missed[slot]
            kept += 1
    for slot in range(kept, size):
        peers[slot], ages[slot], missed[slot] = NOBODY, 0, 0


@rule
def offer(peers: Peers, ages: Ages, missed: Missed, offered: Peers, offered_ages: Ages) -> None:
    """Write down who answered the last profile, or was sent none: whom others can be introduced to."""
    for slot in range(peers.size):
        offered[slot], offered_ages[slot] = (peers[slot] if missed[slot] <= 1 else NOBODY), ages[slot]


@rule
def drop_stale(
    peers: Peers, ages: Ages, missed: Missed, threshold: int, suspicion: Suspicion, row: int, cycle: int
) -> int:
    """Take out, and remember as silent, who missed too many profiles; count one more for all others.

    Algorithm 6, lines 4 to 7. Returns how many were taken out.
    """
    size = size_of(peers)
    kept = 0
    for slot in range(size):
        peer, age, misses = int(peers[slot]), int(ages[slot]), int(missed[slot])
        if misses > threshold:
            note(suspicion, row, peer, cycle)
            continue
        peers[kept], ages[kept], missed[kept] = peer, min(age + 1, AGE_MAX), min(misses + 1, MISSED_MAX)
        kept += 1
    for slot in range(kept, size):
        peers[slot], ages[slot], missed[slot] = NOBODY, 0, 0
    return size - kept
