"""Cyclon's decisions, over one node's view.

A node's view is a *row*: ``peers`` and ``ages`` [slot] with the entries packed at the front, and
``extent`` = (size, sent). The row reads

    [ sent and locked | free to be handed out | empty ]
      0 … sent−2        sent−1 … size−1         size … capacity−1

``sent`` counts the entries of the request that is in flight, the node's own among them; 0 when none is.
One slot less than that is locked, and the slot that the partner left is kept empty for the answer. The
order of entries inside a row means nothing, which is why a random choice is a partial shuffle in place.

Why locks: an entry that is handed to a second peer while a first may still replace it is copied, and some
other entry is lost: links are no longer conserved, and the in-degree spreads.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.draws import below, purpose, stream, substream
from vinecast.core.machine import NOBODY
from vinecast.core.rule import rule

AGE_MAX = 65535
"""Ages stop growing here; a view is turned over thousands of times before."""

SIZE, SENT = 0, 1
"""Where the two numbers stand in ``extent``."""

_REQUEST = purpose("cyclon.request")
_ANSWER = purpose("cyclon.answer")

Peers = NDArray[np.int32]
Ages = NDArray[np.uint16]
Extent = NDArray[np.int16]


Row = tuple[Peers, Ages, Extent]
"""A node's view. A plain tuple, not a named one: machines hand it over with every message, and Numba takes a
plain one apart at a fifth of the cost."""
Entries = tuple[Peers, Ages]
"""What a message carries, or has room for; a ``View`` is one too. [entry]"""


@rule
def grow_older(ages: Ages, size: int) -> None:
    """Once a cycle, every entry's age grows by one (S0 §5.4)."""
    for slot in range(size):
        if ages[slot] < AGE_MAX:
            ages[slot] += 1


@rule
def select_oldest(ages: Ages, size: int) -> int:
    """The slot of the least recently refreshed entry; the first one among equals."""
    oldest = 0
    for slot in range(1, size):
        if ages[slot] > ages[oldest]:
            oldest = slot
    return oldest


@rule
def swap_slots(peers: Peers, ages: Ages, a: int, b: int) -> None:
    """Let two entries change places."""
    peers[a], peers[b] = peers[b], peers[a]
    ages[a], ages[b] = ages[b], ages[a]


@rule
def choose_random(peers: Peers, ages: Ages, key: int, first: int, size: int, count: int) -> int:
    """Bring up to ``count`` random entries of first … size−1 to the front of that range; how many."""
    chosen = min(count, size - first)
    for i in range(chosen):
        swap_slots(peers, ages, first + i, first + i + below(key, i, size - first - i))
    return chosen


@rule
def hear_from(peers: Peers, ages: Ages, size: int, peer: int) -> None:
    """A peer's age is zeroed when a gossip message is received from it (S0 §5.4)."""
    for slot in range(size):
        if peers[slot] == peer:
            ages[slot] = 0


@rule
def knows(peers: Peers, size: int, peer: int) -> bool:
    """Whether the view has an entry of this peer."""
    found = False
    for slot in range(size):  # no early exit: the loop is compiled to a few vector comparisons
        found |= peers[slot] == peer
    return found


@rule
def merge_entries(
    row: Row, me: int, room: int, replaceable: int, replaceable_end: int, told: Entries
) -> None:
    """Take entries in: itself and known peers are left out; empty slots first, then what was sent.

    ``room`` is how large the view may grow; slots ``replaceable`` … ``replaceable_end``−1 hold what was
    sent. Entries for which there is no place are dropped.
    """
    peers, ages, extent = row
    new_peers, new_ages = told
    size = int(extent[SIZE])
    for i in range(new_peers.size):
        peer = new_peers[i]
        if peer in (me, NOBODY) or knows(peers, size, peer):
            continue
        if size < room:
            slot = size
            size += 1
        elif replaceable < replaceable_end:
            slot = replaceable
            replaceable += 1
        else:
            break
        peers[slot] = peer
        ages[slot] = new_ages[i]
    extent[SIZE] = size


