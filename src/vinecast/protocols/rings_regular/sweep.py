"""Rows that change with the slots, for a whole population. Everybody is in the same slot.

Rows: [pool, place]; stored: [pool, slot, place]. ``table`` has everybody's topics, whether regular or not.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Table
from vinecast.core.arrays.ring_places import Ages, Peers
from vinecast.core.machine import NOBODY
from vinecast.core.rule import rule
from vinecast.protocols.rings_regular import rules
from vinecast.protocols.rings_regular.rules import Regular

Online = NDArray[np.bool_]


@rule
def enter_slot(
    peers: Peers,
    ages: Ages,
    stored_peers: Peers,
    stored_ages: Ages,
    before: NDArray[np.int32],
    slot: int,
    used: Online,
    lost: Online,
    online: Online,
    table: Table,
    regular: Regular,
    begin: int,
    end: int,
) -> None:
    """``change_slots`` for whoever is on line and was in another slot. before: [node], its slot, or −1

    Whoever came to another slot, or is regular and was not, considers everybody it knows again.
    used: [node], whether it is regular; lost: [node]
    """
    for p in range(begin, end):
        if not online[p]:
            continue
        if before[p] != slot:
            rows = slice(table.beg[p], table.beg[p] + table.cnt[p])
            rules.change_slots(
                p, peers[rows], ages[rows], stored_peers[rows], stored_ages[rows], int(before[p]), slot,
                table, regular,
            )  # fmt: skip
        lost[p] |= before[p] != slot or used[p] != regular[p, slot]
        used[p] = regular[p, slot]


@rule
def put_back(partner: Peers, peers: Peers, ages: Ages, table: Table, begin: int, end: int) -> None:
    """Let those who were just asked stand where they stood. partner: [node]; table: who is regular now"""
    for p in range(begin, end):
        if partner[p] != NOBODY:
            rows = slice(table.beg[p], table.beg[p] + table.cnt[p])
            rules.put_back(p, int(partner[p]), peers[rows], ages[rows], table)


@rule
def add_slot(
    peers: Peers, ages: Ages, stored_peers: Peers, slot: int, online: Online, table: Table, regular: Regular
) -> None:
    """Let everybody's neighbours of another slot serve too. peers, ages: copies"""
    for p in range(table.beg.size):
        if online[p]:
            rows = slice(table.beg[p], table.beg[p] + table.cnt[p])
            rules.add_slot(p, peers[rows], ages[rows], stored_peers[rows], slot, table, regular)
