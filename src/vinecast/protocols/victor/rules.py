"""Victor's decisions, over one node's view, buckets and consider sets.

The view is the bucket of the present slot: ``peers`` and ``ages`` [place], packed at the front. The buckets
of all slots lie in ``SlotBuckets``; that of the present slot is taken up when the slot begins and put back
when it ends. Beside each lies its consider set: peers that were met in other slots.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.suspicion import Suspicion, believes
from vinecast.core.arrays.topic_overlap import Scratch, gather_one
from vinecast.core.arrays.view import Ages, Peers, View, insert_best
from vinecast.core.draws import purpose, stream
from vinecast.core.machine import NOBODY
from vinecast.core.rule import rule

_TIES = purpose("victor.ties")

Regular = NDArray[np.bool_]
Scores = NDArray[np.uint64]


class SlotBuckets(NamedTuple):
    """One node's: all [slot, place], ``next_place`` [slot]. A population's have an axis for nodes before."""

    peers: Peers
    ages: Ages
    aside_peers: Peers
    """The consider sets; as in the buckets, empty places hold NOBODY."""
    aside_ages: Ages
    next_place: NDArray[np.int32]
    """Where the next one goes that is put aside."""


def make_buckets(shape: tuple[int, ...], places: int) -> SlotBuckets:
    """Empty buckets; shape: (slots,) or (nodes, slots)"""
    full = (*shape, places)
    return SlotBuckets(
        peers=np.full(full, NOBODY, dtype=np.int32),
        ages=np.zeros(full, dtype=np.uint16),
        aside_peers=np.full(full, NOBODY, dtype=np.int32),
        aside_ages=np.zeros(full, dtype=np.uint16),
        next_place=np.zeros(shape, dtype=np.int32),
    )


@rule
def select_best(
    target: int, seed: int, cycle: int, count: int, most: int, scores: Scores, scratch: Scratch
) -> int:
    """The ``most`` candidates that are worth most to ``target``, best first; how many there are.

    The candidates are the first ``count`` of the scratch, and ``scores`` says what each is worth;
    ``scratch.best`` receives the places of the chosen. The target itself is left out (S4 Algorithm 5).
    """
    key = stream(seed, _TIES, cycle, target)
    found = 0
    for place in range(count):
        value = scores[place]
        if scratch.peers[place] != target and (found < most or value >= scratch.worth[most - 1]):
            found = insert_best(scratch, found, most, place, value, key)
    return found


@rule
def gather_regular(scratch: Scratch, count: int, entries: View, slot: int, regular: Regular) -> int:
    """Append to the candidates who is regular in a slot; the new length. regular: [peer, slot]"""
    for i in range(entries.peers.size):
        peer = int(entries.peers[i])
        if peer != NOBODY and regular[peer, slot]:
            count = gather_one(scratch, count, peer, int(entries.ages[i]))
    return count


@rule
def gather_news(
    scratch: Scratch,
    count: int,
    entries: View,
    slot: int,
    regular: Regular,
    suspicion: Suspicion,
    row: int,
    cycle: int,
) -> int:
    """… without those that the node has found silent, and of whom this is no news."""
    for i in range(entries.peers.size):
        peer, age = int(entries.peers[i]), int(entries.ages[i])
        if peer != NOBODY and regular[peer, slot] and believes(suspicion, row, cycle, peer, age):
            count = gather_one(scratch, count, peer, age)
    return count


@rule
def has(peers: Peers, peer: int) -> bool:
    """Whether a peer is among these."""
    found = False
    for i in range(peers.size):
        found |= peers[i] == peer
    return found


@rule
def has_none(peers: Peers) -> bool:
    """Whether all places are empty."""
    empty = True
    for i in range(peers.size):
        empty &= peers[i] == NOBODY
    return empty


@rule
def put_aside(view: View, slot: int, regular: Regular, buckets: SlotBuckets) -> None:
    """Put a view's peers up for consideration in all other slots that they are regular in."""
    aside_peers, aside_ages, next_place = buckets.aside_peers, buckets.aside_ages, buckets.next_place
    for i in range(view.peers.size):
        peer = int(view.peers[i])
        if peer == NOBODY:
            break
        for other in range(aside_peers.shape[0]):
            if other == slot or not regular[peer, other]:
                continue
            if not has(buckets.peers[other], peer) and not has(aside_peers[other], peer):
                at = int(next_place[other])
                aside_peers[other, at], aside_ages[other, at] = peer, view.ages[i]
                next_place[other] = (at + 1) % aside_peers.shape[1]


@rule
def take_up(view: View, bucket: View, slot: int, regular: Regular) -> None:
    """Make a bucket's peers the view, as far as they still are regular."""
    size = 0
    for i in range(bucket.peers.size):
        peer = int(bucket.peers[i])
        if peer != NOBODY and regular[peer, slot]:
            view.peers[size], view.ages[size] = peer, bucket.ages[i]
            size += 1
    for i in range(size, view.peers.size):
        view.peers[i], view.ages[i] = NOBODY, 0


@rule
def change_slots(view: View, before: int, after: int, regular: Regular, buckets: SlotBuckets) -> None:
    """Put the view back into the bucket of the slot before (−1: there was none), and take up the one
    after."""
    if before >= 0:
        put_aside(view, before, regular, buckets)
        for i in range(view.peers.size):
            buckets.peers[before, i], buckets.ages[before, i] = view.peers[i], view.ages[i]
    take_up(view, View(buckets.peers[after], buckets.ages[after]), after, regular)


@rule
def clear_aside(buckets: SlotBuckets, slot: int) -> None:
    """Empty a slot's consider set."""
    for i in range(buckets.aside_peers.shape[1]):
        buckets.aside_peers[slot, i] = NOBODY