@rule
def begin_exchange(row: Row, seed: int, cycle: int, me: int, out: Entries) -> tuple[int, int]:
    """Age the view, take the oldest entry out as partner, lock and write out what is sent to it.

    The request is the node's own entry, age 0, and as many random others as there is room for (S0 §5.3,
    after Cyclon's paper). A silent partner of the last cycle is already gone from the view: that is the whole
    failure detector. Returns (partner, entries written), partner = NOBODY when the view is empty.
    """
    peers, ages, extent = row
    out_peers, out_ages = out
    size = int(extent[SIZE])
    grow_older(ages, size)
    extent[SENT] = 0
    if size == 0:
        return NOBODY, 0
    oldest = select_oldest(ages, size)
    partner = int(peers[oldest])
    size -= 1
    peers[oldest], ages[oldest] = peers[size], ages[size]
    peers[size], ages[size] = NOBODY, 0
    key = stream(seed, _REQUEST, cycle, me)
    chosen = choose_random(peers, ages, key, 0, size, out_peers.size - 1)
    out_peers[0] = me
    out_ages[0] = 0
    for i in range(chosen):
        out_peers[i + 1] = peers[i]
        out_ages[i + 1] = ages[i]
    extent[SIZE] = size
    extent[SENT] = chosen + 1
    return partner, chosen + 1


@rule
def answer_request(row: Row, seed: int, cycle: int, me: int, sender: int, told: Entries, out: Entries) -> int:
    """Write out as many random unlocked entries as there is room for, then merge the request in their place.

    ``cycle`` is the initiator's, from its request. Returns how many entries were written.
    """
    peers, ages, extent = row
    out_peers, out_ages = out
    size, sent = int(extent[SIZE]), int(extent[SENT])
    locked = sent - 1 if sent > 0 else 0
    hear_from(peers, ages, size, sender)
    key = substream(stream(seed, _ANSWER, cycle, me), sender)
    chosen = choose_random(peers, ages, key, locked, size, out_peers.size)
    for i in range(chosen):
        out_peers[i] = peers[locked + i]
        out_ages[i] = ages[locked + i]
    room = peers.size - (1 if sent > 0 else 0)
    merge_entries(row, me, room, locked, locked + chosen, told)
    return chosen


@rule
def end_exchange(row: Row, me: int, partner: int, told: Entries) -> None:
    """Merge the answer in place of what was sent, and unlock."""
    peers, ages, extent = row
    hear_from(peers, ages, int(extent[SIZE]), partner)
    merge_entries(row, me, peers.size, 0, int(extent[SENT]) - 1, told)
    extent[SENT] = 0


@rule
def meet(row: Row, me: int, contact: int) -> None:
    """Take in a peer known from outside, age 0, if there is room for it."""
    peers, ages, extent = row
    size, sent = int(extent[SIZE]), int(extent[SENT])
    room = peers.size - (1 if sent > 0 else 0)
    if contact != me and contact != NOBODY and size < room and not knows(peers, size, contact):
        peers[size] = contact
        ages[size] = 0
        extent[SIZE] = size + 1


@rule
def admit(row: Row, me: int, contact: int) -> None:
    """Take in a peer known from outside, age 0, in the place of the last entry where there is no room."""
    peers, _, extent = row
    size, sent = int(extent[SIZE]), int(extent[SENT])
    room = peers.size - (1 if sent > 0 else 0)
    locked = sent - 1 if sent > 0 else 0
    if size == room and locked < size and contact not in (me, NOBODY) and not knows(peers, size, contact):
        extent[SIZE] = size - 1
    meet(row, me, contact)


@rule
def forget(row: Row, peer: int) -> None:
    """Drop the entry of a peer that is known to be gone; a locked one stays until the exchange ends."""
    peers, ages, extent = row
    size, sent = int(extent[SIZE]), int(extent[SENT])
    for slot in range(sent - 1 if sent > 0 else 0, size):
        if peers[slot] == peer:
            size -= 1
            peers[slot], ages[slot] = peers[size], ages[size]
            peers[size], ages[size] = NOBODY, 0
            extent[SIZE] = size
            return
