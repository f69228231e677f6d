"""A view of the best: a row of entries, packed at the front, and the choice of what stands in it.

A view is ``peers`` and ``ages`` [slot], empty slots NOBODY; where both go together, a ``View``. What makes
an entry good is its protocol's business: candidates come in a ``Scratch``, each with what it is worth, and
the best of them become the view or a message.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Table
from vinecast.core.arrays.topic_overlap import Scratch, tie_break
from vinecast.core.machine import NOBODY
from vinecast.core.rule import inner_rule, rule

AGE_MAX = 65535
"""Ages stop growing here."""

Peers = NDArray[np.int32]
Ages = NDArray[np.uint16]


class View(NamedTuple):
    """Entries: a view, a message, or rows of them. A population's have an axis more, for nodes or rows."""

    peers: Peers
    """[slot]; empty slots hold NOBODY"""
    ages: Ages
    """[slot], in cycles"""


def make_view(*shape: int) -> View:
    """An empty one."""
    return View(np.full(shape, NOBODY, dtype=np.int32), np.zeros(shape, dtype=np.uint16))


@inner_rule
def view_of(views: View, node: int) -> View:
    """One node's view, of views [node, slot]."""
    return View(views.peers[node], views.ages[node])


@inner_rule
def rows_of(rows: View, node: int, table: Table) -> View:
    """One node's rows, of rows [pool, place]: one for each of its topics."""
    begin, end = table.beg[node], table.beg[node] + table.cnt[node]
    return View(rows.peers[begin:end], rows.ages[begin:end])


@inner_rule
def front_of(view: View, count: int) -> View:
    """The first so many entries."""
    return View(view.peers[:count], view.ages[:count])


@rule
def insert_best(scratch: Scratch, found: int, most: int, place: int, value: int, key: int) -> int:
    """Insert a candidate into the list of the best, which is kept in order; the list's new length.

    Equal worth is ordered by a draw with the key.
    """
    best, best_worth, best_tie = scratch.best, scratch.worth, scratch.tie
    tie = tie_break(key, int(scratch.peers[place]))
    at = found
    while at > 0 and value >= best_worth[at - 1]:
        if value == best_worth[at - 1] and tie > best_tie[at - 1]:
            break
        if at < most:
            best[at], best_worth[at], best_tie[at] = best[at - 1], best_worth[at - 1], best_tie[at - 1]
        at -= 1
    if at == most:
        return found
    best[at], best_worth[at], best_tie[at] = place, value, tie
    return found + 1 if found < most else most


@rule
def size_of(peers: Peers) -> int:
    """How many entries a view has."""
    size = 0
    while size < peers.size and peers[size] != NOBODY:
        size += 1
    return size


@rule
def take_oldest(peers: Peers, ages: Ages) -> int:
    """Age every entry by one, take the oldest out of the view; NOBODY when it is empty."""
    size = size_of(peers)
    if size == 0:
        return NOBODY
    oldest = 0
    for slot in range(size):
        if ages[slot] < AGE_MAX:
            ages[slot] += 1
        if ages[slot] > ages[oldest]:
            oldest = slot
    partner = int(peers[oldest])
    size -= 1
    peers[oldest], ages[oldest] = peers[size], ages[size]
    peers[size], ages[size] = NOBODY, 0
    return partner


@rule
def hear_from(peers: Peers, ages: Ages, peer: int) -> None:
    """A peer's age is zeroed when a gossip message is received from it (S0 §5.4)."""
    for slot in range(peers.size):
        if peers[slot] == peer:
            ages[slot] = 0


@rule
def keep(peers: Peers, ages: Ages, scratch: Scratch, found: int) -> None:
    """Make the chosen candidates the view."""
    for slot in range(peers.size):
        if slot < found:
            peers[slot], ages[slot] = scratch.peers[scratch.best[slot]], scratch.ages[scratch.best[slot]]
        else:
            peers[slot], ages[slot] = NOBODY, 0


@rule
def write_out(scratch: Scratch, found: int, out_peers: Peers, out_ages: Ages) -> None:
    """Write the chosen candidates into a message."""
    for i in range(found):
        out_peers[i], out_ages[i] = scratch.peers[scratch.best[i]], scratch.ages[scratch.best[i]]


@rule
def remove(peers: Peers, ages: Ages, peer: int) -> None:
    """Drop the entry of a peer that is known to be gone."""
    size = size_of(peers)
    for slot in range(size):
        if peers[slot] == peer:
            peers[slot], ages[slot] = peers[size - 1], ages[size - 1]
            peers[size - 1], ages[size - 1] = NOBODY, 0
            return
