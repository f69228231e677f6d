"""Rows that change with the slots.

The rows in use are ``peers`` and ``ages`` [topic of mine, place], as in Rings; those of all slots are stored
in [topic of mine, slot, place]. S4's Algorithm 10 offers every peer that it meets to the rows of all slots
that the peer is regular in. Since most who are regular in a slot are so in the next, it is enough to offer
those who stand on the rows of a slot to the rows of the next, when that begins.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Table
from vinecast.core.arrays.ring_places import Ages, Peers, offer
from vinecast.core.arrays.view import View
from vinecast.core.machine import NOBODY
from vinecast.core.rule import rule

Regular = NDArray[np.bool_]


@rule
def _take_up(rows: View, row: int, stored: View, slot: int, regular: Regular) -> None:
    """Make a row what it was in the slot's last window, without those who are no longer regular in it."""
    half = rows.peers.shape[1] // 2
    for side in range(2):
        to = side * half
        for place in range(side * half, side * half + half):
            peer = int(stored.peers[row, slot, place])
            if peer != NOBODY and regular[peer, slot]:
                rows.peers[row, to], rows.ages[row, to] = peer, stored.ages[row, slot, place]
                to += 1
        while to < side * half + half:
            rows.peers[row, to], rows.ages[row, to] = NOBODY, 0
            to += 1


@rule
def change_slots(
    me: int, rows: View, stored: View, before: int, after: int, table: Table, regular: Regular
) -> None:
    """Store the rows of the slot before (−1: there was none), take up those of the slot after, and offer them
    whoever stood on the same row before and is regular after."""
    for row in range(rows.peers.shape[0]):
        if before >= 0:
            for place in range(rows.peers.shape[1]):
                stored.peers[row, before, place] = rows.peers[row, place]
                stored.ages[row, before, place] = rows.ages[row, place]
        _take_up(rows, row, stored, after, regular)
        if before >= 0:
            for place in range(rows.peers.shape[1]):
                peer = int(stored.peers[row, before, place])
                if peer != NOBODY and regular[peer, after]:
                    offer(rows.peers, rows.ages, row, me, peer, int(stored.ages[row, before, place]), table)


@rule
def add_slot(me: int, rows: View, stored_peers: Peers, slot: int, table: Table, regular: Regular) -> None:
    """Let the neighbours of another slot serve too: offer them to (copies of) the rows (S4 §6.5)."""
    for row in range(rows.peers.shape[0]):
        for place in range(rows.peers.shape[1]):
            peer = int(stored_peers[row, slot, place])
            if peer != NOBODY and regular[peer, slot]:
                offer(rows.peers, rows.ages, row, me, peer, 0, table)


@rule
def put_back(me: int, partner: int, peers: Peers, ages: Ages, table: Table) -> None:
    """Let a partner that was just asked stand where it stood, age 0, until it proves silent (S4 Algorithm
    8)."""
    mine = table.topics[table.beg[me] : table.beg[me] + table.cnt[me]]
    theirs = table.topics[table.beg[partner] : table.beg[partner] + table.cnt[partner]]
    i = 0
    for row in range(mine.size):
        while i < theirs.size and theirs[i] < mine[row]:
            i += 1
        if i < theirs.size and theirs[i] == mine[row]:
            offer(peers, ages, row, me, partner, 0, table)
